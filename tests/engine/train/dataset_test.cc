#include "engine/train/dataset.h"

#include <algorithm>

#include "engine/train/batches.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

class DatasetTest : public TrainerTest {
 protected:
  std::shared_ptr<Dataset> Numbers(int64_t rows) {
    auto dataset = *Dataset::Create({{"x", {2}, DType::kUint8, 0.5, 1.0}, {"y", Shape::Scalar(), DType::kInt32}}, rows, *memory_);
    std::string x;
    std::vector<int32_t> y;
    for (int64_t r = 0; r < rows; ++r) {
      x.push_back(static_cast<char>(r)), x.push_back(static_cast<char>(r + 1));
      y.push_back(static_cast<int32_t>(-r));
    }
    EXPECT_OK(dataset->Append("x", x));
    EXPECT_OK(dataset->Append("y", absl::string_view(reinterpret_cast<const char*>(y.data()), y.size() * 4)));
    EXPECT_OK(dataset->Commit());
    return dataset;
  }
  static std::vector<int64_t> RowsOf(const absl::StatusOr<Tensor>& rows) {
    EXPECT_OK(rows.status());
    return {rows->data<int64_t>(), rows->data<int64_t>() + rows->Size()};
  }
};

TEST_F(DatasetTest, ArrivesInPieces) {
  auto dataset = *Dataset::Create({{"x", {2}, DType::kUint8}}, 3, *memory_);
  ASSERT_OK(dataset->Append("x", "abcd"));
  EXPECT_EQ(*dataset->bytes_appended("x"), 4);
  EXPECT_EQ(dataset->Commit().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(dataset->Append("x", "efg").code(), absl::StatusCode::kOutOfRange);
  ASSERT_OK(dataset->Append("x", "ef"));
  ASSERT_OK(dataset->Commit());
  EXPECT_EQ(dataset->Append("x", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(dataset->Append("z", "").code(), absl::StatusCode::kNotFound);
}

TEST_F(DatasetTest, RefusesWhatIsNoTable) {
  const auto code = [&](std::vector<Column> columns, int64_t rows) {
    return Dataset::Create(std::move(columns), rows, *memory_).status().code();
  };
  EXPECT_EQ(code({}, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"x", {2}}}, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"x", {2}}, {"x", {3}}}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"x", {-1}}}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"x", {1 << 30}}}, int64_t{1} << 40), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"x", {1 << 20}}}, 1 << 20), absl::StatusCode::kResourceExhausted);
}

TEST_F(DatasetTest, GathersScaledAndConverted) {
  auto dataset = Numbers(5);
  Tensor x = *Tensor::Empty(*memory_, {2, 2}, DType::kFloat32), y = *Tensor::Empty(*memory_, {2}, DType::kFloat32);
  const int64_t rows[] = {3, 0};
  ASSERT_OK(dataset->Gather(0, rows, x));
  ASSERT_OK(dataset->Gather(1, rows, y));
  EXPECT_EQ(Values(x), (std::vector<float>{2.5, 3, 1, 1.5}));
  EXPECT_EQ(Values(y), (std::vector<float>{-3, 0}));
  const int64_t outside[] = {0, 5};
  EXPECT_EQ(dataset->Gather(0, outside, x).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(DatasetTest, AnEpochsOrderIsAPermutationOfItsOwn) {
  auto dataset = Numbers(100);
  auto first = RowsOf(dataset->Order(1, 0)), second = RowsOf(dataset->Order(1, 1));
  EXPECT_NE(first, second);
  EXPECT_NE(first, RowsOf(dataset->Order(2, 0)));
  EXPECT_EQ(first, RowsOf(Numbers(100)->Order(1, 0)));
  // The order is part of what a checkpoint promises: these rows may never change.
  EXPECT_EQ(std::vector<int64_t>(first.begin() + 3, first.begin() + 8), RowsOf(dataset->Rows({1, 0, 3, 5, true})));
  std::sort(first.begin(), first.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(first[static_cast<size_t>(i)], i);
  EXPECT_EQ(dataset->Rows({1, 0, 98, 3, true}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RowsOf(dataset->Rows({1, 0, 98, 2, false})), (std::vector<int64_t>{98, 99}));
}

// The numbers of rows take more memory than rows of a byte, or of none.
TEST_F(DatasetTest, OrdersArePaidForAndKeptWhileThereIsMemory) {
  const auto budget = std::make_shared<Budget>("the test", 100'000, "--max_tensor_bytes");
  const auto memory = *DeviceAllocator::Create(Device(), budget);
  auto dataset = *Dataset::Create({{"x", Shape::Scalar(), DType::kUint8}}, 1000, *memory);
  ASSERT_OK(dataset->Append("x", std::string(1000, 'x')));
  ASSERT_OK(dataset->Commit());
  const int64_t rows_alone = budget->used();
  ASSERT_OK(dataset->Order(1, 0).status());
  const int64_t order = budget->used() - rows_alone;
  EXPECT_GE(order, 8000);
  for (uint64_t epoch = 0; epoch < 6; ++epoch) ASSERT_OK(dataset->Order(1, epoch).status());
  EXPECT_EQ(budget->used(), rows_alone + 4 * order) << "so many are kept";
  const Tensor held = *dataset->Order(1, 5);
  Tensor rest = *Tensor::Empty(*memory, {budget->limit() - budget->used() - order / 2}, DType::kInt8);
  ASSERT_OK(dataset->Order(1, 9).status());
  rest = {};
  EXPECT_EQ(budget->used(), rows_alone + 2 * order) << "the others made room";

  auto nothing = *Dataset::Create({{"x", {0}, DType::kUint8}}, 1 << 28, *memory);
  ASSERT_OK(nothing->Commit());
  EXPECT_EQ(nothing->Order(1, 0).status().code(), absl::StatusCode::kResourceExhausted);
  for (const bool shuffle : {false, true}) {
    EXPECT_EQ(nothing->Rows({1, 0, 5, 1 << 27, shuffle}).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(DatasetTest, BatchesGoFromEpochToEpoch) {
  auto dataset = Numbers(10);
  auto model = MakeModel({"Dense", "", {{"units", "1"}}}, {{"x", {-1, 2}}});
  Staging staging(*model, 1);
  const std::vector<ModelInput> inputs = {{"x", {-1, 2}}};
  const auto sizes = [&](DatasetBatchesOptions options) {
    auto source = DatasetBatches(std::move(options), inputs, 0, &staging);
    EXPECT_OK(source.status());
    std::vector<int64_t> sizes;
    Batch batch;
    while (!(*source)->done()) {
      EXPECT_OK((*source)->Next(&batch));
      sizes.push_back(batch.samples);
    }
    return std::pair(sizes, *(*source)->position());
  };
  DatasetBatchesOptions options;
  options.dataset = dataset;
  options.batch_size = 4;
  options.batches = 5;
  auto [dropped, after] = sizes(options);
  EXPECT_EQ(dropped, (std::vector<int64_t>{4, 4, 4, 4, 4}));
  EXPECT_EQ(after.epoch, 2u);
  EXPECT_EQ(after.row, 4);
  options.keep_last = true;
  EXPECT_EQ(sizes(options).first, (std::vector<int64_t>{4, 4, 2, 4, 4}));
  options.batches = 0;
  EXPECT_EQ(sizes(options).first, (std::vector<int64_t>{4, 4, 2}));
  options.batch_size = 0;
  EXPECT_EQ(DatasetBatches(options, inputs, 0, &staging).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond
