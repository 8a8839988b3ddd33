// Numbers of calls outlive the process: the pause for a snapshot, the numbers that it makes durable, and the next process.

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/rpc/sequence.h"
#include "tests/server/sequence_fixture.h"

namespace gluond::server {
namespace {

// The pause of a model, as its snapshot needs it.
class SequencePause : public testing::Test {
 protected:
  void Pause() {
    sequences_.Pause("lenet", [this](Sequences::Numbers numbers) {
      ++begun_;
      applied_ = numbers.applied;
      numbers_ = std::move(numbers);
    });
  }

  Sequences sequences_{Limits()};
  int begun_ = 0;
  std::vector<std::pair<std::string, uint64_t>> applied_;
  Sequences::Numbers numbers_;
};

TEST_F(SequencePause, BeginsWhenNothingRunsAndHoldsTheNextOnes) {
  Apply(sequences_, 1, "first");
  const auto second = Arrive(sequences_, 2), bob = Arrive(sequences_, 1, 0, "bob");
  const auto third = Arrive(sequences_, 3);
  Pause();
  second->turn->Applied("second");
  EXPECT_EQ(begun_, 0) << "bob's runs";
  EXPECT_EQ(third->turn, nullptr);
  bob->turn->Applied("bob's");
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(applied_, (decltype(applied_){{"ann", 2}, {"bob", 1}}));
  const auto carl = Arrive(sequences_, 1, 0, "carl"), other = Arrive(sequences_, 1, 0, "ann", "other");
  EXPECT_EQ(third->turn, nullptr);
  EXPECT_EQ(carl->turn, nullptr);
  EXPECT_NE(other->turn, nullptr) << "another model's";
  EXPECT_EQ(Arrive(sequences_, 2)->answer, "second") << "a repetition changes nothing";
  sequences_.Resume("lenet");
  EXPECT_NE(third->turn, nullptr);
  EXPECT_NE(carl->turn, nullptr);
}

TEST_F(SequencePause, OneComesAfterTheOther) {
  Pause();
  Pause();
  EXPECT_EQ(begun_, 1);
  sequences_.Resume("lenet");
  EXPECT_EQ(begun_, 2);
  sequences_.Resume("lenet");
  Apply(sequences_, 1, "first");
}

// A long call counts as applied in a pause between two of its steps, and goes on after it.
TEST_F(SequencePause, ComesBetweenTwoStepsOfALongCall) {
  const auto first = Arrive(sequences_, 1), bob = Arrive(sequences_, 1, 0, "bob");
  ASSERT_NE(first->turn, nullptr);
  int steps = 0;
  const auto step = [&] { first->turn->Between([&] { ++steps; }); };
  step();
  EXPECT_EQ(steps, 1) << "nobody wants a pause";
  Pause();
  EXPECT_EQ(begun_, 0);
  step();
  EXPECT_EQ(begun_, 0) << "bob's runs";
  EXPECT_EQ(steps, 1);
  bob->turn->Applied("bob's");
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(applied_, (decltype(applied_){{"ann", 1}, {"bob", 1}}));
  EXPECT_EQ(sequences_.Last("ann", "lenet"), 0u);
  const auto again = Arrive(sequences_, 1);
  sequences_.Resume("lenet");
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(again->answer, "") << "it waits for the end";
  first->turn->Applied("first");
  EXPECT_EQ(again->answer, "first");
}

// A durable number stands for a whole call, or, while the call runs, for a part of it.
TEST_F(SequencePause, ThatHasAPartOfACallMakesThatDurableWhileItRunsAlone) {
  Apply(sequences_, 1, "first");
  const auto second = Arrive(sequences_, 2);
  Pause();
  second->turn->Between([] {});
  EXPECT_EQ(numbers_.in_part, std::set<std::string>{"ann"});
  const Sequences::Numbers in_part = numbers_;
  sequences_.MadeDurable("lenet", in_part);
  EXPECT_EQ(sequences_.Durable("ann", "lenet"), 2u) << "a part of it";
  sequences_.Resume("lenet");
  second->turn->Applied("second");
  EXPECT_EQ(sequences_.Durable("ann", "lenet"), 1u);
  sequences_.MadeDurable("lenet", in_part);
  EXPECT_EQ(sequences_.Durable("ann", "lenet"), 1u) << "a save that ends after the call had a part of it";
  Pause();
  EXPECT_TRUE(numbers_.in_part.empty());
  sequences_.MadeDurable("lenet", numbers_);
  EXPECT_EQ(sequences_.Durable("ann", "lenet"), 2u);
  sequences_.Resume("lenet");
}

// A backward pass leaves gradients that no snapshot has: the step that takes them makes both durable.
TEST(Sequences, WhatACallLeavesIsDurableOnceItIsSettled) {
  using Effect = Sequences::Effect;
  Sequences sequences({});
  uint64_t number = 0;
  const auto durable_after = [&](Effect effect) {
    const auto outcome = Arrive(sequences, ++number);
    outcome->turn->set_effect(effect);
    outcome->turn->Applied("");
    Sequences::Numbers saved;
    sequences.Pause("lenet", [&](Sequences::Numbers numbers) { saved = std::move(numbers); });
    EXPECT_EQ(saved.applied.back().second, number);
    sequences.Resume("lenet");
    sequences.MadeDurable("lenet", saved);
    return sequences.Durable("ann", "lenet");
  };
  EXPECT_EQ(durable_after(Effect::kNone), 1u);
  EXPECT_EQ(durable_after(Effect::kLeaves), 1u);
  EXPECT_EQ(durable_after(Effect::kNone), 1u);
  EXPECT_EQ(durable_after(Effect::kSettles), 4u);
  EXPECT_EQ(durable_after(Effect::kNone), 5u);
}

TEST(Sequences, SilentClientsGoOnInTheNextProcess) {
  Sequences::Numbers saved;
  {
    Sequences sequences({.max_clients = 1});
    for (const char* client : {"ann/a", "ann/b", "ann/c"}) Arrive(sequences, 1, 0, client)->turn->Applied("first");
    sequences.Pause("lenet", [&](Sequences::Numbers numbers) { saved = std::move(numbers); });
    sequences.Resume("lenet");
  }
  Sequences next({.max_clients = 1});
  next.ExpectRewound();
  next.Restore("lenet", saved);
  EXPECT_EQ(next.num_silent(), 2u);
  for (const char* client : {"ann/a", "ann/b", "ann/c"}) {
    EXPECT_EQ(next.Durable(client, "lenet"), 1u);
    EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(next, 1, 0, client)->refused)) << client;
    EXPECT_TRUE(absl::IsAborted(Arrive(next, 3, 0, client)->refused)) << client;
  }
  next.DropModel("lenet");
  EXPECT_EQ(next.num_silent(), 0u);
}

TEST(Sequences, AClientHearsThatACrashHasLeftAPartOfHisLastCall) {
  for (const bool silent : {false, true}) {
    Sequences sequences({.max_clients = 100});
    sequences.Restore("lenet", {.applied = {{"ann", 5}, {"bob", 5}}, .in_part = {"ann"}});
    if (silent) {
      sequences.SilenceOlderThan(
          std::chrono::minutes(10), [](const std::string&) { return true; }, Sequences::Clock::now() + std::chrono::hours(1));
      ASSERT_EQ(sequences.num_silent(), 2u);
      Sequences next({.max_clients = 100});
      sequences.Pause("lenet", [&](const Sequences::Numbers& numbers) { next.Restore("lenet", numbers); });
      sequences.Resume("lenet");
      EXPECT_TRUE(absl::IsAborted(Arrive(next, 6)->refused)) << "a further restart";
    }
    const auto refused = Arrive(sequences, 6);
    EXPECT_TRUE(absl::IsAborted(refused->refused));
    EXPECT_NE(refused->refused.message().find("a crash has left the first steps alone: 5, the last applied for client 'ann'"),
              absl::string_view::npos)
        << refused->refused;
    EXPECT_NE(Arrive(sequences, 6, 0, "bob")->turn, nullptr) << "of whose last call all is left";
    EXPECT_FALSE(sequences.TellInPart("bob", "lenet"));
    EXPECT_TRUE(sequences.TellInPart("ann", "lenet"));
    EXPECT_TRUE(sequences.TellInPart("ann", "lenet")) << "the answer may have been lost";
    Apply(sequences, 6, "hers");
    EXPECT_FALSE(sequences.TellInPart("ann", "lenet"));
  }
}

TEST(Sequences, NumbersGoOnInTheNextProcess) {
  Sequences sequences({.max_clients = 100});
  sequences.ExpectRewound();
  sequences.Restore("lenet", {.applied = {{"ann", 5}}});
  EXPECT_EQ(sequences.Last("ann", "lenet"), 5u);
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 5u);
  EXPECT_TRUE(absl::IsAborted(Arrive(sequences, 7)->refused));
  EXPECT_TRUE(absl::IsAborted(Arrive(sequences, 2, 0, "bob")->refused)) << "of whom the store knows nothing";
  EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(sequences, 5)->refused)) << "its answer is gone";
  Apply(sequences, 6, "sixth");
  EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(sequences, 8)->refused)) << "a gap of this process's";
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 5u);
  sequences.MadeDurable("lenet", {.applied = {{"ann", 6}}, .settled = {6}});
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 6u);
  sequences.ForgetDurable("lenet");
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 0u);
}

}  // namespace
}  // namespace gluond::server
