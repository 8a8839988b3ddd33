#include "engine/passes/arena_layout.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gluond {
namespace {

TEST(ArenaLayout, GrowsWhileNothingIsFree) {
  ArenaLayout layout;
  EXPECT_EQ(layout.Take(64), 0);
  EXPECT_EQ(layout.Take(128), 64);
  EXPECT_EQ(layout.bytes(), 192);
}

TEST(ArenaLayout, TakesTheSmallestFreeRangeThatFits) {
  ArenaLayout layout;
  const int64_t large = layout.Take(512), wall = layout.Take(64), small = layout.Take(128);
  layout.Take(64);
  layout.GiveBack(large, 512);
  layout.GiveBack(small, 128);
  EXPECT_EQ(layout.Take(128), small);
  EXPECT_EQ(layout.Take(256), large);
  EXPECT_LT(large, wall);
}

TEST(ArenaLayout, JoinsFreeNeighbours) {
  ArenaLayout layout;
  const int64_t a = layout.Take(64), b = layout.Take(64), c = layout.Take(64);
  layout.Take(64);
  layout.GiveBack(a, 64);
  layout.GiveBack(c, 64);
  layout.GiveBack(b, 64);
  EXPECT_EQ(layout.Take(192), a);
}

TEST(ArenaLayout, ExtendsAFreeRangeAtTheEnd) {
  ArenaLayout layout;
  layout.Take(64);
  const int64_t last = layout.Take(64);
  layout.GiveBack(last, 64);
  EXPECT_EQ(layout.Take(256), last);
  EXPECT_EQ(layout.bytes(), 64 + 256);
}

TEST(ArenaLayout, NeverGivesTheSameBytesTwice) {
  std::mt19937 random(7);
  ArenaLayout layout;
  std::vector<bool> used(1 << 16);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int step = 0; step < 3000; ++step) {
    if (taken.empty() || (taken.size() < 40 && random() % 2 == 0)) {
      const int64_t bytes = 1 + random() % 300;
      const int64_t offset = layout.Take(bytes);
      ASSERT_LE(offset + bytes, layout.bytes());
      for (int64_t i = offset; i < offset + bytes; ++i) {
        ASSERT_FALSE(used[i]);
        used[i] = true;
      }
      taken.emplace_back(offset, bytes);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [offset, bytes] = taken.back();
      taken.pop_back();
      for (int64_t i = offset; i < offset + bytes; ++i) used[i] = false;
      layout.GiveBack(offset, bytes);
    }
  }
}

}  // namespace
}  // namespace gluond
