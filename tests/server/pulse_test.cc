// A hang is seen: a loop of the server's own that goes round no more is named at /healthz, in the log and in the metrics. Work
// that takes long is none.

#include "server/start/pulse.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/net/descriptor.h"
#include "server/rpc/dispatch.h"
#include "server/server.h"

namespace gluond::server {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Pulse::Clock::duration kLong = Pulse::kLongest + seconds(5);

std::string Get(int port, const std::string& path) {
  const Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(write(connection.get(), request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char bytes[4096];
  for (ssize_t got = 0; (got = read(connection.get(), bytes, sizeof(bytes))) > 0;) reply.append(bytes, static_cast<size_t>(got));
  return reply;
}

TEST(PulseTest, ALoopThatStampsNoMoreHangs) {
  Pulse pulse("test");
  const auto now = Pulse::Clock::now();
  EXPECT_EQ(Pulse::WhatHangs(now), "");
  EXPECT_EQ(Pulse::WhatHangs(now + kLong), "the loop 'test' has not gone round for 35 s");
  pulse.Beat(now + kLong);
  EXPECT_EQ(Pulse::WhatHangs(now + kLong), "");
}

TEST(PulseTest, OneThatHasNothingToDoRests) {
  Pulse pulse("test");
  pulse.Rest();
  EXPECT_EQ(Pulse::WhatHangs(Pulse::Clock::now() + kLong), "");
}

TEST(PulseTest, OfSeveralWithOneWordTheWorstCounts) {
  Pulse first("test"), second("test");
  const auto now = Pulse::Clock::now();
  first.Beat(now);
  second.Beat(now - kLong);
  EXPECT_EQ(Pulse::All(now).at("test"), kLong);
}

TEST(PulseTest, HealthTellsWhichLoopHangsAndWhenItGoesOn) {
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.devices = "cpu";
  options.metrics_address = "127.0.0.1:0";
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->metrics_port();
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  Pulse pulse("test");
  pulse.Beat(Pulse::Clock::now() - kLong);
  EXPECT_THAT(Get(port, "/healthz"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("the loop 'test' has not gone round")));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 200")) << "whoever is served may be served on";
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("gluond_loop_silent_seconds{loop=\"test\"} 3"));
  pulse.Beat();
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST(PulseTest, EachLoopOfAServerHasOne) {
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.devices = "cpu";
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto loops = Pulse::All();
  for (const char* loop :
       {"alarm", "disk", "grpc-accept", "grpc-poll", "grpc-watch", "identities", "listen", "sweep", "unread", "worker"}) {
    EXPECT_TRUE(loops.contains(loop)) << loop;
  }
}

class PoolProbeTest : public testing::Test {
 protected:
  // Holds the pool's only thread until it may go on.
  void Hold() {
    pool_->Post([this] { may_go_on_.WaitForNotification(); });
    while (pool_->load().at_work == 0) std::this_thread::yield();
  }
  std::string WhatHangsLater() { return Pulse::WhatHangs(Pulse::Clock::now() + kLong); }

  absl::Notification may_go_on_;
  PoolProbe probe_{"test-pool"};
  std::unique_ptr<FairThreads> pool_ = std::make_unique<FairThreads>(FairThreads::Options());
};

TEST_F(PoolProbeTest, WorksThatHoldAllThreadsAreNoHang) {
  Hold();
  EXPECT_GT(pool_->load().longest_work.count(), 0);
  probe_.Send(*pool_, 1);
  probe_.Send(*pool_, 1);
  EXPECT_EQ(Pulse::WhatHangs(), "");
  may_go_on_.Notify();
  pool_->Drain();
  EXPECT_EQ(WhatHangsLater(), "");
  EXPECT_EQ(pool_->load().longest_work.count(), 0);
}

// The pool is said to have another thread, and that takes no work.
TEST_F(PoolProbeTest, AThreadThatTakesNoWorkIsOne) {
  Hold();
  probe_.Send(*pool_, 2);
  EXPECT_THAT(WhatHangsLater(), HasSubstr("'test-pool'"));
  may_go_on_.Notify();
  pool_->Drain();
  EXPECT_EQ(WhatHangsLater(), "");
}

}  // namespace
}  // namespace gluond::server
