// Programs of which one runs at a time share one arena, as large as the largest of them needs.

#include "engine/runtime/shared_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/runtime/executor_cache.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::Each;

class SharedArenaTest : public testing::Test {
 protected:
  ArenaClaim Claim(size_t bytes) {
    absl::StatusOr<ArenaClaim> claim = ArenaClaim::Make(arena_, bytes);
    EXPECT_TRUE(claim.ok()) << claim.status();
    return claim.ok() ? *std::move(claim) : ArenaClaim();
  }

  Bench bench_;
  const std::shared_ptr<SharedArena> arena_ = std::make_shared<SharedArena>(bench_.allocator());
};

TEST_F(SharedArenaTest, IsAsLargeAsTheLargestClaim) {
  const ArenaClaim small = Claim(1000), large = Claim(5000), middle = Claim(3000);
  EXPECT_EQ(arena_->bytes(), 5000u);
  EXPECT_EQ(bench_.budget().used(), 5000);
  for (const ArenaClaim* claim : {&small, &large, &middle}) {
    const auto memory = claim->Take();
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_GE((*memory)->bytes(), claim->bytes());
    claim->GiveBack(*memory);
  }
  EXPECT_EQ(bench_.budget().used(), 5000);
}

TEST_F(SharedArenaTest, BecomesSmallerWhenTheLargestClaimGoes) {
  const ArenaClaim small = Claim(1000);
  { const ArenaClaim large = Claim(5000); }
  EXPECT_EQ(bench_.budget().used(), 0);
  const auto memory = small.Take();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->bytes(), 1000u);
  small.GiveBack(*memory);
}

TEST_F(SharedArenaTest, ASecondOneAtATimeHasMemoryOfItsOwn) {
  const ArenaClaim one = Claim(1000), two = Claim(2000);
  const auto first = one.Take(), second = two.Take();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->data(), (*second)->data());
  two.GiveBack(*second);
  const auto third = two.Take();
  ASSERT_TRUE(third.ok());
  EXPECT_NE((*first)->data(), (*third)->data()) << "the first one still runs";
  one.GiveBack(*first);
  EXPECT_EQ((*two.Take())->data(), (*first)->data());
}

TEST_F(SharedArenaTest, WhoKeepsALittleLeavesTheArenaToOthers) {
  const ArenaClaim small = Claim(1000), middle = Claim(3000), large = Claim(5000);
  const auto kept = small.Take(/*keeps=*/true);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ((*kept)->bytes(), 1000u);
  const auto memory = middle.Take(/*keeps=*/true);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->bytes(), 5000u);
  const std::shared_ptr<Buffer> held = middle.Hold(*memory);
  EXPECT_EQ(held->data(), (*memory)->data());
}

TEST_F(SharedArenaTest, HeldMemoryGoesBackWhenItsHolderLetsGo) {
  ArenaClaim claim = Claim(1000);
  std::shared_ptr<Buffer> held = claim.Hold(*claim.Take());
  const void* const memory = held->data();
  EXPECT_NE((*claim.Take())->data(), memory);
  held = nullptr;
  held = claim.Hold(*claim.Take());
  EXPECT_EQ(held->data(), memory);
  claim = ArenaClaim();
  EXPECT_EQ(bench_.budget().used(), 1000);
  held = nullptr;
  EXPECT_EQ(bench_.budget().used(), 0);
}

TEST_F(SharedArenaTest, WhereNothingIsLeftItGivesUpItsOwnToGrow) {
  const int64_t all = bench_.budget().limit();
  const ArenaClaim small = Claim(static_cast<size_t>(all / 4 * 3));
  const ArenaClaim large = Claim(static_cast<size_t>(all - 8));
  EXPECT_EQ(bench_.budget().used(), all - 8);
  EXPECT_EQ(ArenaClaim::Make(arena_, static_cast<size_t>(all) + 1).status().code(), absl::StatusCode::kResourceExhausted);
  const auto memory = small.Take();
  ASSERT_TRUE(memory.ok()) << memory.status();
  small.GiveBack(*memory);
}

// (2 x) squared seven times over, in an arena; the same values whatever ran before it in the same memory.
TEST_F(SharedArenaTest, ExecutorsOfACacheComputeInTheSameMemory) {
  ExecutorCache cache(bench_.lane(), bench_.allocator());
  NodeEntry value = MakeNode("t_scale", "s", {MakeVariable("x")}, {{"by", "2"}});
  for (int i = 0; i < 7; ++i) value = MakeNode("t_square", absl::StrCat("q", i), {value});
  const auto graph = std::make_shared<const Graph>(Graph{{value, MakeNode("t_add", "a", {value, value})}});
  int64_t needed = 0, programs = 0;
  std::vector<ExecutorLease> leases;
  for (const int64_t n : {100, 4000, 1000, 2000}) {
    const auto key = bench_.KeyOf(graph, n);
    std::promise<absl::StatusOr<ExecutorLease>> found;
    cache.Checkout(key, [&](absl::StatusOr<ExecutorLease> lease) { found.set_value(std::move(lease)); });
    absl::StatusOr<ExecutorLease> lease = found.get_future().get();
    ASSERT_TRUE(lease.ok()) << lease.status();
    needed = std::max(needed, (*lease)->arena_bytes());
    programs += (*lease)->own_bytes();
    leases.push_back(*std::move(lease));
  }
  ASSERT_GT(needed, 0);
  EXPECT_EQ(bench_.budget().used(), needed + programs) << "all four have been compiled";
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < leases.size(); ++i) {
      const int64_t n = leases[i]->inputs()[0].shape[0];
      std::vector<Tensor> outputs;
      ASSERT_EQ(leases[i]->RunAndWait(MakeRun({bench_.Filled(n, i % 2 == 0 ? 0.5f : -0.5f)}), &outputs), absl::OkStatus());
      EXPECT_THAT(Values(outputs[0]), Each(1));
      EXPECT_THAT(Values(outputs[1]), Each(2));
    }
  }
}

}  // namespace
}  // namespace gluond
