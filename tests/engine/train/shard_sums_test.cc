// The sums of shards, of which some have no rows, against the same tree of additions in plain numbers.

#include "engine/train/shard_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <future>
#include <random>
#include <utility>
#include <vector>

#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using Rows = std::vector<std::vector<float>>;  // By shard; empty: the shard has no rows.
constexpr int64_t kElements = 5;

class ShardSumsTest : public TrainerTest {
 protected:
  // Sums belong to the lane's thread.
  void OnLane(const std::function<void(ShardSums& sums)>& work) {
    std::promise<void> done;
    lane_->Post([&] {
      ShardSums sums(*lane_, *memory_, *memory_);
      work(sums);
      done.set_value();
    });
    done.get_future().get();
  }

  // The first item's sum, and the last one's.
  std::pair<std::vector<float>, std::vector<double>> Sum(ShardSums& sums, const Rows& shards) {
    std::vector<Signature> items = {{{kElements}, DType::kFloat32}, {{kElements}, DType::kFloat64}};
    EXPECT_OK(sums.Begin(std::move(items), static_cast<int64_t>(shards.size()), nullptr));
    for (const std::vector<float>& shard : shards) {
      if (shard.empty()) {
        sums.MadeZeros();
      } else {
        std::copy(shard.begin(), shard.end(), sums.Part(0).data<float>());
        std::copy(shard.begin(), shard.end(), sums.Part(1).data<double>());
        for (const size_t item : {1, 0}) sums.Made(item);
      }
      EXPECT_OK(sums.EndShard());
    }
    const float* const first = sums.Sum(0).data<float>();
    const double* const last = sums.Sum(1).data<double>();
    return {{first, first + kElements}, {last, last + kElements}};
  }

  // Pairs of neighbours are added up until one is left.
  template <class T>
  static std::vector<T> Tree(const Rows& shards) {
    std::vector<std::vector<T>> level;
    for (const std::vector<float>& shard : shards) {
      level.emplace_back(kElements, T{-0.0});
      std::copy(shard.begin(), shard.end(), level.back().begin());
    }
    for (; level.size() > 1; level.resize(level.size() / 2)) {
      for (size_t i = 0; i < level.size() / 2; ++i) {
        std::vector<T> sum = level[2 * i];
        for (size_t k = 0; k < sum.size(); ++k) sum[k] += level[2 * i + 1][k];
        level[i] = std::move(sum);
      }
    }
    return level[0];
  }

  template <class T>
  static void ExpectSameBits(const std::vector<T>& is, const std::vector<T>& expected) {
    ASSERT_EQ(is.size(), expected.size());
    for (size_t i = 0; i < is.size(); ++i) {
      EXPECT_TRUE(is[i] == expected[i] && std::signbit(is[i]) == std::signbit(expected[i])) << is[i] << ", not " << expected[i];
    }
  }
};

TEST_F(ShardSumsTest, ShardsWithoutRowsChangeNoBit) {
  OnLane([&](ShardSums& sums) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1, 1);
    for (const size_t count : {1, 2, 4, 8, 16}) {
      for (int trial = 0; trial < 40; ++trial) {
        Rows shards(count);
        for (std::vector<float>& shard : shards) {
          if (random() % 2 == 0) continue;
          for (int64_t i = 0; i < kElements; ++i) shard.push_back(i == 0 ? -0.0F : i == 1 ? 0.0F : value(random));
        }
        SCOPED_TRACE(count);
        const auto [first, last] = Sum(sums, shards);
        ExpectSameBits(first, Tree<float>(shards));
        ExpectSameBits(last, Tree<double>(shards));
      }
    }
  });
}

TEST_F(ShardSumsTest, NoRowsAtAllAreZerosThatChangeNothing) {
  OnLane([&](ShardSums& sums) {
    Sum(sums, Rows(4, std::vector<float>(kElements, 7)));  // Levels keep these from an earlier step.
    for (const size_t count : {1, 4}) {
      const auto [first, last] = Sum(sums, Rows(count));
      ExpectSameBits(first, std::vector<float>(kElements, -0.0F));
      ExpectSameBits(last, std::vector<double>(kElements, -0.0));
    }
  });
}

TEST_F(ShardSumsTest, ShardsWithoutRowsTouchNoMemory) {
  OnLane([&](ShardSums& sums) {
    std::vector<Signature> items = {{{1 << 20}, DType::kFloat32}, {{1}, DType::kFloat64}};
    ASSERT_OK(sums.Begin(std::move(items), 1 << 12, nullptr));
    for (int shard = 0; shard < 1 << 12; ++shard) {
      float* const part = sums.Part(0).data<float>();
      std::fill_n(part, 3, 7.0F);
      if (shard == 5) {
        std::fill_n(part, 1 << 20, 1.0F);
        sums.Made(0);
        sums.Made(1);
      } else {
        sums.MadeZeros();
        EXPECT_EQ(part[0], 7.0F);
      }
      ASSERT_OK(sums.EndShard());
    }
    EXPECT_EQ(sums.Sum(0).data<float>()[0], 1.0F);
  });
}

}  // namespace
}  // namespace gluond
