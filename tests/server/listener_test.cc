// Connections are counted while they are open, and those of an address that had to be ended come again less often.

#include "server/net/listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

using Clock = std::chrono::steady_clock;

// Takes gRPC's place: keeps the descriptors that it gets open.
class Keeper {
 public:
  void Keep(Descriptor connection) {
    std::lock_guard lock(mu_);
    kept_.push_back(std::move(connection));
  }
  size_t size() const {
    std::lock_guard lock(mu_);
    return kept_.size();
  }
  // Whether all send their bytes at once.
  bool AllSendAtOnce() const {
    std::lock_guard lock(mu_);
    for (const Descriptor& fd : kept_) {
      int at_once = 0;
      socklen_t size = sizeof(at_once);
      if (getsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, &size) != 0 || at_once == 0) return false;
    }
    return true;
  }
  void CloseAll() {
    std::lock_guard lock(mu_);
    kept_.clear();
  }

 private:
  mutable std::mutex mu_;
  std::vector<Descriptor> kept_;
};

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() {
    listener_->Start([this](Descriptor connection) { keeper_.Keep(std::move(connection)); });
  }

  Descriptor Connect() {
    Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>(listener_->port()));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    return fd;
  }
  static std::string NameOf(const Descriptor& client) {
    sockaddr_in name{};
    socklen_t size = sizeof(name);
    EXPECT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(name.sin_port));
  }
  static bool Soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return holds();
  }

  Keeper keeper_;
  const std::unique_ptr<Listener> listener_ = *Listener::Open("127.0.0.1:0", 8);
};

TEST_F(ListenerTest, AnAnswerDoesNotWaitForAnAcknowledgement) {
  const Descriptor client = Connect();
  ASSERT_TRUE(Soon([this] { return keeper_.size() == 1; }));
  EXPECT_TRUE(keeper_.AllSendAtOnce());
}

TEST_F(ListenerTest, AConnectionThatItsClientHasClosedIsForgottenOnce) {
  Descriptor first = Connect();
  ASSERT_TRUE(Soon([&] { return listener_->connections() == 1 && keeper_.size() == 1; }));
  listener_->End(NameOf(first));
  ASSERT_TRUE(Soon([&] { return listener_->connections() == 0; }));
  // The keeper has the first one open still, as gRPC has while calls are under way. The next one gets its number.
  const Descriptor second = Connect();
  ASSERT_TRUE(Soon([&] { return keeper_.size() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(listener_->connections(), 1);
  keeper_.CloseAll();
}

TEST_F(ListenerTest, AfterAnEndTheAddressWaits) {
  Descriptor first = Connect();
  ASSERT_TRUE(Soon([&] { return keeper_.size() == 1; }));
  listener_->End(NameOf(first));
  const Clock::time_point ended = Clock::now();
  const Descriptor next = Connect(), another = Connect();
  ASSERT_TRUE(Soon([&] { return listener_->connections() == 2; }));
  EXPECT_TRUE(keeper_.size() == 1 || Clock::now() - ended >= std::chrono::milliseconds(250));
  ASSERT_TRUE(Soon([&] { return keeper_.size() == 3; }));
  EXPECT_GE(Clock::now() - ended, std::chrono::milliseconds(250));
  const Descriptor last = Connect();
  EXPECT_TRUE(Soon([&] { return keeper_.size() == 4; }));
}

TEST_F(ListenerTest, WhoLeavesWhileItWaitsIsForgotten) {
  Descriptor first = Connect();
  ASSERT_TRUE(Soon([&] { return keeper_.size() == 1; }));
  for (int i = 0; i < 100; ++i) listener_->End(NameOf(first));  // Five seconds.
  Descriptor next = Connect();
  ASSERT_TRUE(Soon([&] { return listener_->connections() == 1; }));
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(next.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  next = Descriptor();
  EXPECT_TRUE(Soon([&] { return listener_->connections() == 0; }));
  EXPECT_EQ(keeper_.size(), 1);
}

}  // namespace
}  // namespace gluond::server
