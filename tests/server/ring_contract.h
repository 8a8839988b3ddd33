// The contract of server/group/ring.h, as tests over any transport: INSTANTIATE_TEST_SUITE_P(Name, RingTest, RingsOf(make)).

#ifndef TESTS_SERVER_RING_CONTRACT_H_
#define TESTS_SERVER_RING_CONTRACT_H_

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/group/ring.h"
#include "tests/server/fake_ring.h"

namespace gluond::server {

using std::chrono::milliseconds;

// A row for each rank. Numbers of many magnitudes: another order of additions has other bits.
template <class T>
std::vector<std::vector<T>> RandomRows(int64_t rows, int64_t elements, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::vector<std::vector<T>> all(rows, std::vector<T>(elements));
  for (auto& row : all) {
    for (T& x : row) x = static_cast<T>(std::ldexp(mantissa(random), exponent(random)));
  }
  return all;
}

// The sum of rows in the tree, as the contract has it.
template <class T>
std::vector<T> TreeSum(std::vector<std::vector<T>> rows) {
  for (size_t count = rows.size(); count > 1; count /= 2) {
    for (size_t i = 0; i < count / 2; ++i) {
      for (size_t k = 0; k < rows[i].size(); ++k) rows[i][k] = rows[2 * i][k] + rows[2 * i + 1][k];
    }
  }
  return rows[0];
}

template <class T>
bool HasBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
GradientBucket ViewOf(std::vector<T>& values) {
  return {std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64, values.data(), static_cast<int64_t>(values.size())};
}

inline double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

using NetworkMaker = std::unique_ptr<RingNetwork> (*)();

class RingTest : public testing::TestWithParam<std::tuple<NetworkMaker, int>> {
 protected:
  RingTest() : size_(std::get<1>(GetParam())), network_(std::get<0>(GetParam())()) {}

  Ring::Options OptionsOf(int64_t rank, int64_t spares = 0) const {
    return {.rank = rank,
            .size = size_,
            .spares = spares,
            .generation = "3",
            .key = std::string(32, 'k'),
            .timeout = milliseconds(20000)};
  }
  Ring& Form(const Ring::Options& options) {
    auto transport = network_->Transport(static_cast<int>(options.rank), static_cast<int>(options.size + options.spares));
    auto ring = Ring::Form(options, std::move(transport), texts_->Rendezvous(), [](absl::Status) {});
    if (!ring.ok()) std::abort();
    rings_.push_back(*std::move(ring));
    return *rings_.back();
  }
  void FormAll(int64_t spares = 0) {
    for (int64_t rank = 0; rank < size_ + spares; ++rank) Form(OptionsOf(rank, spares));
    for (const auto& ring : rings_) ASSERT_EQ(ring->Wait(), absl::OkStatus());
  }

  const int64_t size_;
  std::unique_ptr<RingNetwork> network_;
  const std::shared_ptr<FakeTexts> texts_ = std::make_shared<FakeTexts>();
  std::vector<std::unique_ptr<Ring>> rings_;
};

template <class T>
void ExpectTheTree(std::vector<std::unique_ptr<Ring>>& rings, int64_t size) {
  for (const int64_t elements : {0, 1, 2, 3, 7, 1000, 300'001}) {
    auto rows = RandomRows<T>(static_cast<int64_t>(rings.size()), elements);
    const auto expected = TreeSum<T>({rows.begin(), rows.begin() + size});
    for (size_t i = 0; i < rings.size(); ++i) rings[i]->Start(ViewOf(rows[i]));
    for (size_t i = 0; i < rings.size(); ++i) {
      ASSERT_EQ(rings[i]->Wait(), absl::OkStatus());
      EXPECT_TRUE(HasBits(rows[i], expected)) << elements << " elements, rank " << i;
    }
  }
}

TEST_P(RingTest, AddsUpInATree) {
  FormAll();
  ExpectTheTree<float>(rings_, size_);
  ExpectTheTree<double>(rings_, size_);
}

TEST_P(RingTest, TellsSparesTheSum) {
  FormAll(size_ - 1);
  ExpectTheTree<float>(rings_, size_);
}

TEST_P(RingTest, HasTheBitsOfOneRankWithAllShards) {
  FormAll();
  auto shards = RandomRows<float>(16, 5000);
  const int64_t each = 16 / size_;
  const auto expected = TreeSum(shards);
  std::vector<std::vector<float>> sums;
  for (int64_t i = 0; i < size_; ++i) sums.push_back(TreeSum<float>({shards.begin() + i * each, shards.begin() + (i + 1) * each}));
  for (int64_t i = 0; i < size_; ++i) rings_[i]->Start(ViewOf(sums[i]));
  for (int64_t i = 0; i < size_; ++i) {
    ASSERT_EQ(rings_[i]->Wait(), absl::OkStatus());
    EXPECT_TRUE(HasBits(sums[i], expected));
  }
}

TEST_P(RingTest, AddsUpSeveralBucketsInTheOrderOfStart) {
  FormAll();
  constexpr int kBuckets = 20;
  std::vector<std::vector<std::vector<float>>> rows;
  std::vector<std::vector<float>> expected;
  for (int b = 0; b < kBuckets; ++b) {
    rows.push_back(RandomRows<float>(size_, 1000 * (b % 5), b));
    expected.push_back(TreeSum(rows.back()));
  }
  std::vector<std::vector<int>> order(size_);  // Each rank's is of its own thread until Wait has returned.
  for (int64_t i = 0; i < size_; ++i) {
    for (int b = 0; b < kBuckets; ++b) {
      rings_[i]->Start(ViewOf(rows[b][i]), [&order, i, b](absl::Status status) {
        EXPECT_EQ(status, absl::OkStatus());
        order[i].push_back(b);
      });
    }
  }
  for (int64_t i = 0; i < size_; ++i) {
    ASSERT_EQ(rings_[i]->Wait(), absl::OkStatus());
    for (int b = 0; b < kBuckets; ++b) EXPECT_TRUE(HasBits(rows[b][i], expected[b])) << b;
    ASSERT_EQ(order[i].size(), kBuckets);
    EXPECT_TRUE(std::is_sorted(order[i].begin(), order[i].end()));
  }
}

TEST_P(RingTest, RefusesOtherTypesAndIsOverThen) {
  Ring& ring = Form(OptionsOf(0));
  for (int64_t rank = 1; rank < size_; ++rank) Form(OptionsOf(rank));
  ASSERT_EQ(ring.Wait(), absl::OkStatus());
  ring.Start({DType::kFloat16, nullptr, 0});
  EXPECT_EQ(ring.Wait().code(), absl::StatusCode::kInvalidArgument);
  std::vector<float> values(10);
  ring.Start(ViewOf(values), [](absl::Status status) { EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument); });
  EXPECT_EQ(ring.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(RingTest, ComparesLayoutsBeforeTheFirstSum) {
  FormAll();
  std::vector<float> values(100);
  std::vector<double> fewer(99);
  for (auto& ring : rings_) ring->Compare("resnet", {ViewOf(values), ViewOf(values)});
  for (auto& ring : rings_) EXPECT_EQ(ring->Wait(), absl::OkStatus());
  std::vector<std::vector<float>> rows(size_, values);
  for (int64_t i = 0; i < size_; ++i) {
    rings_[i]->Compare("bert", i == 1 ? std::vector{ViewOf(values), ViewOf(fewer)} : std::vector{ViewOf(values), ViewOf(values)});
    rings_[i]->Start(ViewOf(rows[i]));
  }
  const absl::Status status = rings_[1]->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), testing::HasSubstr("bert"));
  EXPECT_THAT(status.message(), testing::HasSubstr("'float64 x 99, ', where rank 0 has 'float32 x 100, '"));
  for (int64_t i = 0; i < size_; ++i) EXPECT_FALSE(rings_[i]->Wait().ok());
}

TEST_P(RingTest, RefusesAWrongKey) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t rank = 0; rank < size_; ++rank) {
    Ring::Options options = OptionsOf(rank);
    if (rank == 1) options.key = std::string(32, 'x');
    Form(options);
  }
  // Who finds it out first closes the connections. The others fail with it, at the latest when they need the one that has failed.
  bool is_found = false;
  std::vector<std::vector<float>> rows(size_, std::vector<float>(100));
  for (int64_t i = 0; i < size_; ++i) rings_[i]->Start(ViewOf(rows[i]));
  for (auto& ring : rings_) {
    const absl::Status status = ring->Wait();
    EXPECT_FALSE(status.ok());
    is_found |= status.code() == absl::StatusCode::kUnauthenticated;
  }
  EXPECT_TRUE(is_found);
  EXPECT_LT(MillisecondsSince(begin), 15'000);
}

TEST_P(RingTest, DoesNotWaitForeverForARankThatNeverComes) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t rank = 0; rank < size_ - 1; ++rank) {
    Ring::Options options = OptionsOf(rank);
    options.timeout = milliseconds(300);
    Form(options);
  }
  for (auto& ring : rings_) ring->Start({});
  const absl::Status status = rings_[size_ - 2]->Wait();  // A peer of the one that is missing.
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), testing::HasSubstr(absl::StrCat("no address of rank ", size_ - 1)));
  EXPECT_LT(MillisecondsSince(begin), 15'000);
}

TEST_P(RingTest, WakesWhoFormsWhenItIsAborted) {
  for (int64_t rank = 0; rank < size_ - 1; ++rank) Form(OptionsOf(rank));
  std::this_thread::sleep_for(milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  for (auto& ring : rings_) ring->Abort();
  for (auto& ring : rings_) EXPECT_FALSE(ring->Wait().ok());
  EXPECT_EQ(rings_[0]->Wait().code(), absl::StatusCode::kCancelled);  // The others may have been told by this one.
  EXPECT_LT(MillisecondsSince(begin), 10'000);
}

// The last rank does not come, and one of the others aborts: all of them wake.
TEST_P(RingTest, WakesAllWhoWaitWhenOneAborts) {
  FormAll();
  for (const int64_t elements : {100, 1'000'000}) {
    if (elements > 100) {
      rings_.clear();
      network_ = std::get<0>(GetParam())();
      for (int64_t rank = 0; rank < size_; ++rank) {
        Ring::Options options = OptionsOf(rank);
        options.generation = "4";
        Form(options);
      }
      for (auto& ring : rings_) ASSERT_EQ(ring->Wait(), absl::OkStatus());
    }
    std::vector<std::vector<float>> rows(size_, std::vector<float>(elements));
    for (int64_t i = 0; i < size_ - 1; ++i) rings_[i]->Start(ViewOf(rows[i]));
    std::this_thread::sleep_for(milliseconds(100));
    const auto begin = std::chrono::steady_clock::now();
    rings_[0]->Abort();
    EXPECT_EQ(rings_[0]->Wait().code(), absl::StatusCode::kCancelled);
    const double own = MillisecondsSince(begin);
    for (int64_t i = 1; i < size_ - 1; ++i) EXPECT_EQ(rings_[i]->Wait().code(), absl::StatusCode::kUnavailable);
    const double all = MillisecondsSince(begin);
    EXPECT_LT(all, 10'000);
    std::printf("%ld ranks, %ld elements: the one that aborts wakes after %.1f ms, all after %.1f\n", static_cast<long>(size_),
                static_cast<long>(elements), own, all);
  }
}

TEST_P(RingTest, EndsWhileSumsAreUnderWay) {
  FormAll();
  std::vector<std::vector<float>> rows(size_, std::vector<float>(1'000'000));
  std::vector<int> ended(size_);
  for (int64_t i = 0; i < size_; ++i) {
    for (int b = 0; b < 5; ++b) rings_[i]->Start(ViewOf(rows[i]), [&ended, i](absl::Status) { ++ended[i]; });
  }
  rings_.clear();
  EXPECT_EQ(ended, std::vector<int>(size_, 5));
}

// Ranks that do not agree wait for each other, and nothing is written beyond a bucket's end.
TEST_P(RingTest, KeepsBucketsApartThatDiffer) {
  FormAll();
  std::vector<std::vector<float>> rows(size_);
  for (int64_t i = 0; i < size_; ++i) rows[i].resize(i == 1 ? 1000 : 2000);
  for (int64_t i = 0; i < size_; ++i) rings_[i]->Start(ViewOf(rows[i]));
  std::this_thread::sleep_for(milliseconds(100));
  rings_[0]->Abort();
  EXPECT_EQ(rings_[0]->Wait().code(), absl::StatusCode::kCancelled);  // Nothing else has failed before.
  for (auto& ring : rings_) EXPECT_FALSE(ring->Wait().ok());
}

inline auto RingsOf(NetworkMaker make) { return testing::Combine(testing::Values(make), testing::Values(2, 4, 8)); }

}  // namespace gluond::server

#endif  // TESTS_SERVER_RING_CONTRACT_H_
