#include "engine/passes/id_set.h"

#include <cstdint>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace gluond {
namespace {

TEST(IdSetTest, TellsFirstAndLastAsAnOrderedSetDoes) {
  for (const uint32_t bound : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 300000u}) {
    IdSet ids(bound);
    std::set<uint32_t> expected;
    std::mt19937 random(bound);
    for (int i = 0; i < 2000; ++i) {
      const uint32_t id = static_cast<uint32_t>(random()) % bound;
      if (random() % 2 == 0) {
        ids.Insert(id), expected.insert(id);
      } else {
        ids.Erase(id), expected.erase(id);
      }
      ASSERT_EQ(ids.empty(), expected.empty()) << bound;
      if (expected.empty()) continue;
      ASSERT_EQ(ids.First(), *expected.begin()) << bound;
      ASSERT_EQ(ids.Last(), *expected.rbegin()) << bound;
    }
  }
}

TEST(IdSetTest, HoldsTheNumbersAtItsEnds) {
  IdSet ids(4096);
  ids.Insert(0), ids.Insert(4095);
  EXPECT_EQ(ids.First(), 0u);
  EXPECT_EQ(ids.Last(), 4095u);
  ids.Erase(0);
  EXPECT_EQ(ids.First(), 4095u);
  ids.Erase(4095);
  EXPECT_TRUE(ids.empty());
}

}  // namespace
}  // namespace gluond
