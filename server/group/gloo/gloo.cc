// libgluond_gloo.so: a RingTransport over the TCP of Debian's Gloo (0.0~git20220518). No other file names Gloo.
//
// Gloo tells the end of a connection only to those who wait for its next message, and to nobody who waits for the rest of a message
// under way. So each connection has a further message that never comes, and a thread that waits for it: the watch. Its failure wakes
// everyone.

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/mutex.h"
#include "server/group/ring_transport.h"

namespace gluond::server {
namespace {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr uint64_t kWatchSlot = ~uint64_t{0};
constexpr std::chrono::hours kWatchTimeout{24 * 365};

// Gloo throws.
template <class F>
std::string TextOfError(F f) noexcept {
  try {
    return f();
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "Gloo gives no reason" : error.what();
  }
}

class GlooTransport final : public RingTransport {
 public:
  GlooTransport(std::string address, int rank, int ranks, milliseconds timeout)
      : address_(std::move(address)), rank_(rank), ranks_(ranks), timeout_(timeout) {}

  ~GlooTransport() override {
    Close();
    if (watch_.joinable()) watch_.join();
  }

  std::string Listen(std::map<int, std::string>* addresses) noexcept override {
    return TextOfError([&]() -> std::string {
      const auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address_.c_str()));
      const MutexLock lock(mu_);
      if (closed_) return kClosed;
      context_ = device->createContext(rank_, ranks_);
      context_->setTimeout(std::max(timeout_ / 5, milliseconds(1)));  // Gloo waits five times as long for a connection.
      for (auto& [peer, address] : *addresses) {
        const std::vector<char> bytes = context_->createPair(peer)->address().bytes();
        address.assign(bytes.begin(), bytes.end());
      }
      return "";
    });
  }

  std::string Connect(const std::map<int, std::string>& addresses) noexcept override {
    return TextOfError([&]() -> std::string {
      for (const auto& [peer, address] : addresses) {
        context_->getPair(peer)->connect(std::vector<char>(address.begin(), address.end()));
      }
      watched_ = context_->createUnboundBuffer(&watched_byte_, 1);
      for (const auto& [peer, address] : addresses) watched_->recv(peer, kWatchSlot, 0, 1);
      watch_ = std::thread([this] {
        const std::string error = TextOfError([&] {
          watched_->waitRecv(nullptr, kWatchTimeout);
          return "a peer says what no peer says";
        });
        {
          const MutexLock lock(mu_);
          if (!closed_ && error_.empty()) error_ = error;
        }
        Close();
      });
      return "";
    });
  }

  std::string Exchange(int peer, uint64_t slot, const void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                       Clock::time_point deadline) noexcept override {
    return TextOfError([&]() -> std::string {
      const auto to = context_->createUnboundBuffer(received, received_bytes);
      const auto from = context_->createUnboundBuffer(const_cast<void*>(sent), sent_bytes);
      {
        const MutexLock lock(mu_);
        if (closed_) return error_.empty() ? kClosed : error_;
        waiting_ = {to.get(), from.get()};
      }
      std::string error = TextOfError([&]() -> std::string {
        if (received_bytes > 0) to->recv(peer, slot, 0, received_bytes);
        if (sent_bytes > 0) from->send(peer, slot, 0, sent_bytes);
        const bool came = received_bytes == 0 || to->waitRecv(nullptr, Left(deadline));
        const bool went = sent_bytes == 0 || from->waitSend(nullptr, Left(deadline));
        return came && went ? "" : kClosed;
      });
      const MutexLock lock(mu_);
      waiting_.clear();
      return error.empty() || error_.empty() ? error : error_;
    });
  }

  void Close() noexcept override {
    {
      const MutexLock lock(mu_);
      if (std::exchange(closed_, true)) return;
      for (UnboundBuffer* const buffer : waiting_) {
        buffer->abortWaitRecv();
        buffer->abortWaitSend();
      }
      if (context_ == nullptr) return;
    }
    // A wait that takes too long ends all connections. Gloo has no other way that wakes who waits for a message.
    (void)TextOfError([&] {
      context_->createUnboundBuffer(nullptr, 0)->waitRecv(nullptr, milliseconds(1));
      return "";
    });
  }

 private:
  static constexpr const char* kClosed = "the connections are closed";

  static milliseconds Left(Clock::time_point deadline) {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
  }

  const std::string address_;
  const int rank_, ranks_;
  const milliseconds timeout_;
  Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::string error_ ABSL_GUARDED_BY(mu_);                    // The error of the connection that failed.
  std::vector<UnboundBuffer*> waiting_ ABSL_GUARDED_BY(mu_);  // The buffers of the exchange under way.
  std::shared_ptr<gloo::transport::Context> context_;         // Guarded by mu_ until Listen has returned.
  char watched_byte_ = 0;
  std::unique_ptr<UnboundBuffer> watched_;
  std::thread watch_;
};

}  // namespace
}  // namespace gluond::server

extern "C" __attribute__((visibility("default"))) gluond::server::RingTransport* gluond_gloo_transport_1(
    const char* address, int rank, int ranks, std::chrono::milliseconds timeout) {
  return new gluond::server::GlooTransport(address, rank, ranks, timeout);
}
