// Sessions of the C++ client: connections that break, servers that end, forks, limits.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gluond/gluond.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/server_process.h"

namespace gluond::client {
namespace {

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Carries bytes between a client and a server, and cuts a connection after so many bytes.
class CuttingProxy {
 public:
  CuttingProxy(int server_port, size_t bytes) : server_port_(server_port), bytes_(bytes) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = Loopback(0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~CuttingProxy() {
    ends_ = true;
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }
  int cuts() const { return cuts_; }
  void CutNoMore() { bytes_ = SIZE_MAX; }

 private:
  void Serve() {
    while (!ends_) {
      pollfd ready = {listener_, POLLIN, 0};
      if (poll(&ready, 1, 20) <= 0) continue;
      const int client = accept(listener_, nullptr, nullptr);
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address = Loopback(server_port_);
      if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) Carry(client, server);
      close(client);
      close(server);
    }
  }
  void Carry(int client, int server) {
    size_t carried = 0;
    char buffer[1 << 14];
    while (!ends_) {
      pollfd ready[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(ready, 2, 20) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (ready[i].revents == 0) continue;
        const ssize_t size = read(ready[i].fd, buffer, sizeof(buffer));
        if (size <= 0 || write(ready[1 - i].fd, buffer, static_cast<size_t>(size)) != size) return;
        carried += static_cast<size_t>(size);
      }
      if (carried > bytes_) {
        ++cuts_;
        return;
      }
    }
  }

  const int server_port_;
  std::atomic<size_t> bytes_;
  int listener_, port_;
  std::atomic<int> cuts_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class SessionTest : public testing::Test {
 protected:
  void SetUp() override { server_.Start({}); }
  ServerProcess server_;
};

TEST_F(SessionTest, EachCommandIsAppliedOnceHoweverOftenTheConnectionBreaks) {
  CuttingProxy proxy(PortOf(server_.address()), 3000);
  const Session session = Session::Connect(absl::StrCat("127.0.0.1:", proxy.port())).value();
  NDArray x = NDArray::Zeros({2});
  NDArray counter = NDArray::Zeros({1});
  int steps = 0;
  while (proxy.cuts() < 12) {
    for (int i = 0; i < 50; ++i) {
      x = x + 1;
      counter += 1;
      ++steps;
    }
    const absl::StatusOr<float> value = counter.Item();
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, static_cast<float>(steps));
  }
  proxy.CutNoMore();
  EXPECT_EQ(*x.Values<float>(), std::vector<float>(2, static_cast<float>(steps)));
}

TEST_F(SessionTest, AServerThatEndsIsToldAtOnceWhereItIsKnown) {
  const Session session = Session::Connect(server_.address()).value();
  const NDArray x = NDArray::Ones({2});
  ASSERT_TRUE(x.Wait().ok());
  server_.Kill();
  server_.Start({});  // Another server on this port does not know the session.
  const absl::Status lost = (x + 1).Wait();
  EXPECT_TRUE(absl::IsNotFound(lost)) << lost;
  EXPECT_NE(lost.message().find("is lost"), absl::string_view::npos) << lost;
  EXPECT_FALSE(NDArray::Ones({2}).Wait().ok());
  const Session again = Session::Connect(server_.address()).value();
  EXPECT_EQ(*NDArray::Ones({2}).Sum().Item(), 2);
}

TEST_F(SessionTest, NobodyAnswers) {
  const std::string address = server_.address();
  server_.Kill();
  const absl::Status status = Session::Connect(address).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(address), absl::string_view::npos) << status;
}

TEST_F(SessionTest, AChildIsToldThatTheArrayIsItsParents) {
  const Session session = Session::Connect(server_.address()).value();
  const NDArray x = NDArray::Ones({3});
  ASSERT_TRUE(x.Wait().ok());
  const pid_t child = fork();
  if (child == 0) _exit(absl::IsFailedPrecondition((x + 1).Wait()) ? 7 : 1);
  int ended = 0;
  waitpid(child, &ended, 0);
  EXPECT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(WEXITSTATUS(ended), 7);
  EXPECT_TRUE(x.Wait().ok());
}

TEST_F(SessionTest, ACallThatNoMessageHoldsIsRefused) {
  server_.Kill();
  server_.Start({"--max_message_bytes=65536"});
  const Session session = Session::Connect(server_.address()).value();
  const NDArray x = NDArray::Ones({2});
  const absl::Status status = Invoke1("reshape", {x}, {{"shape", std::string(100000, '1')}}).Wait();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("--max_message_bytes"), absl::string_view::npos) << status;
  // Large values travel in pieces of what a message holds.
  const std::vector<float> values(100000, 1.5f);
  EXPECT_TRUE(*NDArray::Of<float>({100, 1000}, values).Values<float>() == values);
}

TEST(PrivateServer, EndsWithItsLastHandle) {
  setenv("GLUOND_SERVER", "server/gluond-server", 1);
  std::string folder;
  {
    const Session session = Session::StartServer().value();
    folder = session.address().substr(5, session.address().rfind('/') - 5);
    EXPECT_EQ(*NDArray::Ones({2}).Sum().Item(), 2);
    EXPECT_EQ(access(folder.c_str(), F_OK), 0);
    const Session other = Session::StartServer().value();  // The default now.
  }
  // The first session has no handle and no array any more.
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

TEST(PrivateServer, ThereIsNone) {
  setenv("GLUOND_SERVER", "/nonexistent", 1);
  const absl::Status status = Session::StartServer().status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  setenv("GLUOND_SERVER", "server/gluond-server", 1);
}

}  // namespace
}  // namespace gluond::client
