// TcpProxy stands between a client and a server, so that a test can cut the connection at a chosen moment.

#ifndef TESTS_SERVER_TCP_PROXY_H_
#define TESTS_SERVER_TCP_PROXY_H_

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace gluond::server {

class TcpProxy {
 public:
  // Listens on a free port of 127.0.0.1 and connects each client to `server_port`.
  explicit TcpProxy(int server_port) : server_port_(server_port) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = Address(0);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    socklen_t length = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    listen(listener_, 16);
    thread_ = std::thread([this] { Run(); });
  }
  ~TcpProxy() {
    ending_ = true;
    thread_.join();
    Cut();
    close(listener_);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // While on, the server's bytes are thrown away.
  void SwallowReplies(bool on) { swallow_ = on; }
  // Closes all connections, once.
  void CutSoon() { cut_ = true; }

 private:
  struct Pair {
    int client;
    int server;
  };

  static sockaddr_in Address(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Run() {
    while (!ending_) {
      if (cut_.exchange(false)) Cut();
      std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        fds.push_back({pair.client, POLLIN, 0});
        fds.push_back({pair.server, POLLIN, 0});
      }
      poll(fds.data(), fds.size(), 1);
      std::vector<Pair> alive;
      for (size_t i = 0; i < pairs_.size(); ++i) {
        const bool ok = (fds[1 + 2 * i].revents == 0 || Forward(pairs_[i].client, pairs_[i].server, false)) &&
                        (fds[2 + 2 * i].revents == 0 || Forward(pairs_[i].server, pairs_[i].client, swallow_));
        ok ? alive.push_back(pairs_[i]) : Close(pairs_[i]);
      }
      pairs_ = std::move(alive);
      if (fds[0].revents != 0) Accept();
    }
  }

  void Accept() {
    const int client = accept(listener_, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Address(server_port_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      pairs_.push_back({client, server});
    } else {
      Close({client, server});
    }
  }

  static bool Forward(int from, int to, bool swallow) {
    char buffer[65536];
    const ssize_t n = read(from, buffer, sizeof(buffer));
    if (n <= 0) return false;
    for (ssize_t sent = 0; sent < n && !swallow;) {
      const ssize_t m = send(to, buffer + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
      if (m <= 0) return false;
      sent += m;
    }
    return true;
  }

  static void Close(const Pair& pair) {
    close(pair.client);
    close(pair.server);
  }
  void Cut() {
    for (const Pair& pair : pairs_) Close(pair);
    pairs_.clear();
  }

  const int server_port_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<Pair> pairs_;  // The thread's own.
  std::atomic<bool> ending_ = false;
  std::atomic<bool> swallow_ = false;
  std::atomic<bool> cut_ = false;
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_TCP_PROXY_H_
