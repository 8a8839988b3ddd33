// A numbered call is applied once: replays, gaps, failures, and calls that arrive while another one runs.

#include "server/rpc/sequence.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

// The outcome of one arrival.
struct Outcome {
  std::unique_ptr<Sequences::Turn> turn;  // It runs.
  std::string answer;                     // It was a repetition.
  absl::Status refused;
};

std::shared_ptr<Outcome> Arrive(Sequences& sequences, uint64_t number, uint64_t payload = 0,
                                const std::string& client = "ann", const std::string& model = "lenet") {
  auto outcome = std::make_shared<Outcome>();
  sequences.Arrive({client, model, number, payload,
                    [outcome](std::unique_ptr<Sequences::Turn> turn) { outcome->turn = std::move(turn); },
                    [outcome](const std::string& answer) { outcome->answer = answer; },
                    [outcome](absl::Status status) { outcome->refused = std::move(status); }});
  return outcome;
}

void Apply(Sequences& sequences, uint64_t number, const std::string& answer) {
  auto outcome = Arrive(sequences, number);
  ASSERT_NE(outcome->turn, nullptr) << outcome->refused;
  outcome->turn->Applied(answer);
}

TEST(Sequences, NumbersAreAppliedInOrder) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  Apply(sequences, 2, "second");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 2u);
  EXPECT_EQ(sequences.Last("ann", "other"), 0u);
  EXPECT_EQ(sequences.Last("bob", "lenet"), 0u);
}

// A call ends on a lane, perhaps: those that waited for it do not begin there.
TEST(Sequences, CallsThatWaitedArePosted) {
  std::vector<std::function<void()>> posted;
  Sequences sequences(100, [&](std::function<void()> work) { posted.push_back(std::move(work)); });
  const auto first = Arrive(sequences, 1), second = Arrive(sequences, 2);
  first->turn->Applied("first");
  EXPECT_EQ(second->turn, nullptr);
  ASSERT_EQ(posted.size(), 1u);
  posted[0]();
  ASSERT_NE(second->turn, nullptr);
  second->turn->Applied("second");  // `posted`, which has the outcome, too, outlives `sequences`.
}

TEST(Sequences, LongAnswersAreKeptUpToALimitOfBytes) {
  Sequences sequences(100);
  for (uint64_t i = 1; i <= 5; ++i) Apply(sequences, i, std::string(400'000, 'a'));
  EXPECT_EQ(Arrive(sequences, 4)->answer.size(), 400'000u);
  EXPECT_EQ(Arrive(sequences, 3)->refused.code(), absl::StatusCode::kFailedPrecondition);
  Apply(sequences, 6, std::string(5 << 20, 'b'));
  EXPECT_EQ(Arrive(sequences, 6)->answer.size(), size_t{5} << 20) << "the last is always kept";
}

TEST(Sequences, AllStreamsAnswersHaveOneBudgetAndTheOldestGoFirst) {
  constexpr size_t kBudget = 10'000, kAnswer = 1'000;
  Sequences sequences(1000, [](const auto& work) { work(); }, kBudget);
  for (int client = 0; client < 100; ++client) {
    Arrive(sequences, 1, 0, std::to_string(client))->turn->Applied(std::string(kAnswer, 'a'));
    ASSERT_LE(sequences.answer_bytes(), kBudget);
  }
  EXPECT_EQ(Arrive(sequences, 1, 0, "99")->answer.size(), kAnswer);
  // The number stays used up: nothing is applied twice.
  const auto gone = Arrive(sequences, 1, 0, "0");
  EXPECT_EQ(gone->turn, nullptr);
  EXPECT_EQ(gone->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(gone->refused.message().find("was applied, but its answer is no longer kept"), absl::string_view::npos);
  EXPECT_NE(gone->refused.message().find("--max_answer_bytes"), absl::string_view::npos) << gone->refused;
  EXPECT_NE(Arrive(sequences, 2, 0, "0")->turn, nullptr);
}

TEST(Sequences, AnAnswerOverTheBudgetIsNotKept) {
  Sequences sequences(100, [](const auto& work) { work(); }, 10'000);
  Apply(sequences, 1, std::string(20'000, 'a'));
  EXPECT_EQ(sequences.answer_bytes(), 0u);
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  Apply(sequences, 2, "short");
  EXPECT_EQ(Arrive(sequences, 2)->answer, "short");
}

TEST(Sequences, AnswersExpire) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  sequences.DropAnswersOlderThan(std::chrono::hours(1));
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
  sequences.DropAnswersOlderThan(std::chrono::hours(1), Sequences::Clock::now() + std::chrono::hours(2));
  EXPECT_EQ(sequences.answer_bytes(), 0u);
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, AnswersGoWithTheirModel) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  Arrive(sequences, 1, 0, "ann", "other")->turn->Applied("of another");
  sequences.DropAnswersOf("lenet");
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Arrive(sequences, 1, 0, "ann", "other")->answer, "of another");
}

TEST(Sequences, AForgottenStreamsAnswersAreGone) {
  Sequences sequences(1);
  Apply(sequences, 1, "first");
  const size_t bytes = sequences.answer_bytes();
  Arrive(sequences, 1, 0, "bob")->turn->Applied("first");
  EXPECT_EQ(sequences.answer_bytes(), bytes);
}

TEST(Sequences, CallsThatAreRefusedTakeNobodysPlace) {
  Sequences sequences(2);
  Apply(sequences, 1, "first");
  for (const char* client : {"x", "y", "z"}) {
    EXPECT_EQ(Arrive(sequences, 7, 0, client)->refused.code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
}

TEST(Sequences, ARepetitionGetsTheFirstAnswer) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  Apply(sequences, 2, "second");
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
  EXPECT_EQ(Arrive(sequences, 2)->answer, "second");
}

TEST(Sequences, AnotherPayloadIsRefused) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  const auto outcome = Arrive(sequences, 1, /*payload=*/99);
  EXPECT_EQ(outcome->refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome->turn, nullptr);
}

TEST(Sequences, AGapNamesTheLastApplied) {
  Sequences sequences(100);
  Apply(sequences, 1, "first");
  const auto outcome = Arrive(sequences, 3);
  EXPECT_EQ(outcome->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(outcome->refused.message().find("last applied for client 'ann' and model 'lenet' is 1; send 2 next"),
            absl::string_view::npos)
      << outcome->refused;
}

TEST(Sequences, AFailedCallHasNotUsedItsNumberUp) {
  Sequences sequences(100);
  Arrive(sequences, 1)->turn.reset();
  EXPECT_EQ(sequences.Last("ann", "lenet"), 0u);
  Apply(sequences, 1, "second try");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, ARepetitionWaitsForTheOriginalThatRuns) {
  Sequences sequences(100);
  const auto original = Arrive(sequences, 1);
  const auto repetition = Arrive(sequences, 1);
  EXPECT_EQ(repetition->turn, nullptr);
  EXPECT_TRUE(repetition->answer.empty());
  original->turn->Applied("answer");
  EXPECT_EQ(repetition->answer, "answer");
  EXPECT_EQ(repetition->turn, nullptr);
}

TEST(Sequences, ARepetitionRunsWhenTheOriginalFails) {
  Sequences sequences(100);
  const auto original = Arrive(sequences, 1);
  const auto repetition = Arrive(sequences, 1);
  original->turn.reset();
  ASSERT_NE(repetition->turn, nullptr);
  repetition->turn->Applied("answer");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, CallsThatWaitRunInTheOrderOfTheirNumbers) {
  Sequences sequences(100);
  const auto first = Arrive(sequences, 1);
  const auto third = Arrive(sequences, 3);
  const auto second = Arrive(sequences, 2);
  first->turn->Applied("1");
  ASSERT_NE(second->turn, nullptr);
  EXPECT_EQ(third->turn, nullptr);
  second->turn->Applied("2");
  ASSERT_NE(third->turn, nullptr);
  third->turn->Applied("3");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 3u);
}

TEST(Sequences, AfterAFailureTheNextNumberIsAGap) {
  Sequences sequences(100);
  const auto first = Arrive(sequences, 1);
  const auto second = Arrive(sequences, 2);
  first->turn.reset();
  EXPECT_EQ(second->refused.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Sequences, OnlyTheLast64AnswersAreKept) {
  Sequences sequences(100);
  for (uint64_t i = 1; i <= 70; ++i) Apply(sequences, i, std::to_string(i));
  EXPECT_EQ(Arrive(sequences, 7)->answer, "7");
  const auto old = Arrive(sequences, 6);
  EXPECT_EQ(old->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Arrive(sequences, 0)->refused.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Sequences, TheClientSilentForLongestIsForgotten) {
  Sequences sequences(2);
  for (const char* client : {"a", "b", "a", "c"}) {
    const uint64_t next = sequences.Last(client, "m") + 1;
    Arrive(sequences, next, 0, client, "m")->turn->Applied("");
  }
  EXPECT_EQ(sequences.Last("a", "m"), 2u);
  EXPECT_EQ(sequences.Last("b", "m"), 0u);
  EXPECT_EQ(sequences.Last("c", "m"), 1u);
}

TEST(Sequences, ClientsThatRunAreNotForgotten) {
  Sequences sequences(1);
  const auto running = Arrive(sequences, 1, 0, "a", "m");
  const auto refused = Arrive(sequences, 1, 0, "b", "m");
  EXPECT_EQ(refused->refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused->refused.message().find("--max_clients"), absl::string_view::npos);
  running->turn->Applied("");
}

// The pause of a model, as its snapshot needs it.
class SequencePause : public testing::Test {
 protected:
  void Pause() {
    sequences_.Pause("lenet", [this](Sequences::Numbers applied) {
      ++begun_;
      applied_ = std::move(applied);
    });
  }

  Sequences sequences_{100};
  int begun_ = 0;
  Sequences::Numbers applied_;
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
  EXPECT_EQ(applied_, (Sequences::Numbers{{"ann", 2}, {"bob", 1}}));
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
  EXPECT_EQ(applied_, (Sequences::Numbers{{"ann", 1}, {"bob", 1}}));
  EXPECT_EQ(sequences_.Last("ann", "lenet"), 0u);
  const auto again = Arrive(sequences_, 1);
  sequences_.Resume("lenet");
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(again->answer, "") << "it waits for the end";
  first->turn->Applied("first");
  EXPECT_EQ(again->answer, "first");
}

TEST(Sequences, NumbersGoOnInTheNextProcess) {
  Sequences sequences(100);
  sequences.ExpectRewound();
  sequences.Restore("lenet", {{"ann", 5}});
  EXPECT_EQ(sequences.Last("ann", "lenet"), 5u);
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 5u);
  EXPECT_TRUE(absl::IsAborted(Arrive(sequences, 7)->refused));
  EXPECT_TRUE(absl::IsAborted(Arrive(sequences, 2, 0, "bob")->refused)) << "of whom the store knows nothing";
  EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(sequences, 5)->refused)) << "its answer is gone";
  Apply(sequences, 6, "sixth");
  EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(sequences, 8)->refused)) << "a gap of this process's";
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 5u);
  sequences.MadeDurable("lenet", {{"ann", 6}});
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 6u);
  sequences.ForgetDurable("lenet");
  EXPECT_EQ(sequences.Durable("ann", "lenet"), 0u);
}

// A tenant's stream takes the place of one of its own, once there are as many as it may have.
TEST(Sequences, ATenantTakesNoMoreThanItsPart) {
  Sequences sequences(4, [](const auto& work) { work(); }, 1 << 20,
                      [](absl::string_view tenant) { return tenant == "acme" ? 2 : 4; });
  const auto apply = [&](const std::string& client) {
    auto outcome = Arrive(sequences, 1, 0, client);
    ASSERT_NE(outcome->turn, nullptr) << client << ": " << outcome->refused;
    outcome->turn->Applied("");
  };
  const auto knows = [&](const std::string& client) { return sequences.Last(client, "lenet") == 1; };
  apply("globex/gil/a");
  apply("dora/a");
  for (const char* client : {"acme/ann/a", "acme/ann/b", "acme/art/a"}) apply(client);
  EXPECT_FALSE(knows("acme/ann/a"));
  for (const char* client : {"globex/gil/a", "dora/a", "acme/ann/b", "acme/art/a"}) EXPECT_TRUE(knows(client)) << client;
  Arrive(sequences, 1, 0, "acme/ann/b");  // A repetition: the other is silent longest.
  apply("acme/ann/c");
  EXPECT_FALSE(knows("acme/art/a"));
  EXPECT_TRUE(knows("acme/ann/b"));
  const auto first = Arrive(sequences, 2, 0, "acme/ann/b"), second = Arrive(sequences, 2, 0, "acme/ann/c");
  const absl::Status refused = Arrive(sequences, 1, 0, "acme/art/d")->refused;
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("2 clients of tenant 'acme' run, and its quota is clients=2"), std::string::npos) << refused;
  apply("globex/gil/b");
  EXPECT_FALSE(knows("globex/gil/a")) << "of all, the one that was silent longest";
  first->turn->Applied("");
  apply("acme/art/d");
  EXPECT_TRUE(knows("globex/gil/b"));
}

// Owners are acme, globex and third, and all others together.
class SequenceOwners : public testing::Test {
 protected:
  static std::optional<int64_t> MostOf(absl::string_view tenant) {
    if (tenant == "acme" || tenant == "globex" || tenant == "third") return 5;
    return std::nullopt;
  }
  void Apply(const std::string& client, const std::string& answer = "") {
    auto outcome = Arrive(sequences_, 1, 0, client);
    ASSERT_NE(outcome->turn, nullptr) << client << ": " << outcome->refused;
    outcome->turn->Applied(answer);
  }
  void ApplyMany(const std::string& prefix, int count, const std::string& answer = "") {
    for (int i = 0; i < count; ++i) Apply(absl::StrCat(prefix, i), answer);
  }
  int Known(const std::string& prefix, int count) const {
    int known = 0;
    for (int i = 0; i < count; ++i) known += sequences_.Last(absl::StrCat(prefix, i), "lenet") == 1;
    return known;
  }

  Sequences sequences_{10, [](const auto& work) { work(); }, 10'000, &MostOf};
};

TEST_F(SequenceOwners, ManyOfNoTenantTakeOneOwnersPart) {
  Apply("globex/gil/laptop");
  for (const char* caller : {"dora/", "dirk/", ""}) ApplyMany(caller, 12);
  EXPECT_EQ(Arrive(sequences_, 1, 0, "globex/gil/laptop")->turn, nullptr) << "a repetition";
  EXPECT_EQ(Known("", 12), 9);
}

TEST_F(SequenceOwners, ATenantWithinItsQuotaTakesNoPlaceOfASmallOne) {
  Apply("globex/gil/laptop");
  ApplyMany("third/tim/", 5);
  ApplyMany("acme/ann/", 5);
  EXPECT_EQ(sequences_.Last("globex/gil/laptop", "lenet"), 1u);
  EXPECT_EQ(Known("third/tim/", 5), 5);
  EXPECT_EQ(Known("acme/ann/", 5), 4);
}

TEST_F(SequenceOwners, WhoHasLessThanHisShareTakesPlacesOfWhoHasMost) {
  ApplyMany("dora/", 10);
  ApplyMany("globex/gil/", 5);
  EXPECT_EQ(Known("globex/gil/", 5), 5);
  EXPECT_EQ(Known("dora/", 10), 5);
}

TEST_F(SequenceOwners, AnswersOfWhoKeepsMostGoFirst) {
  Apply("globex/gil/laptop", std::string(1000, 'a'));
  ApplyMany("acme/ann/", 4, std::string(3000, 'b'));
  EXPECT_EQ(Arrive(sequences_, 1, 0, "globex/gil/laptop")->answer.size(), 1000u);
  EXPECT_EQ(Arrive(sequences_, 1, 0, "acme/ann/0")->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Arrive(sequences_, 1, 0, "acme/ann/3")->answer.size(), 3000u);
  EXPECT_LE(sequences_.answer_bytes(), 10'000u);
}

}  // namespace
}  // namespace gluond::server
