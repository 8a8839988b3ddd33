// Bounded tables: of anything, and of calls.

#include "engine/core/lru_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/imperative/prepared_op.h"

namespace gluond {
namespace {

TEST(LruMapTest, TheLeastRecentlyUsedGoesFirst) {
  LruMap<std::string, int> map(2);
  EXPECT_EQ(map.Insert("a", 1), 1);
  map.Insert("b", 2);
  EXPECT_EQ(*map.Find("a"), 1);
  map.Insert("c", 3);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.Find("b"), nullptr);
  EXPECT_EQ(*map.Find("a"), 1);
  EXPECT_EQ(*map.Find("c"), 3);
}

TEST(PreparedOpsTest, MakesEachCallOnce) {
  PreparedOps ops(3);
  int made = 0;
  const auto find = [&](const std::string& op, const AttrDict& attrs, size_t num_inputs) {
    return *ops.Find(op, attrs, num_inputs, [&] {
      ++made;
      return PrepareOp(op, attrs, num_inputs);
    });
  };
  const PreparedOpPtr plus = find("_plus_scalar", {{"scalar", "1"}}, 1);
  EXPECT_EQ(find("_plus_scalar", {{"scalar", "1"}}, 1), plus);
  EXPECT_NE(find("_plus_scalar", {{"scalar", "2"}}, 1), plus);
  EXPECT_NE(find("_minus_scalar", {{"scalar", "1"}}, 1), plus);
  EXPECT_EQ(made, 3);
  EXPECT_NE(find("add_n", {}, 2), find("add_n", {}, 3));
  EXPECT_EQ(find("add_n", {}, 3)->node->num_inputs(), 3u);
  EXPECT_EQ(made, 5);
  find("_plus_scalar", {{"scalar", "1"}}, 1);
  EXPECT_EQ(made, 6) << "it had gone";
}

TEST(PreparedOpsTest, KeepsNoCallThatIsWrong) {
  PreparedOps ops(1);
  const auto find = [&] { return ops.Find("no_such_op", {}, 1, [] { return PrepareOp("no_such_op", {}, 1); }); };
  EXPECT_EQ(find().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(find().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gluond
