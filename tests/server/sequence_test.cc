// A numbered call is applied once: replays, gaps, failures, and calls that arrive while another one runs.

#include "server/rpc/sequence.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/sequence_fixture.h"

namespace gluond::server {
namespace {

// Whether the client's first call, which was applied, is answered again: it is known whole, and not by its number alone.
bool IsWhole(Sequences& sequences, const std::string& client) {
  const auto repetition = Arrive(sequences, 1, 0, client);
  return repetition->turn == nullptr && repetition->refused.ok();
}

TEST(Sequences, NumbersAreAppliedInOrder) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  Apply(sequences, 2, "second");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 2u);
  EXPECT_EQ(sequences.Last("ann", "other"), 0u);
  EXPECT_EQ(sequences.Last("bob", "lenet"), 0u);
}

// A call ends on a lane, perhaps: those that waited for it do not begin there.
TEST(Sequences, CallsThatWaitedArePosted) {
  std::vector<std::function<void()>> posted;
  Sequences sequences({}, [&](std::function<void()> work) { posted.push_back(std::move(work)); });
  const auto first = Arrive(sequences, 1), second = Arrive(sequences, 2);
  first->turn->Applied("first");
  EXPECT_EQ(second->turn, nullptr);
  ASSERT_EQ(posted.size(), 1u);
  posted[0]();
  ASSERT_NE(second->turn, nullptr);
  second->turn->Applied("second");  // `posted`, which has the outcome, too, outlives `sequences`.
}

TEST(Sequences, LongAnswersAreKeptUpToALimitOfBytes) {
  Sequences sequences({.max_clients = 100});
  for (uint64_t i = 1; i <= 5; ++i) Apply(sequences, i, std::string(400'000, 'a'));
  EXPECT_EQ(Arrive(sequences, 4)->answer.size(), 400'000u);
  EXPECT_EQ(Arrive(sequences, 3)->refused.code(), absl::StatusCode::kFailedPrecondition);
  Apply(sequences, 6, std::string(5 << 20, 'b'));
  EXPECT_EQ(Arrive(sequences, 6)->answer.size(), size_t{5} << 20) << "the last is always kept";
}

TEST(Sequences, AllStreamsAnswersHaveOneBudgetAndTheOldestGoFirst) {
  constexpr size_t kBudget = 10'000, kAnswer = 1'000;
  Sequences sequences({.max_answer_bytes = kBudget});
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
  Sequences sequences({.max_answer_bytes = 10'000});
  Apply(sequences, 1, std::string(20'000, 'a'));
  EXPECT_EQ(sequences.answer_bytes(), 0u);
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  Apply(sequences, 2, "short");
  EXPECT_EQ(Arrive(sequences, 2)->answer, "short");
}

TEST(Sequences, AnswersExpire) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  sequences.DropAnswersOlderThan(std::chrono::hours(1));
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
  sequences.DropAnswersOlderThan(std::chrono::hours(1), Sequences::Clock::now() + std::chrono::hours(2));
  EXPECT_EQ(sequences.answer_bytes(), 0u);
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, AnswersGoWithTheirModel) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  Arrive(sequences, 1, 0, "ann", "other")->turn->Applied("of another");
  sequences.DropModel("lenet");
  EXPECT_EQ(Arrive(sequences, 1)->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Arrive(sequences, 1, 0, "ann", "other")->answer, "of another");
}

TEST(Sequences, AForgottenStreamsAnswersAreGone) {
  Sequences sequences({.max_clients = 1});
  Apply(sequences, 1, "first");
  const size_t bytes = sequences.answer_bytes();
  Arrive(sequences, 1, 0, "bob")->turn->Applied("first");
  EXPECT_EQ(sequences.answer_bytes(), bytes);
}

TEST(Sequences, CallsThatAreRefusedTakeNobodysPlace) {
  Sequences sequences({.max_clients = 2});
  Apply(sequences, 1, "first");
  for (const char* client : {"x", "y", "z"}) {
    EXPECT_EQ(Arrive(sequences, 7, 0, client)->refused.code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
}

TEST(Sequences, ARepetitionGetsTheFirstAnswer) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  Apply(sequences, 2, "second");
  EXPECT_EQ(Arrive(sequences, 1)->answer, "first");
  EXPECT_EQ(Arrive(sequences, 2)->answer, "second");
}

TEST(Sequences, AnotherPayloadIsRefused) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  const auto outcome = Arrive(sequences, 1, /*payload=*/99);
  EXPECT_EQ(outcome->refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome->turn, nullptr);
}

TEST(Sequences, AGapNamesTheLastApplied) {
  Sequences sequences({.max_clients = 100});
  Apply(sequences, 1, "first");
  const auto outcome = Arrive(sequences, 3);
  EXPECT_EQ(outcome->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(outcome->refused.message().find("last applied for client 'ann' and model 'lenet' is 1; send 2 next"),
            absl::string_view::npos)
      << outcome->refused;
}

TEST(Sequences, AFailedCallHasNotUsedItsNumberUp) {
  Sequences sequences({.max_clients = 100});
  Arrive(sequences, 1)->turn.reset();
  EXPECT_EQ(sequences.Last("ann", "lenet"), 0u);
  Apply(sequences, 1, "second try");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, ARepetitionWaitsForTheOriginalThatRuns) {
  Sequences sequences({.max_clients = 100});
  const auto original = Arrive(sequences, 1);
  const auto repetition = Arrive(sequences, 1);
  EXPECT_EQ(repetition->turn, nullptr);
  EXPECT_TRUE(repetition->answer.empty());
  original->turn->Applied("answer");
  EXPECT_EQ(repetition->answer, "answer");
  EXPECT_EQ(repetition->turn, nullptr);
}

TEST(Sequences, ARepetitionRunsWhenTheOriginalFails) {
  Sequences sequences({.max_clients = 100});
  const auto original = Arrive(sequences, 1);
  const auto repetition = Arrive(sequences, 1);
  original->turn.reset();
  ASSERT_NE(repetition->turn, nullptr);
  repetition->turn->Applied("answer");
  EXPECT_EQ(sequences.Last("ann", "lenet"), 1u);
}

TEST(Sequences, CallsThatWaitRunInTheOrderOfTheirNumbers) {
  Sequences sequences({.max_clients = 100});
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
  Sequences sequences({.max_clients = 100});
  const auto first = Arrive(sequences, 1);
  const auto second = Arrive(sequences, 2);
  first->turn.reset();
  EXPECT_EQ(second->refused.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Sequences, OnlyTheLast64AnswersAreKept) {
  Sequences sequences({.max_clients = 100});
  for (uint64_t i = 1; i <= 70; ++i) Apply(sequences, i, std::to_string(i));
  EXPECT_EQ(Arrive(sequences, 7)->answer, "7");
  const auto old = Arrive(sequences, 6);
  EXPECT_EQ(old->refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Arrive(sequences, 0)->refused.code(), absl::StatusCode::kFailedPrecondition);
}

// Its answers go, its number stays: nothing is applied twice.
TEST(Sequences, TheClientSilentForLongestMakesRoom) {
  Sequences sequences({.max_clients = 2});
  for (const char* client : {"a", "b", "a", "c"}) {
    const uint64_t next = sequences.Last(client, "m") + 1;
    Arrive(sequences, next, 0, client, "m")->turn->Applied("answer");
  }
  EXPECT_EQ(sequences.num_silent(), 1u);
  EXPECT_EQ(sequences.Last("b", "m"), 1u);
  const auto repetition = Arrive(sequences, 1, 0, "b", "m");
  EXPECT_EQ(repetition->turn, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(repetition->refused)) << repetition->refused;
  EXPECT_NE(repetition->refused.message().find("no longer kept: the last applied for client 'b' and model 'm' is 1"),
            absl::string_view::npos)
      << repetition->refused;
  EXPECT_TRUE(absl::IsFailedPrecondition(Arrive(sequences, 3, 0, "b", "m")->refused)) << "a gap";
  Arrive(sequences, 2, 0, "b", "m")->turn->Applied("second");  // It goes on.
  EXPECT_EQ(Arrive(sequences, 2, 0, "b", "m")->answer, "second");
  EXPECT_EQ(sequences.num_silent(), 1u) << "another one made room";
}

TEST(Sequences, ASilentClientIsItsNumberAlone) {
  Sequences sequences({});
  for (const char* client : {"ann/a", "ann/b", "bob/a"}) Arrive(sequences, 1, 0, client)->turn->Applied("first");
  const auto running = Arrive(sequences, 2, 0, "bob/a");
  const auto later = [](int minutes) { return Sequences::Clock::now() + std::chrono::minutes(minutes); };
  const auto exists = [](const std::string&) { return true; };
  sequences.SilenceOlderThan(Sequences::kSilence, exists, later(9));
  EXPECT_EQ(sequences.num_silent(), 0u);
  sequences.SilenceOlderThan(Sequences::kSilence, exists, later(11));
  EXPECT_EQ(sequences.num_silent(), 2u);
  for (const char* client : {"ann/a", "ann/b"}) {
    EXPECT_EQ(Arrive(sequences, 1, 0, client)->turn, nullptr);
    EXPECT_EQ(sequences.Last(client, "lenet"), 1u);
  }
  running->turn->Applied("second");
  EXPECT_EQ(Arrive(sequences, 2, 0, "bob/a")->answer, "second");
  sequences.SilenceOlderThan(
      Sequences::kSilence, [](const std::string&) { return false; }, later(11));
  EXPECT_EQ(sequences.num_silent(), 0u) << "the numbers go with the model";
}

// Another caller's many clients take no place of hers, and her first call is never applied again.
TEST(Sequences, ACallersManyClientsTakeNoOthersPlace) {
  Sequences sequences({.max_clients = 20}, &Sequences::AtOnce, [](absl::string_view) { return 20; });
  Arrive(sequences, 1, 0, "acme/ann/laptop")->turn->Applied("first");
  for (int i = 0; i < 25; ++i) Arrive(sequences, 1, 0, absl::StrCat("acme/bob/", i))->turn->Applied("");
  EXPECT_EQ(Arrive(sequences, 1, 0, "acme/ann/laptop")->answer, "first");
}

// Whoever makes many names for himself is refused before a number is forgotten, and others are not.
TEST(Sequences, SilentClientsHaveABound) {
  Sequences sequences({.max_clients = 2, .max_silent_clients = 8});
  const auto apply = [&](const std::string& client) {
    auto outcome = Arrive(sequences, 1, 0, client);
    if (outcome->turn != nullptr) outcome->turn->Applied("");
    return outcome->refused;
  };
  absl::Status refused;
  int known = 0;
  for (; refused.ok() && known < 20; ++known) refused = apply(absl::StrCat("bob/", known));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("--max_silent_clients"), absl::string_view::npos) << refused;
  EXPECT_EQ(sequences.num_silent(), 4u) << "as many as are left to others";
  for (int i = 0; i + 1 < known; ++i) EXPECT_EQ(sequences.Last(absl::StrCat("bob/", i), "lenet"), 1u) << i;
  EXPECT_TRUE(apply("ann/a").ok()) << "she has none yet, and takes one of his places";
  EXPECT_EQ(sequences.Last("bob/5", "lenet"), 1u);
}

TEST(Sequences, ClientsThatRunAreNotForgotten) {
  Sequences sequences({.max_clients = 1});
  const auto running = Arrive(sequences, 1, 0, "a", "m");
  const auto refused = Arrive(sequences, 1, 0, "b", "m");
  EXPECT_EQ(refused->refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused->refused.message().find("--max_clients"), absl::string_view::npos);
  running->turn->Applied("");
}

// A tenant's stream takes the place of one of its own, once there are as many as it may have.
TEST(Sequences, ATenantTakesNoMoreThanItsPart) {
  Sequences sequences({.max_clients = 4}, &Sequences::AtOnce, [](absl::string_view tenant) { return tenant == "acme" ? 2 : 4; });
  const auto apply = [&](const std::string& client) {
    auto outcome = Arrive(sequences, 1, 0, client);
    ASSERT_NE(outcome->turn, nullptr) << client << ": " << outcome->refused;
    outcome->turn->Applied("");
  };
  const auto knows = [&](const std::string& client) { return IsWhole(sequences, client); };
  apply("globex/gil/a");
  apply("dora/a");
  for (const char* client : {"acme/ann/a", "acme/ann/b", "acme/art/a"}) apply(client);
  EXPECT_FALSE(knows("acme/ann/a"));
  for (const char* client : {"globex/gil/a", "dora/a", "acme/ann/b", "acme/art/a"}) EXPECT_TRUE(knows(client)) << client;
  apply("acme/ann/c");
  EXPECT_FALSE(knows("acme/ann/b")) << "of her own ones";
  EXPECT_TRUE(knows("acme/art/a"));
  const auto first = Arrive(sequences, 2, 0, "acme/art/a"), second = Arrive(sequences, 2, 0, "acme/ann/c");
  const absl::Status refused = Arrive(sequences, 1, 0, "acme/art/d")->refused;
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("2 clients of tenant 'acme' run or are recent, and its quota is clients=2"), std::string::npos)
      << refused;
  apply("globex/gil/b");
  EXPECT_FALSE(knows("globex/gil/a")) << "of his own one";
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
  int Known(const std::string& prefix, int count) {
    int known = 0;
    for (int i = 0; i < count; ++i) known += IsWhole(sequences_, absl::StrCat(prefix, i));
    return known;
  }

  Sequences sequences_{{.max_clients = 10, .max_answer_bytes = 10'000}, &Sequences::AtOnce, &MostOf};
};

TEST_F(SequenceOwners, ManyOfNoTenantTakeOneOwnersPart) {
  Apply("globex/gil/laptop");
  for (const char* caller : {"dora/", "dirk/", ""}) ApplyMany(caller, 12);
  EXPECT_EQ(Arrive(sequences_, 1, 0, "globex/gil/laptop")->turn, nullptr) << "a repetition";
  for (const char* caller : {"dora/", "dirk/", ""}) EXPECT_EQ(Known(caller, 12), 3) << caller;
}

TEST_F(SequenceOwners, ATenantWithinItsQuotaTakesNoPlaceOfASmallOne) {
  Apply("globex/gil/laptop");
  ApplyMany("third/tim/", 5);
  ApplyMany("acme/ann/", 5);
  EXPECT_TRUE(IsWhole(sequences_, "globex/gil/laptop"));
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
