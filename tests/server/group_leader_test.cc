// The leader of a group, one message at a time; group_walk_test.cc has all their orders.

#include "server/group/leader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"

namespace gluond::server {
namespace {

using std::chrono_literals::operator""s;

std::string CodeOf(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

std::string TextOf(const FromLeader::Any& message) {
  if (const auto* form = std::get_if<FromLeader::Form>(&message)) {
    return absl::StrCat("Form ", form->generation, " rank ", form->rank, " of ", form->size, "+", form->spares);
  }
  if (const auto* command = std::get_if<FromLeader::Command>(&message)) return absl::StrCat("Command ", command->number);
  if (const auto* apply = std::get_if<FromLeader::Apply>(&message)) {
    return absl::StrCat("Apply ", apply->number, apply->wants_crc ? " with CRC" : "");
  }
  if (const auto* state = std::get_if<FromLeader::State>(&message)) return absl::StrCat("State ", state->standing.applied);
  if (std::holds_alternative<FromLeader::Prepare>(message)) return "Prepare";
  return std::holds_alternative<FromLeader::End>(message) ? "End" : "Heartbeat";
}

std::string TextOf(const GroupLeader::Deed& deed) {
  if (const auto* send = std::get_if<GroupLeader::Send>(&deed)) return absl::StrCat("to ", send->to, ": ", TextOf(send->message));
  if (const auto* close = std::get_if<GroupLeader::Close>(&deed))
    return absl::StrCat("close ", close->member, ": ", CodeOf(close->status));
  if (const auto* answer = std::get_if<GroupLeader::Answer>(&deed)) return absl::StrCat("answer: ", CodeOf(answer->status));
  if (const auto* begun = std::get_if<GroupLeader::Begun>(&deed)) {
    return absl::StrCat("begun ", begun->generation, ": ", begun->ranks, " ranks");
  }
  return "warn";
}

class GroupLeaderTest : public testing::Test {
 protected:
  using Texts = std::vector<std::string>;
  static constexpr uint64_t kIncarnation = 7;
  static constexpr GroupLeader::MemberId kOwn = GroupLeader::kOwn;

  Texts Do(GroupLeader::Deeds deeds) {
    Texts texts;
    for (const GroupLeader::Deed& deed : deeds) texts.push_back(TextOf(deed));
    last_ = std::move(deeds);
    return texts;
  }
  Texts Hear(GroupLeader::MemberId member, const FromMember::Any& message) { return Do(leader_.Heard(member, message, now_)); }
  Texts Hello(GroupLeader::MemberId member) {
    return Hear(member, FromMember::Hello{100 + static_cast<uint64_t>(member), "build 1"});
  }
  static Standing At(uint64_t applied, std::optional<uint32_t> crc = 5) { return {kIncarnation, applied, crc}; }

  // A group of the leader and so many members.
  void Form(int members) {
    for (GroupLeader::MemberId member = 0; member <= members; ++member) Hello(member);
    for (GroupLeader::MemberId member = members; member >= 0; --member) Hear(member, At(0));
    for (GroupLeader::MemberId member = 0; member <= members; ++member) Hear(member, FromMember::Ready{1});
  }
  // The ranks compute and apply a command.
  void Step(uint64_t number, int members, std::optional<uint32_t> crc = std::nullopt) {
    Do(leader_.Run(now_));
    for (GroupLeader::MemberId member = 0; member <= members; ++member) {
      Hear(member, FromMember::Computed{leader_.generation(), absl::OkStatus()});
    }
    for (GroupLeader::MemberId member = 0; member <= members; ++member) Hear(member, At(number, crc));
  }
  // All say for so long that they are there, and nothing else. The deeds of the last Tick.
  Texts Beat(int timeouts) {
    Texts texts;
    for (int i = 0; i < timeouts; ++i) {
      now_ += 10s;
      for (const auto& [member, seat] : std::map(leader_.seats())) {
        if (member != kOwn) Hear(member, Heartbeat());
      }
      texts = Do(leader_.Tick(now_));
    }
    return texts;
  }
  template <class Deed>
  const Deed& Last() const {
    return std::get<Deed>(last_.back());
  }

  GroupLeader leader_ = *GroupLeader::Create({.min = 2, .max = 4, .allow_solo = true, .fingerprint = "build 1", .crc_every = 2});
  GroupLeader::Time now_{1000s};
  GroupLeader::Deeds last_;
};

TEST_F(GroupLeaderTest, AGroupFormsAndACommandIsAppliedWhenAllHaveComputedIt) {
  EXPECT_EQ(Hello(kOwn), Texts({"to 0: Prepare"}));
  EXPECT_EQ(Hello(1), Texts({"to 1: Prepare"}));
  EXPECT_EQ(Hello(2), Texts({"to 2: Prepare"}));
  EXPECT_EQ(Hear(1, Standing{}), Texts());
  EXPECT_EQ(Hear(2, At(0)), Texts());
  EXPECT_EQ(Hear(kOwn, At(0)), Texts({"to 1: State 0"})) << "the leader's own state is what the others get";
  EXPECT_EQ(Hear(1, At(0)), Texts({"to 0: Form 1 rank 0 of 2+1", "to 1: Form 1 rank 1 of 2+1", "to 2: Form 1 rank 2 of 2+1"}));
  Hear(1, FromMember::Ready{1});
  Hear(2, FromMember::Ready{1});
  now_ += 3s;
  EXPECT_EQ(Hear(kOwn, FromMember::Ready{1}), Texts({"begun 1: 3 ranks"}));
  EXPECT_EQ(Last<GroupLeader::Begun>().pause, 3s);

  EXPECT_EQ(Do(leader_.Run(now_)), Texts({"to 0: Command 1", "to 1: Command 1", "to 2: Command 1"}));
  EXPECT_EQ(Hear(kOwn, FromMember::Computed{1, {}}), Texts());
  EXPECT_EQ(Hear(2, FromMember::Computed{1, {}}), Texts());
  EXPECT_EQ(Hear(1, FromMember::Computed{1, {}}), Texts({"to 0: Apply 1", "to 1: Apply 1", "to 2: Apply 1"}));
  EXPECT_EQ(Hear(1, At(1, std::nullopt)), Texts());
  EXPECT_EQ(Hear(kOwn, At(1, std::nullopt)), Texts({"answer: OK"})) << "nobody else is waited for";
  EXPECT_EQ(Do(leader_.Run(now_)), Texts()) << "but for the next command";
  EXPECT_EQ(Hear(2, At(1, std::nullopt)), Texts({"to 0: Command 2", "to 1: Command 2", "to 2: Command 2"}));
}

TEST_F(GroupLeaderTest, ALostRankEndsTheGenerationAndTheCommandKeepsItsNumber) {
  Form(2);
  Do(leader_.Run(now_));
  Hear(1, FromMember::Computed{1, {}});
  EXPECT_EQ(Do(leader_.Lost(2, now_)), Texts({"to 0: End", "to 1: End"}));
  EXPECT_EQ(Hear(kOwn, FromMember::Computed{1, {}}), Texts()) << "it comes too late";
  Hear(1, At(0));
  EXPECT_EQ(Hear(kOwn, At(0)), Texts({"to 0: Form 2 rank 0 of 2+0", "to 1: Form 2 rank 1 of 2+0"}));
  Hear(1, FromMember::Ready{2});
  EXPECT_EQ(Hear(kOwn, FromMember::Ready{2}), Texts({"begun 2: 2 ranks", "to 0: Command 1", "to 1: Command 1"}));
}

TEST_F(GroupLeaderTest, ACommandCanBeWithdrawnUnlessItIsComputed) {
  Form(2);
  Do(leader_.Run(now_));
  EXPECT_FALSE(leader_.Withdraw());
  Do(leader_.Lost(2, now_));
  EXPECT_TRUE(leader_.Withdraw());
  Hear(1, At(0));
  Hear(kOwn, At(0));
  Hear(1, FromMember::Ready{2});
  EXPECT_EQ(Hear(kOwn, FromMember::Ready{2}), Texts({"begun 2: 2 ranks"}));
}

TEST_F(GroupLeaderTest, ALossWhileACommandIsAppliedIsTakenUpAfterIt) {
  Form(2);
  Do(leader_.Run(now_));
  for (const GroupLeader::MemberId member : {0, 1, 2}) Hear(member, FromMember::Computed{1, {}});
  EXPECT_EQ(Do(leader_.Lost(2, now_)), Texts());
  EXPECT_EQ(Hear(kOwn, At(1, std::nullopt)), Texts({"answer: OK"}));
  EXPECT_EQ(Hear(1, At(1, std::nullopt)), Texts({"to 0: End", "to 1: End"}));
}

TEST_F(GroupLeaderTest, AFailedRankIsTheAnswer) {
  Form(2);
  Do(leader_.Run(now_));
  EXPECT_EQ(Hear(1, FromMember::Computed{1, absl::InvalidArgumentError("shape")}),
            Texts({"answer: INVALID_ARGUMENT", "to 0: End", "to 1: End", "to 2: End"}));
}

// The others' rings break by the failure, and one of them may be heard first.
TEST_F(GroupLeaderTest, AFailureIsTheAnswerThoughItIsHeardAfterTheBrokenRing) {
  Form(2);
  Do(leader_.Run(now_));
  EXPECT_EQ(Hear(2, FromMember::Broken{1}), Texts({"to 0: End", "to 1: End", "to 2: End"}));
  EXPECT_EQ(Hear(kOwn, FromMember::Broken{1}), Texts());
  EXPECT_EQ(Hear(1, FromMember::Computed{1, absl::InvalidArgumentError("shape")}), Texts({"answer: INVALID_ARGUMENT"}));
  Do(leader_.Run(now_));
  EXPECT_EQ(Hear(2, FromMember::Computed{1, absl::InternalError("again")}), Texts()) << "the next command has not begun";
}

TEST_F(GroupLeaderTest, ARingThatDoesNotFormIsTriedAgainLater) {
  Form(1);
  EXPECT_EQ(Do(leader_.Lost(1, now_)), Texts({"to 0: End"}));
  Hello(2);
  Hear(2, At(0));
  EXPECT_EQ(Hear(kOwn, At(0)), Texts({"to 0: Form 2 rank 0 of 2+0", "to 2: Form 2 rank 1 of 2+0"}));
  EXPECT_EQ(Hear(2, FromMember::Broken{2}), Texts({"to 0: End", "to 2: End", "warn"}));
  Hear(2, At(0));
  EXPECT_EQ(Hear(kOwn, At(0)), Texts());
  EXPECT_EQ(Do(leader_.Tick(now_ + 1s)), Texts({"to 2: Heartbeat", "to 0: Form 3 rank 0 of 2+0", "to 2: Form 3 rank 1 of 2+0"}));
}

TEST_F(GroupLeaderTest, AMemberWithWhichNoRingFormsIsLeftOut) {
  // Rings form no more. Returns the deeds of the last failure.
  const auto fail = [this](std::vector<GroupLeader::MemberId> speakers, std::optional<int64_t> rank) {
    Texts texts;
    for (size_t i = 0; i < GroupLeader::kMostUnformed; ++i) {
      texts = Hear(speakers[i % speakers.size()], FromMember::Broken{leader_.generation(), "there is no way to rank 1", rank});
      for (const auto& [member, seat] : std::map(leader_.seats())) {
        if (seat.owes) Hear(member, At(0));
      }
      Do(leader_.Tick(now_ += 1s));
      for (const auto& [member, seat] : std::map(leader_.seats())) {
        if (member != kOwn) Hear(member, Heartbeat());
      }
    }
    return texts;
  };
  for (GroupLeader::MemberId member = 0; member <= 3; ++member) Hello(member);
  for (GroupLeader::MemberId member = 3; member >= 0; --member) Hear(member, At(0));
  EXPECT_EQ(fail({2, 3}, 1), Texts({"to 0: End", "to 1: End", "to 2: End", "to 3: End", "warn", "close 1: FAILED_PRECONDITION"}))
      << "the rank that others name";
  EXPECT_EQ(leader_.unformed(), 0) << "without it there is another try";
  EXPECT_EQ(Hello(1), Texts({"close 1: UNAVAILABLE"})) << "not again at once";
  EXPECT_EQ(fail({2}, std::nullopt), Texts({"to 0: End", "to 2: End", "to 3: End", "warn", "close 3: FAILED_PRECONDITION"}))
      << "the last one that came, where nobody is named";
  EXPECT_EQ(fail({2}, 0), Texts({"to 0: End", "to 2: End", "warn", "close 2: FAILED_PRECONDITION"})) << "the leader leads";
  EXPECT_EQ(leader_.seats().size(), 1u);
  now_ += 40s;
  for (const GroupLeader::MemberId member : {1, 2, 3}) EXPECT_EQ(Hello(member), Texts({absl::StrCat("to ", member, ": Prepare")}));
  for (const GroupLeader::MemberId member : {1, 2, 3}) Hear(member, At(0));
  Hear(kOwn, FromMember::Ready{leader_.generation()});
  Hear(kOwn, At(0));
  EXPECT_EQ(fail({3}, 1), Texts({"to 0: End", "to 1: End", "to 2: End", "to 3: End", "warn", "close 1: FAILED_PRECONDITION",
                                 "close 3: FAILED_PRECONDITION"}))
      << "one that nobody else names, and the one that names it";
}

TEST_F(GroupLeaderTest, AMemberThatAnswersNothingStaysAwayTheLongerTheMoreOften) {
  Form(1);
  int pause = GroupLeader::kPatience;
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(Hello(2), Texts({"to 2: Prepare"})) << times;
    Beat(GroupLeader::kPatience + 1);
    EXPECT_FALSE(leader_.seats().contains(2)) << times;
    pause *= 2;
    Beat(pause - 1);
    EXPECT_EQ(Hello(2), Texts({"close 2: UNAVAILABLE"})) << times;
    Beat(1);
  }
}

TEST_F(GroupLeaderTest, NewcomersWaitWhereRingsAreLostToThem) {
  Form(1);
  Step(1, 1);
  GroupLeader::MemberId next = 10;
  // A newcomer that goes when the ring forms. False: it is not let in.
  const auto flap = [&] {
    const GroupLeader::MemberId member = next++;
    Hello(member);
    Hear(member, At(1));
    for (const auto& [each, seat] : std::map(leader_.seats())) {
      if (seat.owes && seat.place != GroupLeader::Seat::Place::kRank) Hear(each, At(1));
    }
    const bool is_in = leader_.phase() == GroupLeader::Phase::kForming;
    Do(leader_.Lost(member, now_));
    for (const auto& [each, seat] : std::map(leader_.seats())) {
      if (seat.owes) Hear(each, At(1));
    }
    for (const GroupLeader::MemberId each : {0, 1}) Hear(each, FromMember::Ready{leader_.generation()});
    return is_in;
  };
  for (int i = 0; i < GroupLeader::kMostUnformed; ++i) EXPECT_TRUE(flap()) << i;
  EXPECT_FALSE(flap());
  EXPECT_EQ(leader_.phase(), GroupLeader::Phase::kFormed) << "the others can go on";
  Hello(5);
  EXPECT_EQ(Hear(5, At(1)), Texts()) << "an honest newcomer waits, too";
  Step(2, 1);
  EXPECT_EQ(leader_.seats().at(5).place, GroupLeader::Seat::Place::kWaiting) << "until a command is applied";
}

TEST_F(GroupLeaderTest, NewcomersDoNotWaitWhereTheyAreNeeded) {
  Form(1);
  GroupLeader::MemberId next = 10;
  for (int i = 0; i < GroupLeader::kMostUnformed; ++i) {
    const GroupLeader::MemberId member = next++;
    Hello(member);
    Hear(member, At(0));
    for (const GroupLeader::MemberId each : {0, 1}) Hear(each, At(0));
    Do(leader_.Lost(member, now_));
    for (const GroupLeader::MemberId each : {0, 1}) Hear(each, At(0));
    for (const GroupLeader::MemberId each : {0, 1}) Hear(each, FromMember::Ready{leader_.generation()});
  }
  Hello(5);
  Hear(5, At(0));
  EXPECT_EQ(leader_.seats().at(5).place, GroupLeader::Seat::Place::kPreparing);
  Do(leader_.Lost(1, now_));  // Two are needed.
  EXPECT_NE(leader_.seats().at(5).place, GroupLeader::Seat::Place::kPreparing);
}

TEST_F(GroupLeaderTest, AMemberThatCannotGoOnSaysWhy) {
  Form(1);
  EXPECT_EQ(Hear(1, FromMember::Failed{absl::ResourceExhaustedError("no memory")}),
            Texts({"close 1: RESOURCE_EXHAUSTED", "to 0: End"}));
}

TEST_F(GroupLeaderTest, TooFewProcessesAnswerUnavailableAndSayHowLongToWait) {
  Form(0);
  EXPECT_EQ(Do(leader_.Run(now_)), Texts({"answer: UNAVAILABLE"}));
  const std::optional<ErrorInfo> info = InfoOf(Last<GroupLeader::Answer>().status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata.back(), std::pair(std::string("wait_ms"), std::string("1000")));
}

TEST_F(GroupLeaderTest, AMemberThatWantsToLeaveDoesBetweenTwoCommands) {
  Form(2);
  Do(leader_.Run(now_));
  EXPECT_EQ(Hear(1, FromMember::Leaving()), Texts());
  for (const GroupLeader::MemberId member : {0, 1, 2}) Hear(member, FromMember::Computed{1, {}});
  for (const GroupLeader::MemberId member : {0, 2}) Hear(member, At(1, std::nullopt));
  EXPECT_EQ(Hear(1, At(1, std::nullopt)), Texts({"close 1: OK", "to 0: End", "to 2: End"}));
  EXPECT_EQ(Do(leader_.Drain(2, now_)), Texts({"close 2: OK"}));
}

TEST_F(GroupLeaderTest, ASilentMemberIsLost) {
  Form(2);
  Do(leader_.Run(now_));
  now_ += 9s;
  EXPECT_EQ(Do(leader_.Tick(now_)), Texts({"to 1: Heartbeat", "to 2: Heartbeat"}));
  Hear(1, Heartbeat());
  now_ += 2s;
  EXPECT_EQ(Do(leader_.Tick(now_)), Texts({"to 1: Heartbeat", "to 2: Heartbeat", "close 2: UNAVAILABLE", "to 0: End", "to 1: End"}))
      << "a long step alone is no silence";
}

TEST_F(GroupLeaderTest, AMemberThatIsThereAndNeverAnswersIsLost) {
  Form(2);
  Do(leader_.Run(now_));
  Hear(1, FromMember::Computed{1, absl::OkStatus()});
  EXPECT_EQ(Beat(2 * GroupLeader::kPatience), Texts({"to 1: Heartbeat", "to 2: Heartbeat"})) << "an operator may take its time";
  Hear(kOwn, FromMember::Computed{1, absl::OkStatus()});
  EXPECT_EQ(Beat(GroupLeader::kPatience), Texts({"to 1: Heartbeat", "to 2: Heartbeat"})) << "and so much more than the leader's";
  EXPECT_EQ(Beat(1), Texts({"to 1: Heartbeat", "to 2: Heartbeat", "close 2: UNAVAILABLE", "to 0: End", "to 1: End"}));
  Do(leader_.Lost(1, now_));
  Hello(1);
  Hello(3);
  Hear(kOwn, At(0));
  EXPECT_EQ(Beat(GroupLeader::kPatience), Texts({"to 1: Heartbeat", "to 3: Heartbeat"}));
  EXPECT_EQ(Beat(1), Texts({"to 1: Heartbeat", "to 3: Heartbeat", "close 1: UNAVAILABLE", "close 3: UNAVAILABLE"}));
}

TEST_F(GroupLeaderTest, AProcessThatFlapsIsKeptOutForATimeout) {
  Form(3);
  Do(leader_.Lost(3, now_));
  EXPECT_EQ(Hello(3), Texts({"to 3: Prepare"})) << "once may happen";
  Hear(3, At(0));
  Do(leader_.Lost(3, now_ += 5s));
  EXPECT_EQ(Hello(3), Texts({"close 3: UNAVAILABLE"}));
  now_ += 9s;
  EXPECT_EQ(Hello(3), Texts({"close 3: UNAVAILABLE"}));
  now_ += 1s;
  EXPECT_EQ(Hello(3), Texts({"to 3: Prepare"}));
}

TEST_F(GroupLeaderTest, AProcessThatJoinsAgainHasLostItsFirstJoin) {
  Form(2);
  EXPECT_EQ(Hear(9, FromMember::Hello{102, "build 1"}), Texts({"close 2: ABORTED", "to 9: Prepare", "to 0: End", "to 1: End"}));
}

TEST_F(GroupLeaderTest, AMemberOfAnotherIncarnationGetsTheStateThoughItsNumberIsTheSame) {
  Hello(kOwn);
  Hello(1);
  Hear(1, Standing{kIncarnation - 1, 4, 5});
  EXPECT_EQ(Hear(kOwn, At(4)), Texts({"to 1: State 4"}));
}

TEST_F(GroupLeaderTest, AMemberWithOtherBitsGetsTheStateLoudlyAndOnceOnly) {
  Form(2);
  Step(1, 2);
  Do(leader_.Run(now_));
  for (const GroupLeader::MemberId member : {0, 1, 2}) Hear(member, FromMember::Computed{1, {}});
  Hear(kOwn, At(2));
  Hear(1, At(2));
  EXPECT_EQ(Hear(2, At(2, 6)), Texts({"to 0: End", "to 1: End", "to 2: End"})) << "each second command has CRCs";
  Hear(kOwn, At(2));
  Hear(1, At(2));
  EXPECT_EQ(Hear(2, At(2, 6)), Texts({"warn", "to 2: State 2"}));
  EXPECT_EQ(Hear(2, At(2, 6)), Texts({"close 2: DATA_LOSS", "to 0: Form 2 rank 0 of 2+0", "to 1: Form 2 rank 1 of 2+0"}));
}

TEST_F(GroupLeaderTest, TrainingStopsWhereMostAgreeAgainstTheLeader) {
  Form(2);
  Step(1, 2);
  Do(leader_.Run(now_));
  for (const GroupLeader::MemberId member : {0, 1, 2}) Hear(member, FromMember::Computed{1, {}});
  for (const GroupLeader::MemberId member : {1, 2}) Hear(member, At(2, 6));
  Hear(kOwn, At(2));
  for (const GroupLeader::MemberId member : {1, 2}) Hear(member, At(2, 6));
  EXPECT_EQ(Hear(kOwn, At(2)), Texts({"warn"}));
  EXPECT_EQ(Do(leader_.Run(now_)), Texts({"answer: DATA_LOSS"}));
}

TEST_F(GroupLeaderTest, StrangersAreRefused) {
  Form(2);
  EXPECT_EQ(Hear(8, FromMember::Hello{108, "build 2"}), Texts({"close 8: FAILED_PRECONDITION"}));
  EXPECT_NE(Last<GroupLeader::Close>().status.message().find("build 2"), absl::string_view::npos);
  EXPECT_EQ(Hear(8, FromMember::Ready{1}), Texts({"close 8: FAILED_PRECONDITION"})) << "Hello comes first";
  EXPECT_EQ(Hello(3), Texts({"to 3: Prepare"}));
  EXPECT_EQ(Hello(4), Texts({"close 4: RESOURCE_EXHAUSTED"}));
  EXPECT_EQ(Do(leader_.Lost(8, now_)), Texts()) << "its end is nobody's";
  Step(1, 2);
  EXPECT_EQ(leader_.seats().at(kOwn).standing.applied, 1u);
}

// A member that says something out of order is closed, and the others go on.
TEST_F(GroupLeaderTest, MessagesOutOfOrderEndTheirJoin) {
  const Texts closed = {"close 2: FAILED_PRECONDITION", "to 0: End", "to 1: End"};
  const FromMember::Any any[] = {FromMember::Hello{102, "build 1"},
                                 At(0),
                                 FromMember::Ready{1},
                                 FromMember::Ready{2},
                                 FromMember::Computed{1, {}},
                                 FromMember::Computed{1, absl::InternalError("no command")},
                                 FromMember::Broken{1},
                                 FromMember::Broken{0}};
  const GroupLeader unformed = leader_;
  for (const FromMember::Any& message : any) {
    leader_ = unformed;
    Form(2);
    EXPECT_EQ(Hear(2, message), closed) << "formed, message " << message.index();
  }
  const FromMember::Any while_computing[] = {At(1), FromMember::Ready{1}, FromMember::Computed{0, {}}, FromMember::Computed{2, {}},
                                             FromMember::Broken{0}};
  for (const FromMember::Any& message : while_computing) {
    leader_ = unformed;
    Form(2);
    Do(leader_.Run(now_));
    EXPECT_EQ(Hear(2, message), closed) << "computing, message " << message.index();
  }
}

TEST(GroupLeaderOptions, SizesAreChecked) {
  struct Case {
    int64_t min, max;
    bool allow_solo, is_ok;
  };
  for (const auto& [min, max, allow_solo, is_ok] : {Case{1, 1, false, true},
                                                    {2, 3, false, true},
                                                    {3, 4, false, true},
                                                    {64, 64, false, true},
                                                    {1, 2, true, true},
                                                    {2, 4, true, true},
                                                    {0, 1, true, false},
                                                    {3, 2, true, false},
                                                    {60, 65, true, false},
                                                    {1, 2, false, false},
                                                    {2, 4, false, false}}) {
    const auto leader = GroupLeader::Create({.min = min, .max = max, .allow_solo = allow_solo});
    EXPECT_EQ(leader.ok(), is_ok) << min << ":" << max << " " << leader.status();
    EXPECT_EQ(leader.status().code(), is_ok ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace gluond::server
