// A member of a group, one event at a time; group_walk_test.cc has all their orders.

#include "server/group/member.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <variant>

namespace gluond::server {
namespace {

using std::chrono_literals::operator""s;

class GroupMemberTest : public testing::Test {
 protected:
  using Phase = GroupMember::Phase;
  static constexpr Standing kLeaders = {.incarnation = 7, .applied = 3, .crc = 5};

  // The one deed, which is of this kind.
  template <class Deed>
  static Deed Only(const GroupMember::Deeds& deeds) {
    EXPECT_EQ(deeds.size(), 1u);
    EXPECT_TRUE(deeds.size() == 1 && std::holds_alternative<Deed>(deeds[0]));
    return std::get<Deed>(deeds.at(0));
  }
  template <class Message>
  static Message Said(const GroupMember::Deeds& deeds) {
    return std::get<Message>(Only<GroupMember::Send>(deeds).message);
  }
  template <class Word>
  Word Hear(const Word& word) {
    return Only<Word>(member_.Heard(word, now_));
  }

  void Prepare() {
    Said<FromMember::Hello>(member_.Join(now_));
    Hear(FromLeader::Prepare());
    Said<Standing>(member_.Stands(1));
  }
  // A rank with the leader's state.
  void Form() {
    Prepare();
    Hear(FromLeader::State{kLeaders});
    Said<Standing>(member_.Stands(5));
    Hear(FromLeader::Form{2, 1, 2, 0});
    EXPECT_EQ(Said<FromMember::Ready>(member_.Formed()).generation, 2u);
  }
  void Compute() {
    Form();
    Hear(FromLeader::Command{4});
    EXPECT_TRUE(Said<FromMember::Computed>(member_.Computed(absl::OkStatus())).status.ok());
  }

  GroupMember member_{{.process = 1, .fingerprint = "build 1"}, Standing{}};
  GroupMember::Time now_{1000s};
};

TEST_F(GroupMemberTest, ACommandIsAppliedAtTheLeadersWord) {
  Compute();
  EXPECT_EQ(member_.standing(), kLeaders);
  Hear(FromLeader::Apply{4});
  EXPECT_EQ(Said<Standing>(member_.Stands(std::nullopt)), Standing({7, 4, std::nullopt}));
  EXPECT_EQ(member_.phase(), Phase::kFormed);
}

TEST_F(GroupMemberTest, EndDropsWhatIsComputed) {
  Compute();
  Hear(FromLeader::End());
  EXPECT_EQ(Said<Standing>(member_.Stands(5)), kLeaders);
  EXPECT_EQ(member_.phase(), Phase::kWaiting);
}

TEST_F(GroupMemberTest, AFailureIsToldThoughTheGenerationHasEnded) {
  Form();
  Hear(FromLeader::Command{4});
  Hear(FromLeader::End());
  EXPECT_TRUE(member_.Broken().empty());
  EXPECT_TRUE(member_.Computed(absl::OkStatus()).empty()) << "dropped";
  const auto computed = Said<FromMember::Computed>(member_.Computed(absl::InvalidArgumentError("shape")));
  EXPECT_EQ(computed.generation, 2u);
  EXPECT_EQ(computed.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Said<Standing>(member_.Stands(5)), kLeaders);
}

TEST_F(GroupMemberTest, AProcessKeepsItsStandingOverItsJoins) {
  Compute();
  Only<FromLeader::End>(member_.Lost());
  EXPECT_EQ(member_.phase(), Phase::kWorking) << "no Join before the engine has ended the ring";
  EXPECT_TRUE(member_.Stands(5).empty());
  EXPECT_EQ(member_.phase(), Phase::kOut);
  member_.Join(now_);
  Hear(FromLeader::Prepare());
  EXPECT_EQ(Said<Standing>(member_.Stands(5)), kLeaders);
}

TEST_F(GroupMemberTest, ACommandIsAppliedToItsEndThoughTheLeaderIsLost) {
  Compute();
  Hear(FromLeader::Apply{4});
  EXPECT_TRUE(member_.Lost().empty());
  EXPECT_TRUE(member_.Stands(std::nullopt).empty());
  EXPECT_EQ(member_.phase(), Phase::kOut);
  EXPECT_EQ(member_.standing().applied, 4u);
}

TEST_F(GroupMemberTest, AnEngineThatFailsHasNobodysState) {
  Prepare();
  Hear(FromLeader::State{kLeaders});
  Only<GroupMember::Leave>(member_.Failed(absl::ResourceExhaustedError("memory")));
  EXPECT_EQ(member_.standing(), Standing());
  EXPECT_EQ(member_.phase(), Phase::kOut);
}

TEST_F(GroupMemberTest, ASilentLeaderIsLost) {
  Form();
  EXPECT_TRUE(member_.Heard(Heartbeat(), now_ += 9s).empty());
  Said<Heartbeat>(member_.Tick(now_ + 9s));
  const GroupMember::Deeds deeds = member_.Tick(now_ + 11s);
  ASSERT_EQ(deeds.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<FromLeader::End>(deeds[0]));
  EXPECT_TRUE(absl::IsUnavailable(std::get<GroupMember::Leave>(deeds[1]).status));
  EXPECT_TRUE(member_.Tick(now_ + 12s).empty());
}

TEST_F(GroupMemberTest, MessagesOutOfOrderEndTheJoin) {
  const GroupMember fresh = member_;
  const auto is_left = [&](const FromLeader::Any& message) {
    const GroupMember::Deeds deeds = member_.Heard(message, now_);
    const auto* leave = deeds.empty() ? nullptr : std::get_if<GroupMember::Leave>(&deeds.back());
    return leave != nullptr && absl::IsFailedPrecondition(leave->status);
  };
  const FromLeader::Any while_waiting[] = {FromLeader::Prepare(), FromLeader::Command{1}, FromLeader::Apply{1}, FromLeader::End(),
                                           FromLeader::Form{0, 1, 2, 0}};
  for (const FromLeader::Any& message : while_waiting) {
    member_ = fresh;
    Prepare();
    EXPECT_TRUE(is_left(message)) << "waiting, message " << message.index();
  }
  const FromLeader::Any while_formed[] = {FromLeader::Command{3}, FromLeader::Command{5}, FromLeader::Apply{4},
                                          FromLeader::State{kLeaders}, FromLeader::Form{3, 1, 2, 0}};
  for (const FromLeader::Any& message : while_formed) {
    member_ = fresh;
    Form();
    EXPECT_TRUE(is_left(message)) << "formed, message " << message.index();
  }
  for (const FromLeader::Any& message : {FromLeader::Any(FromLeader::Apply{3}), FromLeader::Any(FromLeader::Apply{5})}) {
    member_ = fresh;
    Compute();
    EXPECT_TRUE(is_left(message)) << "computed, message " << message.index();
    EXPECT_EQ(member_.standing(), kLeaders);
  }
  // An old leader's generation is no excuse: a failed rank waits for End alone.
  member_ = fresh;
  Form();
  Hear(FromLeader::Command{4});
  member_.Broken();
  EXPECT_TRUE(is_left(FromLeader::Apply{4}));
}

}  // namespace
}  // namespace gluond::server
