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

#include "absl/container/flat_hash_map.h"
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
  // As gRPC does before it closes one.
  void ShutAll() {
    std::lock_guard lock(mu_);
    for (const Descriptor& fd : kept_) shutdown(fd.get(), SHUT_RDWR);
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
    listener_->Start([this](Descriptor connection) { keeper_.Keep(std::move(connection)); },
                     [this] {
                       std::lock_guard lock(mu_);
                       return busy_;
                     });
  }

  // `network`: the last number of an address of this machine.
  Descriptor Connect(uint32_t network = 1) {
    Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | network);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    name = {};
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
  // A connection that has a call under way.
  Descriptor ConnectBusy(bool was_answered = false) {
    Descriptor fd = Connect();
    std::lock_guard lock(mu_);
    busy_[NameOf(fd)] = was_answered;
    return fd;
  }
  // Says so much that it counts as a client of gRPC.
  static void Chat(const Descriptor& client) {
    const std::string words(1000, 'x');
    EXPECT_EQ(send(client.get(), words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
  }
  static bool IsClosed(const Descriptor& client) {
    char byte;
    return recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  static bool Soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return holds();
  }

  Keeper keeper_;
  std::mutex mu_;
  absl::flat_hash_map<std::string, bool> busy_;  // Guarded by mu_.
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
  listener_->End(NameOf(first), Ending::kResets);
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
  listener_->End(NameOf(first), Ending::kResets);
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
  for (int i = 0; i < 100; ++i) listener_->End(NameOf(first), Ending::kResets);  // Five seconds.
  Descriptor next = Connect();
  ASSERT_TRUE(Soon([&] { return listener_->connections() == 1; }));
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(next.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  next = Descriptor();
  EXPECT_TRUE(Soon([&] { return listener_->connections() == 0; }));
  EXPECT_EQ(keeper_.size(), 1);
}

TEST_F(ListenerTest, NetworksThatFillTheServerCloseTheirOwnConnections) {
  const Descriptor silent = Connect(1);
  Chat(silent);
  std::vector<Descriptor> chatty;
  for (uint32_t i = 0; i < 40; ++i) {
    chatty.push_back(Connect(2 + i % 2));
    Chat(chatty.back());
    ASSERT_TRUE(Soon([&] { return listener_->accepted() == 2 + i; }));
  }
  ASSERT_TRUE(Soon([&] { return listener_->connections() <= 8; }));
  EXPECT_GE(listener_->dropped(), 32);
  EXPECT_FALSE(IsClosed(silent));
}

TEST_F(ListenerTest, AConnectionWithACallUnderWayIsTheLastToGiveWay) {
  const Descriptor busy = ConnectBusy();
  Chat(busy);
  std::vector<Descriptor> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(Connect());
    Chat(idle.back());
    ASSERT_TRUE(Soon([&] { return listener_->accepted() == 2 + i; }));
  }
  ASSERT_TRUE(Soon([&] { return listener_->dropped() >= 16; }));
  EXPECT_FALSE(IsClosed(busy));
}

TEST_F(ListenerTest, AClientThatThinksBetweenTwoCallsStaysBesideAFloodOfCallsThatNeverComeWhole) {
  const Descriptor thinks = ConnectBusy(/*was_answered=*/true);
  Chat(thinks);
  ASSERT_TRUE(Soon([this] { return keeper_.size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // The flood is no longer silent than the client.
  std::vector<Descriptor> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(ConnectBusy());
    Chat(flood.back());
    ASSERT_TRUE(Soon([&] { return listener_->accepted() == 2 + i; }));
  }
  ASSERT_TRUE(Soon([&] { return listener_->dropped() >= 16; }));
  EXPECT_FALSE(IsClosed(thinks));
}

TEST_F(ListenerTest, AConnectionThatItsClientHasLeftIsTheFirstToGiveWay) {
  const Descriptor silent = Connect();
  Chat(silent);
  for (int i = 0; i < 20; ++i) {
    Chat(Connect());
    ASSERT_TRUE(Soon([&] { return listener_->accepted() == 2 + i; }));
  }
  ASSERT_TRUE(Soon([&] { return listener_->dropped() >= 16; }));
  EXPECT_FALSE(IsClosed(silent));
}

TEST_F(ListenerTest, WhatGrpcEndsIsCountedAndWhatAClientEndsIsNot) {
  Descriptor client = Connect();
  ASSERT_TRUE(Soon([this] { return keeper_.size() == 1; }));
  client = Descriptor();
  keeper_.ShutAll();
  keeper_.CloseAll();
  ASSERT_TRUE(Soon([this] { return listener_->connections() == 0; }));
  EXPECT_EQ(listener_->ended(Ending::kTransport), 0);
  client = Connect();
  ASSERT_TRUE(Soon([this] { return keeper_.size() == 1; }));
  keeper_.ShutAll();
  ASSERT_TRUE(Soon([this] { return listener_->connections() == 0; }));
  EXPECT_EQ(listener_->ended(Ending::kTransport), 1);
  client = Connect();
  ASSERT_TRUE(Soon([this] { return keeper_.size() == 2; }));
  listener_->End(NameOf(client), Ending::kResets);
  ASSERT_TRUE(Soon([this] { return listener_->connections() == 0; }));
  EXPECT_EQ(listener_->ended(Ending::kTransport), 1);
  EXPECT_EQ(listener_->ended(Ending::kResets), 1);
}

}  // namespace
}  // namespace gluond::server
