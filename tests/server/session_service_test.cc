// SessionService's stream: opening, numbers, replies, limits and ends. session_program_test.cc tests the commands.

#include <future>

#include "tests/server/session_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

Limits ShortLease() {
  Limits limits;
  limits.session_lease_seconds = 1;
  return limits;
}

TEST_F(SessionTest, ASessionAnswersWhatAsksAndNothingElse) {
  ClientStream stream(*stub_);
  ASSERT_TRUE(stream.Send(OpenRequest()));
  v1::SessionResponse opened;
  ASSERT_TRUE(stream.Receive(&opened));
  EXPECT_EQ(opened.opened().session().size(), 32u);
  EXPECT_FALSE(opened.opened().resumed());
  EXPECT_EQ(opened.opened().lease().seconds(), 60);
  EXPECT_EQ(opened.opened().max_message_bytes(), int64_t{64} << 20);
  EXPECT_EQ(opened.opened().devices(0), "cpu");
  EXPECT_GE(opened.opened().protocol(), 2u);
  EXPECT_GE(opened.opened().features_size(), 4);
  EXPECT_EQ(opened.opened().registry_hash().size(), 16u);
  stream.Send(1, {Put(1, "abc"), Fetch({1})});
  v1::Reply reply = stream.NextReply();
  EXPECT_EQ(reply.index(), 1u);
  EXPECT_EQ(reply.number(), 2u);
  EXPECT_EQ(reply.tensors(0).raw(), "abc");
  EXPECT_EQ(stream.received(), 2u);
}

TEST_F(SessionTest, TheFirstMessageMayHoldCommands) {
  ClientStream stream(*stub_);
  v1::SessionRequest request = OpenRequest();
  request.MergeFrom(Request(1, {Put(1, "abc"), Fetch({1})}));
  stream.Send(request);
  EXPECT_EQ(stream.NextValue(), "abc");
}

TEST_F(SessionTest, NamesDiffer) {
  ClientStream one(*stub_), other(*stub_);
  EXPECT_NE(one.Open(), other.Open());
}

TEST_F(SessionTest, LargeTensorsComeAndGoAsTheyAre) {
  std::string large(5 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 7);
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, {Put(1, large), Put(2, "small"), Fetch({2, 1})});
  const v1::Reply reply = stream.NextReply();
  ASSERT_EQ(reply.tensors_size(), 2);
  EXPECT_EQ(reply.tensors(0).raw(), "small");
  EXPECT_TRUE(reply.tensors(1).raw() == large);
}

TEST_F(SessionTest, CommandsAreExecutedInOrder) {
  ClientStream stream(*stub_);
  stream.Open();
  std::vector<uint64_t> numbers;
  std::vector<v1::Command> commands(1000, Mix(1));
  for (uint64_t n = 1; n <= 1000; ++n) numbers.push_back(n);
  commands.push_back(Fetch({1}));
  stream.Send(1, commands);
  EXPECT_EQ(stream.NextValue(), Mixed(numbers));
}

TEST_F(SessionTest, LongCommandsAreExecutedBesideTheLaneInTheirOrder) {
  std::vector<v1::Command> commands(300, Mix(1));
  commands.push_back(Fetch({1}));
  std::vector<uint64_t> numbers;
  for (uint64_t n = 1; n <= 300; ++n) numbers.push_back(n);
  for (const int long_every : {1, 2, 7}) {
    probe_.executed = probe_.executed_beside = 0;
    probe_.long_every = long_every;
    ClientStream stream(*stub_);
    stream.Open();
    stream.Send(1, commands);
    EXPECT_EQ(stream.NextValue(), Mixed(numbers));
    EXPECT_EQ(probe_.executed, 301);
    EXPECT_EQ(probe_.executed_beside, 301 / long_every);
  }
}

TEST_F(SessionTest, LargeCommandsAndTheEndAreBesideTheLane) {
  v1::Command large;
  for (uint64_t name = 1; name <= 100'000; ++name) large.mutable_mark()->add_arrays()->set_variable(name);
  {
    ClientStream stream(*stub_);
    stream.Open();
    stream.Send(1, {Mix(1), large, Mix(1), Fetch({1})});
    EXPECT_EQ(stream.NextReply().failures(0).status().message(), "no such command");
    EXPECT_EQ(stream.NextValue(), Mixed({1, 3}));
    stream.WritesDone();
    EXPECT_TRUE(stream.Finish().ok());
  }
  EXPECT_EQ(probe_.executed_beside, 1);
  Eventually([this] { return probe_.programs == 0; });
  EXPECT_EQ(probe_.ended_beside, 1);
}

TEST_F(SessionTest, TheEndInterruptsALongCommand) {
  Restart(ShortLease());
  probe_.long_every = 1;
  v1::Command endless;
  endless.mutable_infer_graph()->set_graph(1);
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, {endless});
  Eventually([this] { return probe_.executed == 1; });
  stream.ExpectEnd(StatusCode::DEADLINE_EXCEEDED, "--session_lease_seconds");
  Eventually([this] { return probe_.programs == 0; });
  EXPECT_EQ(probe_.interrupted, 1);
}

TEST_F(SessionTest, ManyCommandsWithoutAnAnswerAreConfirmed) {
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, std::vector<v1::Command>(3000, Mix(1)));
  stream.WaitForReceived(3000);
  stream.Send(3001, {Mix(1)});
  stream.Send({});  // An empty message asks.
  stream.WaitForReceived(3001);
}

TEST_F(SessionTest, CommandsThatCameAlreadyAreSkipped) {
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, {Mix(1), Mix(1), Mix(1)});
  stream.Send(1, {Mix(1), Mix(1)});
  stream.Send(2, {Mix(1), Mix(1), Mix(1), Fetch({1})});
  stream.Send(5, {Fetch({1})});
  const v1::Reply reply = stream.NextReply();
  EXPECT_EQ(reply.number(), 5u);
  EXPECT_EQ(reply.tensors(0).raw(), Mixed({1, 2, 3, 4}));
  EXPECT_EQ(probe_.executed, 5);
}

TEST_F(SessionTest, AGapEndsTheStreamAndSaysWhereToGoOn) {
  ClientStream stream(*stub_);
  const std::string session = stream.Open();
  stream.Send(1, {Mix(1), Mix(1)});
  stream.Send(4, {Mix(1)});
  stream.ExpectEnd(StatusCode::FAILED_PRECONDITION, "first_number is 4, but the last command received is 2; send again from 3");
  ExpectAlive(session, 2);
}

TEST_F(SessionTest, AFailedStreamIsOneLineInTheLog) {
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(4, {Mix(1)});
  stream.ExpectEnd(StatusCode::FAILED_PRECONDITION, "Run: ");
  const std::vector<std::string> lines = log_.Take();
  ASSERT_EQ(lines.size(), 1u);
  for (const char* part :
       {R"("method":"/gluond.v1.SessionService/Run")", R"("code":"FAILED_PRECONDITION")", R"("client":"ann")", R"("bytes":)"}) {
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
  }
}

TEST_F(SessionTest, WhatIsNotOpenedIsToldSo) {
  ClientStream commands(*stub_);
  commands.Send(1, {Mix(1)});
  commands.ExpectEnd(StatusCode::FAILED_PRECONDITION, "first message needs `open`");
  ClientStream nothing(*stub_);
  nothing.WritesDone();
  nothing.ExpectEnd(StatusCode::FAILED_PRECONDITION, "ended before its first message");
  ClientStream twice(*stub_);
  twice.Open();
  twice.Send(OpenRequest());
  twice.ExpectEnd(StatusCode::INVALID_ARGUMENT, "open came again");
}

TEST_F(SessionTest, UnknownNamesDevicesAndLongClientsAreRefused) {
  ClientStream unknown(*stub_);
  unknown.Send(OpenRequest("0123456789abcdef0123456789abcdef"));
  unknown.ExpectEnd(StatusCode::NOT_FOUND, "lease has ended");
  ClientStream device(*stub_);
  v1::SessionRequest request = OpenRequest();
  request.mutable_open()->set_device("gpu:7");
  device.Send(request);
  device.ExpectEnd(StatusCode::NOT_FOUND, "it has: cpu");
  ClientStream client(*stub_);
  request = OpenRequest();
  request.mutable_open()->set_client_id(std::string(129, 'x'));
  client.Send(request);
  client.ExpectEnd(StatusCode::INVALID_ARGUMENT, "client_id has 129 bytes");
  EXPECT_EQ(server_->sessions().size(), 0);
}

TEST_F(SessionTest, AcknowledgingWhatNeverWasIsRefused) {
  ClientStream stream(*stub_);
  stream.Open();
  v1::SessionRequest request;
  request.set_replies_received(1);
  stream.Send(request);
  stream.ExpectEnd(StatusCode::INVALID_ARGUMENT, "replies_received is 1, but the session has given 0");
}

TEST_F(SessionTest, ASecondStreamTakesOver) {
  ClientStream first(*stub_);
  const std::string session = first.Open();
  first.Send(1, {Mix(1), Fetch({1})});
  EXPECT_EQ(first.NextReply().index(), 1u);
  ClientStream second(*stub_);
  ASSERT_EQ(second.Open(session, 1), session);
  first.Send(3, {Mix(1)});
  first.ExpectEnd(StatusCode::ABORTED, "taken the session over");
  second.Send(3, {Mix(1), Fetch({1})});
  EXPECT_EQ(second.NextValue(), Mixed({1, 3}));
}

TEST_F(SessionTest, ResumptionSendsAgainWhatWasNotAcknowledged) {
  std::string session;
  {
    ClientStream stream(*stub_);
    session = stream.Open();
    stream.Send(1, {Put(1, "a"), Fetch({1}), Put(1, "b"), Fetch({1}), Put(1, "c"), Fetch({1})});
    for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(stream.NextReply().index(), i);
  }
  ClientStream stream(*stub_);
  ASSERT_EQ(stream.Open(session, 1), session);
  EXPECT_EQ(stream.received(), 6u);
  EXPECT_EQ(stream.NextValue(), "b");
  const v1::Reply last = stream.NextReply();
  EXPECT_EQ(last.index(), 3u);
  EXPECT_EQ(last.number(), 6u);
  EXPECT_EQ(last.tensors(0).raw(), "c");
  EXPECT_EQ(probe_.executed, 6);
}

TEST_F(SessionTest, AHalfClosedStreamFinishesItsWorkAndEndsTheSession) {
  ClientStream stream(*stub_);
  const std::string session = stream.Open();
  stream.Send(1, {Sleep(milliseconds(20)), Mix(1), Fetch({1}), Hang()});
  stream.WritesDone();
  EXPECT_EQ(stream.NextValue(), Mixed({2}));
  Eventually([this] { return probe_.pending == 1; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(server_->sessions().size(), 1) << "a command has not come to its end";
  probe_.pending = 0;
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(server_->sessions().size(), 0);
  Eventually([this] { return probe_.programs == 0; });
  ClientStream late(*stub_);
  late.Send(OpenRequest(session));
  late.ExpectEnd(StatusCode::NOT_FOUND, "no such session");
}

TEST_F(SessionTest, ASessionWithoutAStreamEndsWithItsLease) {
  Restart(ShortLease());
  std::string session;
  {
    ClientStream stream(*stub_);
    session = stream.Open();
    stream.Send(1, {Fetch({1})});
    stream.NextReply();
  }
  ExpectAlive(session, 1);
  EXPECT_EQ(probe_.programs, 1);
  Eventually([this] { return server_->sessions().size() == 0 && probe_.programs == 0; });
}

TEST_F(SessionTest, ASilentStreamEndsWithItsLease) {
  Restart(ShortLease());
  ClientStream stream(*stub_);
  stream.Open();
  ClientStream unopened(*stub_);
  stream.ExpectEnd(StatusCode::DEADLINE_EXCEEDED, "--session_lease_seconds");
  EXPECT_EQ(server_->sessions().size(), 0);
  unopened.ExpectEnd(StatusCode::DEADLINE_EXCEEDED, "no message with `open` came");
}

TEST_F(SessionTest, EmptyMessagesKeepASessionAlive) {
  Restart(ShortLease());
  ClientStream stream(*stub_);
  stream.Open();
  for (int i = 0; i < 25; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    ASSERT_TRUE(stream.Send({}));
  }
  stream.Send(1, {Fetch({1})});
  EXPECT_EQ(stream.NextReply().number(), 1u);
}

TEST_F(SessionTest, AClientThatTheServerKeepsWaitingIsNotSilent) {
  Limits limits = ShortLease();
  limits.max_session_queue_bytes = 1000;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  probe_.closed = true;
  stream.Send(1, {Put(1, std::string(2000, 'x'))});  // The queue is full: nothing more is read.
  std::this_thread::sleep_for(milliseconds(2500));
  probe_.closed = false;
  stream.Send(2, {Fetch({1})});
  EXPECT_EQ(stream.NextValue().size(), 2000u);
}

TEST_F(SessionTest, TooManySessionsAreRefusedByName) {
  Limits limits;
  limits.max_sessions = 4;  // Half of them for one connection.
  Restart(limits);
  ClientStream one(*stub_), two(*stub_), three(*stub_);
  const std::string session = one.Open();
  two.Open();
  three.Send(OpenRequest());
  three.ExpectEnd(StatusCode::RESOURCE_EXHAUSTED, "--max_sessions");
  ExpectAlive(session, 0);
}

TEST_F(SessionTest, TooManyStreamsAreRefusedByName) {
  Limits limits;
  limits.max_sessions = 2;  // A connection's share is two streams.
  Restart(limits);
  ClientStream one(*stub_), two(*stub_);
  one.Open();
  Eventually([this] { return server_->sessions().streams().size() == 2; });
  ClientStream three(*stub_);
  three.ExpectEnd(StatusCode::RESOURCE_EXHAUSTED, "--max_sessions");
}

TEST_F(SessionTest, AReplyThatIsTooLargeSaysSo) {
  Limits limits;
  limits.max_message_bytes = 1 << 20;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  const std::string half(600'000, 'x');
  stream.Send(1, {Put(1, half)});
  stream.Send(2, {Put(2, half), Fetch({1}), Fetch({1, 2}), Fetch({2})});
  EXPECT_EQ(stream.NextValue().size(), half.size());
  const v1::Reply large = stream.NextReply();
  EXPECT_EQ(large.number(), 4u);
  EXPECT_EQ(large.tensors_size(), 0);
  ASSERT_EQ(large.failures_size(), 1);
  EXPECT_EQ(large.failures(0).status().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(large.failures(0).status().message().find("--max_message_bytes"), std::string::npos);
  EXPECT_EQ(stream.NextValue().size(), half.size());
}

// Sends `count` messages, each with a Put of 100,000 bytes and a Fetch of it, until the server takes no more.
class Flood {
 public:
  Flood(ClientStream& stream, uint64_t count)
      : thread_([this, &stream, count] {
          for (uint64_t i = 0; i < count && stream.Send(2 * i + 1, {Put(1, std::string(100'000, 'x')), Fetch({1})}); ++i) {
            ++sent_;
          }
        }) {}
  ~Flood() { thread_.join(); }
  int64_t sent() const { return sent_; }

 private:
  std::atomic<int64_t> sent_ = 0;
  std::thread thread_;
};

TEST_F(SessionTest, AClientThatDoesNotReadMakesNothingGrow) {
  Limits limits;
  limits.max_session_queue_bytes = 1'000'000;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  Flood flood(stream, 100);
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LE(probe_.executed, 2 * 13);  // Ten replies unsent, some in gRPC's hands.
  EXPECT_LE(flood.sent(), 26);         // As many messages in the queue.
  EXPECT_GE(flood.sent(), 10);
  for (uint64_t i = 1; i <= 100; ++i) ASSERT_EQ(stream.NextReply().index(), i);
  EXPECT_EQ(probe_.executed, 200);
}

TEST_F(SessionTest, AClientThatDoesNotReadIsSilentAtLast) {
  Limits limits = ShortLease();
  limits.max_session_queue_bytes = 1'000'000;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  Flood flood(stream, 100);
  Eventually([this] { return server_->sessions().size() == 0 && probe_.programs == 0; });
  Eventually([this] { return server_->sessions().streams().size() == 0; });
}

TEST_F(SessionTest, ASlowProgramStopsTheReads) {
  Limits limits;
  limits.max_session_queue_bytes = 1'000'000;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  probe_.closed = true;
  Flood flood(stream, 100);
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(probe_.executed, 0);
  EXPECT_LE(flood.sent(), 13);
  probe_.closed = false;
  for (uint64_t i = 1; i <= 100; ++i) ASSERT_EQ(stream.NextReply().index(), i);
}

TEST_F(SessionTest, TooManyCommandsThatWaitHoldTheOthersUp) {
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, std::vector<v1::Command>(10'500, Hang()));
  stream.Send(10'501, {Fetch({1})});
  Eventually([this] { return probe_.executed >= 10'001; });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(probe_.executed, 10'001);
  probe_.pending = 0;
  EXPECT_EQ(stream.NextReply().number(), 10'501u);
}

TEST_F(SessionTest, AMessageLargerThanTheQueueStillComesIn) {
  Limits limits;
  limits.max_session_queue_bytes = 1000;
  Restart(limits);
  ClientStream stream(*stub_);
  stream.Open();
  for (uint64_t i = 0; i < 10; ++i) {
    stream.Send(2 * i + 1, {Put(1, std::string(50'000, 'x')), Fetch({1})});
    EXPECT_EQ(stream.NextReply().index(), i + 1);
  }
}

TEST_F(SessionTest, RepliesThatNobodyAcknowledgesAreForgottenOnceNewerOnesHaveArrived) {
  Limits limits;
  limits.max_session_queue_bytes = 1'000'000;
  Restart(limits);
  std::string session;
  {
    ClientStream stream(*stub_);
    session = stream.Open();
    Flood flood(stream, 50);
    for (uint64_t i = 1; i <= 50; ++i) ASSERT_EQ(stream.NextReply().index(), i);
  }
  ClientStream careless(*stub_);
  careless.Send(OpenRequest(session, 5));
  careless.ExpectEnd(StatusCode::FAILED_PRECONDITION, "not kept any more");
  ClientStream stream(*stub_);
  ASSERT_EQ(stream.Open(session, 45), session);
  EXPECT_EQ(stream.NextReply().index(), 46u);
}

TEST_F(SessionTcpTest, DrainFinishesWhatWasReceivedAndEndsStreams) {
  ClientStream busy(*stub_), idle(*stub_), unopened(*stub_);
  busy.Open();
  idle.Open();
  Eventually([this] { return server_->sessions().streams().size() == 3; });
  busy.Send(1, {Sleep(milliseconds(100)), Mix(1), Fetch({1})});
  Eventually([this] { return probe_.programs == 1; });
  auto drained = std::async(std::launch::async, [this] { server_->Drain(seconds(20)); });
  idle.ExpectEnd(StatusCode::UNAVAILABLE, "stopping");
  unopened.ExpectEnd(StatusCode::UNAVAILABLE, "stopping");
  EXPECT_EQ(busy.NextValue(), Mixed({2}));
  busy.ExpectEnd(StatusCode::UNAVAILABLE, "");  // The connection may end before its last words are read.
  EXPECT_EQ(drained.wait_for(seconds(10)), std::future_status::ready);
  EXPECT_EQ(probe_.programs, 0);
}

TEST_F(SessionTcpTest, DrainDoesNotWaitLongerThanItsGrace) {
  ClientStream stream(*stub_);
  stream.Open();
  stream.Send(1, {Hang()});
  Eventually([this] { return probe_.pending == 1; });
  server_->Drain(milliseconds(100));
  EXPECT_EQ(server_->sessions().size(), 0);
  EXPECT_EQ(probe_.programs, 0);
  EXPECT_FALSE(stream.Finish().ok());
}

TEST_F(SessionTest, TwoSessionsAtOnceShareTheLane) {
  constexpr uint64_t kCommands = 20'000;
  std::vector<std::thread> clients;
  for (int c = 0; c < 2; ++c) {
    clients.emplace_back([this] {
      ClientStream stream(*stub_);
      stream.Open();
      std::vector<uint64_t> numbers;
      for (uint64_t n = 1; n <= kCommands; n += 100) {
        stream.Send(n, std::vector<v1::Command>(100, Mix(1)));
        for (uint64_t i = 0; i < 100; ++i) numbers.push_back(n + i);
      }
      stream.Send(kCommands + 1, {Fetch({1})});
      EXPECT_EQ(stream.NextValue(), Mixed(numbers));
      stream.WritesDone();
      EXPECT_TRUE(stream.Finish().ok());
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(SessionTest, ALongQueueOfOneSessionDoesNotHoldUpAnother) {
  ClientStream busy(*stub_), other(*stub_);
  busy.Open();
  other.Open();
  busy.Send(1, std::vector<v1::Command>(2000, Sleep(milliseconds(1))));
  Eventually([this] { return probe_.executed > 0; });
  other.Send(1, {Fetch({1})});
  EXPECT_EQ(other.NextReply().number(), 1u);
  EXPECT_LT(probe_.executed, 1000);
}

}  // namespace
}  // namespace gluond::server
