// A session that has saved something is named: its client may be away for longer than the lease, but makes room first.

#include "tests/server/session_fixture.h"

namespace gluond::server {
namespace {

class SessionNamedTest : public SessionTest {
 protected:
  static Limits Short() {
    Limits limits;
    limits.session_lease_seconds = 1;
    return limits;
  }
  static v1::Command Save() {
    v1::Command command;
    command.mutable_save_session()->set_name("run");
    return command;
  }
  // A session whose client leaves; named unless `save` is false.
  std::string Leave(bool save = true) {
    std::string session;
    {
      ClientStream stream(*stub_);
      session = stream.Open();
      stream.Send(1, {save ? Save() : Fetch({1})});
      EXPECT_EQ(stream.NextReply().has_saved(), save);
    }
    // The server hears of the cancelled stream a moment later, and who left first is to be away for longest.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return session;
  }
  bool IsThere(const std::string& session) {
    ClientStream stream(*stub_);
    return stream.Open(session) == session;
  }
};

TEST_F(SessionNamedTest, OutlivesItsLease) {
  Restart(Short());
  const std::string named = Leave();
  const std::string other = Leave(/*save=*/false);
  Eventually([&] { return server_->sessions().size() == 1; });
  EXPECT_FALSE(IsThere(other));
  EXPECT_TRUE(IsThere(named));
}

TEST_F(SessionNamedTest, EndsWithItsGrace) {
  Limits limits = Short();
  limits.session_grace_seconds = 2;
  Restart(limits);
  const std::string named = Leave();
  Eventually([&] { return server_->sessions().size() == 0; });
  ClientStream stream(*stub_);
  EXPECT_EQ(stream.Open(named), "");
  stream.ExpectEnd(grpc::StatusCode::NOT_FOUND, "--session_grace_seconds");
}

TEST_F(SessionNamedTest, AGraceBelowTheLeaseShortensNothing) {
  Limits limits;
  limits.session_lease_seconds = 600;
  limits.session_grace_seconds = 1;
  Restart(limits);
  const std::string named = Leave();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(server_->sessions().size(), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST_F(SessionNamedTest, TheLongestAwayMakeRoomForTheOthersTensors) {
  Limits limits = Short();
  limits.max_named_session_bytes = 1000;
  Restart(limits);
  std::vector<std::string> sessions;
  for (const int64_t bytes : {400, 100, 300, 600}) {
    probe_.tensor_bytes = bytes;
    sessions.push_back(Leave());
  }
  // The third is taken up again: it is away for the shortest time, and counts last.
  EXPECT_TRUE(IsThere(sessions[2]));
  Eventually([&] { return server_->sessions().size() == 3; });
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_FALSE(IsThere(sessions[0]));
  for (const size_t i : {1, 2, 3}) EXPECT_TRUE(IsThere(sessions[i])) << i;
}

TEST_F(SessionNamedTest, TheLongestAwayMakesRoomForANewSession) {
  Limits limits = Short();
  limits.max_sessions = 4;
  Restart(limits);
  std::vector<std::string> sessions;
  const auto may_open = [&] {
    ClientStream stream(*stub_);
    const std::string session = stream.Open();
    if (session.empty()) return false;
    stream.Send(1, {Save()});
    sessions.push_back(session);
    return stream.NextReply().has_saved();
  };
  while (may_open()) ASSERT_LT(sessions.size(), 20u);
  EXPECT_LT(sessions.size(), 4u) << "the connection's share, while none is away";
  Eventually([&] {
    may_open();
    return sessions.size() == 8;  // The share counts none that is away.
  });
  EXPECT_EQ(server_->sessions().size(), 4);
  EXPECT_FALSE(IsThere(sessions[3]));
  Eventually([&] { return IsThere(sessions[4]); });  // When the share has a place for it.
}

TEST_F(SessionNamedTest, NobodyMakesRoomForOneThatIsOverItsOwnShare) {
  Limits limits = Short();
  limits.max_sessions = 3;
  Restart(limits);
  const std::string away = Leave();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  {
    ClientStream first(*stub_), second(*stub_), third(*stub_);
    EXPECT_NE(first.Open(), "");
    EXPECT_NE(second.Open(), "");
    EXPECT_EQ(third.Open(), "");
    third.ExpectEnd(grpc::StatusCode::RESOURCE_EXHAUSTED, "its share");
    EXPECT_EQ(server_->sessions().size(), 3);
    first.WritesDone();
    second.WritesDone();
    Eventually([&] { return server_->sessions().size() == 1; });
  }
  EXPECT_TRUE(IsThere(away));
}

TEST_F(SessionNamedTest, OneThatHoldsNothingOnTheFullDeviceStays) {
  Limits limits = Short();
  limits.max_named_session_bytes = 1000;
  Restart(limits);
  std::vector<std::string> sessions;
  for (const int64_t bytes : {0, 600, 700}) {
    probe_.tensor_bytes = bytes;
    sessions.push_back(Leave());
  }
  Eventually([&] { return server_->sessions().size() == 2; });
  EXPECT_TRUE(IsThere(sessions[0]));
  EXPECT_FALSE(IsThere(sessions[1]));
}

TEST_F(SessionNamedTest, OneWithAClientIsNeverAway) {
  Limits limits = Short();
  limits.max_named_session_bytes = 1;
  Restart(limits);
  probe_.tensor_bytes = 1000;
  ClientStream stream(*stub_);
  const std::string session = stream.Open();
  stream.Send(1, {Save()});
  EXPECT_TRUE(stream.NextReply().has_saved());
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_TRUE(stream.Send({}));
  }
  EXPECT_EQ(server_->sessions().size(), 1);
}

}  // namespace
}  // namespace gluond::server
