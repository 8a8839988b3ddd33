// A session goes on where its stream was cut: nothing is executed twice, nothing is lost, whenever it happens.

#include "tests/server/stubborn_client.h"
#include "tests/server/tcp_proxy.h"

namespace gluond::server {
namespace {

constexpr uint64_t kCommands = 399;  // The last one is answered: all have been executed then.

// Every seventh command asks for the result of all before it.
v1::Command CommandOf(uint64_t number) {
  if (number == 3) return Put(2, std::string(20'000, 'x'));
  if (number % 35 == 0) return Fetch({1, 2});
  return number % 7 == 0 ? Fetch({1}) : Mix(1);
}

const Script kScript = {CommandOf, kCommands, kCommands / 7};

TEST_F(SessionTest, CutAnywhereAnyNumberOfTimesTheResultIsThatOfACalmRun) {
  EXPECT_GT(ExpectCutsDoNotMatter(*stub_, kScript, 40), 10);
  EXPECT_EQ(probe_.executed, static_cast<int64_t>(41 * kCommands));
}

TEST_F(SessionTest, AnotherStreamMayTakeOverWhileTheFirstStillSends) {
  const auto expected = Undisturbed(*stub_, kScript);
  for (int round = 0; round < 20; ++round) {
    ClientStream first(*stub_);
    const std::string session = first.Open();
    std::thread sender([&] {
      for (uint64_t n = 1; n <= kCommands && first.Send(n, {CommandOf(n)}); ++n) continue;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    ClientStream second(*stub_);
    EXPECT_EQ(second.Open(session), session);
    std::thread second_sender([&second, n = second.received() + 1]() mutable {
      for (; n <= kCommands; ++n) EXPECT_TRUE(second.Send(n, {CommandOf(n)}));
    });
    for (const auto& [number, value] : expected) {
      const v1::Reply reply = second.NextReply();
      EXPECT_EQ(reply.number(), number);
      EXPECT_EQ(value.substr(0, 8), reply.tensors().empty() ? "nothing" : reply.tensors(0).raw());
    }
    second_sender.join();
    first.ExpectEnd(grpc::StatusCode::ABORTED, "taken the session over");
    sender.join();
  }
}

TEST_F(SessionTcpTest, AConnectionThatBreaksInTheMiddleOfMessagesLosesNothing) {
  const auto expected = Undisturbed(*stub_, kScript);
  TcpProxy proxy(server_->port());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  const auto channel =
      grpc::CreateCustomChannel(proxy.address(), grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::SessionService::NewStub(channel);
  StubbornClient client(kScript, 7);
  std::atomic<bool> done = false;
  std::thread cutter([&] {
    std::mt19937 random(7);
    for (int i = 0; i < 30 && !done; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
      proxy.CutSoon();
    }
  });
  int cuts = 0;
  for (; cuts < 1000 && !client.Try(*stub, 0, std::chrono::milliseconds(4)); ++cuts) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  done = true;
  cutter.join();
  EXPECT_GT(cuts, 3);
  EXPECT_EQ(client.replies(), expected);
}

}  // namespace
}  // namespace gluond::server
