// Datasets and the batches of a DataLoader.

#include "gluond/data.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using Ints = std::vector<int32_t>;

class DataTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("GLUOND_SERVER", "server/gluond-server", 0);
    if (session_ == nullptr) session_ = new Session(Session::StartServer().value());
    Session::SetDefault(*session_);
  }
  static void TearDownTestSuite() {
    delete session_;
    session_ = nullptr;
  }

  static Session* session_;
};

Session* DataTest::session_ = nullptr;

// Rows {i, 10 i}, labels i.
std::shared_ptr<const data::ArrayDataset> Numbers(int32_t n) {
  std::vector<float> values;
  Ints labels;
  for (int32_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(i));
    values.push_back(static_cast<float>(10 * i));
    labels.push_back(i);
  }
  return data::ArrayDataset::Of({Tensor::Of<float>({n, 2}, values), Tensor::Of<int32_t>({n}, labels)}).value();
}

// The labels of each batch of an epoch.
std::vector<Ints> Epoch(const data::DataLoader& loader) {
  std::vector<Ints> batches;
  for (const auto& [row, label] : loader) {
    batches.push_back(*label.Values<int32_t>());
    std::vector<float> expected;
    for (const int32_t each : batches.back()) {
      expected.push_back(static_cast<float>(each));
      expected.push_back(static_cast<float>(10 * each));
    }
    EXPECT_EQ(*row.Values<float>(), expected);
    EXPECT_EQ(row.shape()->front(), static_cast<int64_t>(batches.back().size()));
  }
  return batches;
}

data::LoaderOptions Options(int64_t batch_size, data::LastBatch last, bool shuffle = false) {
  data::LoaderOptions options;
  options.batch_size = batch_size;
  options.last_batch = last;
  options.shuffle = shuffle;
  options.seed = 7;
  return options;
}

TEST_F(DataTest, TheLastBatchIsKeptLeftOutOrRolledOver) {
  const data::DataLoader keep(Numbers(5), Options(2, data::LastBatch::kKeep));
  EXPECT_EQ(keep.size(), 3);
  EXPECT_EQ(Epoch(keep), (std::vector<Ints>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(Epoch(keep), (std::vector<Ints>{{0, 1}, {2, 3}, {4}}));

  const data::DataLoader discard(Numbers(5), Options(2, data::LastBatch::kDiscard));
  EXPECT_EQ(discard.size(), 2);
  EXPECT_EQ(Epoch(discard), (std::vector<Ints>{{0, 1}, {2, 3}}));

  const data::DataLoader rollover(Numbers(5), Options(2, data::LastBatch::kRollover));
  EXPECT_EQ(rollover.size(), 2);
  EXPECT_EQ(Epoch(rollover), (std::vector<Ints>{{0, 1}, {2, 3}}));
  EXPECT_EQ(rollover.size(), 3);
  EXPECT_EQ(Epoch(rollover), (std::vector<Ints>{{4, 0}, {1, 2}, {3, 4}}));
  EXPECT_EQ(Epoch(rollover), (std::vector<Ints>{{0, 1}, {2, 3}}));
}

TEST_F(DataTest, TheSeedTellsTheOrderOfEachEpoch) {
  const data::DataLoader loader(Numbers(10), Options(10, data::LastBatch::kKeep, true));
  std::mt19937_64 random(7);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Ints expected = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (size_t i = 9; i > 0; --i) std::swap(expected[i], expected[random() % (i + 1)]);
    EXPECT_EQ(Epoch(loader), (std::vector<Ints>{expected}));
  }
}

TEST_F(DataTest, WithoutPrefetchTheBatchesAreTheSame) {
  for (const int64_t prefetch : {0, 1, 100}) {
    data::LoaderOptions options = Options(3, data::LastBatch::kKeep, true);
    options.prefetch = prefetch;
    const data::DataLoader loader(Numbers(100), options);
    EXPECT_EQ(Epoch(loader), Epoch(data::DataLoader(Numbers(100), Options(3, data::LastBatch::kKeep, true))));
  }
}

// Says how many batches were asked for, and by whom.
class Counted : public data::Dataset {
 public:
  int64_t size() const override { return 100; }
  absl::StatusOr<std::vector<Tensor>> Take(absl::Span<const int64_t> rows) const override {
    std::lock_guard<std::mutex> lock(mutex_);
    ++calls_;
    by_others_ = by_others_ || std::this_thread::get_id() != maker_;
    if (rows[0] == fails_at) return absl::DataLossError("row 20 cannot be read");
    return std::vector<Tensor>{Tensor::Of<int64_t>({1}, {rows[0]})};
  }
  int calls() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  bool by_others() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return by_others_;
  }

  int64_t fails_at = -1;

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
  mutable std::mutex mutex_;
  mutable int calls_ = 0;
  mutable bool by_others_ = false;
};

TEST_F(DataTest, AThreadMakesTheNextBatchesAndNoMore) {
  const auto dataset = std::make_shared<Counted>();
  data::LoaderOptions options = Options(1, data::LastBatch::kKeep);
  options.prefetch = 3;
  {
    const data::DataLoader loader(dataset, options);
    auto batch = loader.begin();
    // One is taken, three lie ready, and the next one may be in the making: nobody takes more.
    while (dataset->calls() < 4) std::this_thread::yield();
    EXPECT_TRUE(dataset->by_others());
    EXPECT_FALSE(batch->label().is_defined());
    EXPECT_EQ(*batch->data().Item<int64_t>(), 0);
  }
  EXPECT_EQ(dataset->calls(), 4);  // Left out: the epoch was given up.
}

TEST_F(DataTest, AnErrorComesAsTheLastBatch) {
  for (const int64_t prefetch : {0, 2}) {
    const auto dataset = std::make_shared<Counted>();
    dataset->fails_at = 20;
    data::LoaderOptions options = Options(1, data::LastBatch::kKeep);
    options.prefetch = prefetch;
    int batches = 0;
    absl::Status last;
    for (const data::Batch& batch : data::DataLoader(dataset, options)) {
      ++batches;
      last = batch.data().Wait();
    }
    EXPECT_EQ(batches, 21);
    EXPECT_TRUE(absl::IsDataLoss(last)) << last;
  }
  for (const auto& [row, label] : data::DataLoader(nullptr)) EXPECT_TRUE(absl::IsInvalidArgument(row.Wait()));
  for (const auto& [row, label] : data::DataLoader(Numbers(2), Options(0, data::LastBatch::kKeep))) {
    EXPECT_TRUE(absl::IsInvalidArgument(label.Wait()));
  }
  EXPECT_TRUE(Epoch(data::DataLoader(Numbers(0), Options(2, data::LastBatch::kKeep, true))).empty());
}

TEST_F(DataTest, BatchesGoToTheSessionOfTheThreadThatBegan) {
  const Session other = Session::StartServer().value();
  Session::SetDefault(*session_);
  data::DataLoader loader(Numbers(2), Options(2, data::LastBatch::kKeep));
  const SessionScope scope(other);
  for (const auto& [row, label] : loader) EXPECT_EQ(*(row + NDArray::Ones({2, 2})).Sum().Item(), 15);
}

TEST_F(DataTest, AModelLearnsFromTheBatches) {
  NDArray weight = NDArray::Zeros({2});
  const data::DataLoader loader(Numbers(8), Options(4, data::LastBatch::kKeep, true));
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (const auto& [row, label] : loader) {
      weight.AttachGrad();
      NDArray loss;
      {
        const autograd::Record record;
        const NDArray difference = op::Dot(row, weight) - label.AsType(DType::kFloat32);
        loss = (difference * difference).Mean();
      }
      loss.Backward();
      weight -= 0.0003 * weight.grad();
    }
  }
  EXPECT_NEAR(*(op::Dot(NDArray::Of<float>({2}, {3, 30}), weight)).Item(), 3, 0.01);
}

std::string Path(const std::string& name) { return testing::TempDir() + "data_test_" + name; }

std::string WriteBytes(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return Path(name);
}

std::string WritePacked(const std::string& name, const std::string& bytes) {
  const gzFile file = gzopen(Path(name).c_str(), "wb");
  EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  gzclose(file);
  return Path(name);
}

std::string Idx(const std::string& sizes, const std::string& values) {
  return std::string("\0\0\x08", 3) + static_cast<char>(sizes.size()) + [&] {
    std::string words;
    for (const char each : sizes) words += std::string("\0\0\0", 3) + each;
    return words;
  }() + values;
}

TEST_F(DataTest, IdxFilesPackedOrNot) {
  const std::string images = Idx("\2\2\2", "abcdefgh"), labels = Idx("\2", "\1\xff");
  EXPECT_EQ(*data::ReadIdx(WriteBytes("i", images)), Tensor::Of<uint8_t>({2, 2, 2}, {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}));
  const auto dataset = data::FromIdxFiles(WritePacked("i.gz", images), WriteBytes("l", labels));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->columns()[0].shape(), (Shape{2, 2, 2, 1}));
  EXPECT_EQ((*dataset)->columns()[1], Tensor::Of<int32_t>({2}, {1, 255}));
  EXPECT_TRUE(absl::IsInvalidArgument(data::FromIdxFiles(Path("l"), Path("i")).status()));
  EXPECT_TRUE(absl::IsNotFound(data::ReadIdx(Path("none")).status()));
}

TEST_F(DataTest, DamagedIdxFilesAreErrors) {
  const std::string good = Idx("\2\2", "abcd");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("cut", good.substr(0, size))).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("more", good + "e")).status()));
  EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("floats", std::string("\0\0\x0d\1\0\0\0\0", 8))).status()));
  EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("scalar", std::string("\0\0\x08\0", 4))).status()));
  // Sizes that lie: 2^32 - 1 in each of 2 or 255 dimensions.
  EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("huge", std::string("\0\0\x08\2", 4) + std::string(8, '\xff'))).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(data::ReadIdx(WriteBytes("vast", std::string("\0\0\x08\xff", 4) + std::string(1020, '\xff'))).status()));
  std::ifstream packed(WritePacked("p.gz", good), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(packed), {});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(data::ReadIdx(WriteBytes("cut.gz", bytes.substr(0, size))).status())) << size;
  }
}

TEST_F(DataTest, DebiansFashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  const auto dataset = data::FromIdxFiles(folder + "t10k-images-idx3-ubyte.gz", folder + "t10k-labels-idx1-ubyte.gz");
  if (absl::IsNotFound(dataset.status())) GTEST_SKIP() << "there is no package dataset-fashion-mnist";
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->columns()[0].shape(), (Shape{10000, 28, 28, 1}));
  const Ints labels = *(*dataset)->columns()[1].Values<int32_t>();
  for (int32_t c = 0; c < 10; ++c) EXPECT_EQ(std::count(labels.begin(), labels.end(), c), 1000);
}

TEST_F(DataTest, FilesOfArraysAreDatasets) {
  const std::string path = Path("d.safetensors");
  ASSERT_TRUE(SaveTensors(path, {{"x", Tensor::Of<float>({2, 1}, {1, 2})}, {"y", Tensor::Of<int32_t>({2}, {3, 4})}}).ok());
  const auto dataset = data::FromFile(path, {"y", "x"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->columns()[0], Tensor::Of<int32_t>({2}, {3, 4}));
  const absl::Status missing = data::FromFile(path, {"z"}).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_NE(missing.message().find("it has: x, y"), absl::string_view::npos) << missing;
}

TEST_F(DataTest, TensorsOfADatasetHaveAsManySamples) {
  const Tensor two = Tensor::Of<float>({2}, {1, 2}), three = Tensor::Of<float>({3}, {1, 2, 3});
  EXPECT_TRUE(absl::IsInvalidArgument(data::ArrayDataset::Of(std::vector<Tensor>{}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(data::ArrayDataset::Of(std::vector<Tensor>{two, three}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(data::ArrayDataset::Of(std::vector<Tensor>{Tensor::Of<float>({}, {1})}).status()));
  const auto arrays = gluon::data::ArrayDataset::Of(std::vector<NDArray>{NDArray(two) * 2});
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ((*arrays)->columns()[0], Tensor::Of<float>({2}, {2, 4}));
  EXPECT_TRUE(absl::IsOutOfRange((*arrays)->Take({2}).status()));
}

}  // namespace
}  // namespace gluond::client
