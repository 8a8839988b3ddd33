// A session goes on where its stream was cut: nothing is executed twice, nothing is lost, whenever it happens.

#include <filesystem>
#include <fstream>

#include "server/identity/secret.h"
#include "tests/server/stubborn_client.h"
#include "tests/server/tcp_proxy.h"

namespace gluond::server {
namespace {

constexpr uint64_t kCommands = 399;  // The last one is answered: all have been executed then.

// Every seventh command asks for the result of all before it.
v1::Command NumberedCommand(uint64_t number) {
  if (number == 3) return Put(2, std::string(20'000, 'x'));
  if (number % 35 == 0) return Fetch({1, 2});
  return number % 7 == 0 ? Fetch({1}) : Mix(1);
}

const Script kScript = {NumberedCommand, kCommands, kCommands / 7};

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
      for (uint64_t n = 1; n <= kCommands && first.Send(n, {NumberedCommand(n)}); ++n) continue;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    ClientStream second(*stub_);
    EXPECT_EQ(second.Open(session), session);
    std::thread second_sender([&second, n = second.received() + 1]() mutable {
      for (; n <= kCommands; ++n) EXPECT_TRUE(second.Send(n, {NumberedCommand(n)}));
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
  const auto channel = grpc::CreateCustomChannel(proxy.address(), grpc::InsecureChannelCredentials(), arguments);
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

class SessionOfACallerTest : public SessionTest {
 protected:
  void Configure(ServerOptions* options) override {
    SessionTest::Configure(options);
    Admit({"ann", "bob"});
    options->identities = identities_;
  }
  // Each one's token is his name. The file is there at once, as when it is renamed.
  void Admit(const std::vector<std::string>& callers) {
    std::ofstream file(identities_ + ".new");
    for (const std::string& caller : callers) file << caller << " train sha256:" << HashOf(caller) << "\n";
    file.close();
    std::filesystem::rename(identities_ + ".new", identities_);
  }
  bool IsAdmitted(const std::string& caller) { return !ClientStream(*stub_, caller).Open().empty(); }

  const std::string identities_ = testing::TempDir() + "/identities";
};

TEST_F(SessionOfACallerTest, WhoIsRevokedHasNoOtherCommandExecutedUntilHeIsBack) {
  ClientStream stream(*stub_, "ann");
  const std::string session = stream.Open();
  probe_.closed = true;
  EXPECT_TRUE(stream.Send(1, {Mix(1), Mix(1), Fetch({1})}));
  EXPECT_TRUE(stream.Send({}));
  stream.WaitForReceived(3);
  Admit({"bob"});
  stream.ExpectEnd(grpc::StatusCode::UNAUTHENTICATED, "has been revoked since");
  Admit({"bob", "carol"});
  Eventually([this] { return IsAdmitted("carol"); });  // The look that found ann's session is over.
  probe_.closed = false;
  ClientStream other(*stub_, "bob");
  EXPECT_FALSE(other.Open().empty());
  for (uint64_t n = 1; n <= 100; ++n) {
    EXPECT_TRUE(other.Send(n, {Fetch({1})}));
    EXPECT_EQ(other.NextReply().number(), n);
  }
  EXPECT_LE(probe_.executed, 101);  // The first one may have begun before.
  Admit({"ann", "bob"});
  Eventually([this] { return IsAdmitted("ann"); });
  ClientStream again(*stub_, "ann");
  EXPECT_EQ(again.Open(session), session);
  EXPECT_EQ(again.received(), 3u);
  EXPECT_EQ(again.NextValue(), Mixed({1, 2}));
}

}  // namespace
}  // namespace gluond::server
