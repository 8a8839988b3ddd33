// Several answers to one peer leave together; one alone leaves at once.

#include "server/net/peers.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>

namespace gluond::server {
namespace {

// A connection over TCP that sends without delay, as the server's do.
class ScopedCorkTest : public testing::Test {
 protected:
  ScopedCorkTest() {
    const Descriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    EXPECT_EQ(bind(listening.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    EXPECT_EQ(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    client_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client_.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
    server_ = std::make_shared<const Descriptor>(accept(listening.get(), nullptr, nullptr));
    const int on = 1;
    EXPECT_EQ(setsockopt(server_->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    peer_.emplace("ipv4:127.0.0.1:1", server_);
  }

  void Answer(const std::string& text) {
    EXPECT_EQ(send(server_->get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  // The client gets these bytes within so many milliseconds.
  std::string Received(int milliseconds) {
    pollfd waits = {client_.get(), POLLIN, 0};
    if (poll(&waits, 1, milliseconds) != 1) return "";
    char bytes[64];
    const ssize_t count = recv(client_.get(), bytes, sizeof(bytes), 0);
    return std::string(bytes, count < 0 ? 0 : static_cast<size_t>(count));
  }

  Descriptor client_;
  std::shared_ptr<const Descriptor> server_;
  std::optional<Peer> peer_;
};

TEST_F(ScopedCorkTest, SeveralAnswersLeaveTogether) {
  {
    const ScopedCork cork({&*peer_, &*peer_, &*peer_});
    for (const char* answer : {"a", "b", "c"}) Answer(answer);
    EXPECT_EQ(Received(50), "") << "the kernel holds them for 200 ms at most";
  }
  EXPECT_EQ(Received(5000), "abc");
  Answer("d");
  EXPECT_EQ(Received(50), "d");
}

TEST_F(ScopedCorkTest, OneAnswerOfEachLeavesAtOnce) {
  Peer other("ipv4:127.0.0.1:2");
  const ScopedCork cork({&*peer_, &other});
  Answer("a");
  EXPECT_EQ(Received(50), "a");
}

TEST_F(ScopedCorkTest, APeerWhoseSocketIsGoneIsLeftAlone) {
  server_.reset();
  const ScopedCork cork({&*peer_, &*peer_});
  EXPECT_EQ(Received(5000), "") << "the connection is closed, since nobody holds it";
}

}  // namespace
}  // namespace gluond::server
