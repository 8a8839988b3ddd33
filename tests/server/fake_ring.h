// Rings whose ranks are in one process, with chosen delays and deaths, and their rendezvous. What adds up is the Ring of the server:
// the contract and the bits are the same as between machines.
//
//   FakeNetwork network;
//   network.Delay(1, std::chrono::milliseconds(5));   // Each message of rank 1 takes that long.
//   network.Kill(2, /*messages=*/3);                  // Rank 2 dies instead of its fourth message.
//   Ring::Form(options, network.Transport(0, 4), texts->Rendezvous(), formed);
//
// A network is for one ring. Whose transport closes takes all others along, at once, as they would take each other.

#ifndef TESTS_SERVER_FAKE_RING_H_
#define TESTS_SERVER_FAKE_RING_H_

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "server/group/rendezvous.h"
#include "server/group/ring_transport.h"

namespace gluond::server {

// RingNetwork makes the transports of one ring.
class RingNetwork {
 public:
  virtual ~RingNetwork() = default;
  virtual std::unique_ptr<RingTransport> Transport(int rank, int ranks) = 0;
};

class FakeNetwork final : public RingNetwork {
 public:
  using Clock = RingTransport::Clock;

  std::unique_ptr<RingTransport> Transport(int rank, int) override { return std::make_unique<FakeTransport>(state_, rank); }

  void Delay(int rank, std::chrono::nanoseconds delay) {
    MutexLock lock(state_->mu);
    state_->delays[rank] = delay;
  }
  // Messages of an exchange that only receives count, too.
  void Kill(int rank, int messages = 0) {
    MutexLock lock(state_->mu);
    state_->lives[rank] = messages;
    state_->closed |= messages == 0;
    state_->changed.NotifyAll();
  }

 private:
  struct State {
    Mutex mu;
    CondVar changed;
    std::map<int, std::chrono::nanoseconds> delays;
    std::map<int, int> lives;  // Messages that are left to a rank that will die.
    bool closed = false;
    std::map<std::tuple<int, int, uint64_t>, std::deque<std::string>> messages;  // By sender, receiver and slot.
  };

  class FakeTransport final : public RingTransport {
   public:
    FakeTransport(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}
    ~FakeTransport() override { Close(); }

    std::string Listen(std::map<int, std::string>* addresses) noexcept override {
      for (auto& [peer, address] : *addresses) address = absl::StrCat(rank_, " for ", peer);
      return "";
    }
    std::string Connect(const std::map<int, std::string>& addresses) noexcept override {
      for (const auto& [peer, address] : addresses) {
        if (address != absl::StrCat(peer, " for ", rank_)) return absl::StrCat("a wrong address: ", address);
      }
      return "";
    }
    std::string Exchange(int peer, uint64_t slot, const void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                         Clock::time_point deadline) noexcept override {
      std::string message(static_cast<const char*>(sent), sent_bytes);  // Large ones are copied without the lock.
      State& state = *state_;
      MutexLock lock(state.mu);
      if (const auto lives = state.lives.find(rank_); lives != state.lives.end() && lives->second-- == 0) {
        state.closed = true;
        state.changed.NotifyAll();
      }
      const auto arrives = Clock::now() + state.delays[rank_];
      while (!state.closed && Clock::now() < arrives) state.changed.WaitUntil(state.mu, arrives);
      if (state.closed) return "closed";
      if (sent_bytes > 0) {
        state.messages[{rank_, peer, slot}].push_back(std::move(message));
        state.changed.NotifyAll();
      }
      if (received_bytes == 0) return "";
      auto& messages = state.messages[{peer, rank_, slot}];
      while (messages.empty()) {
        if (state.closed) return "closed";
        if (!state.changed.WaitUntil(state.mu, deadline)) return "nothing came in time";
      }
      message = std::move(messages.front());
      messages.pop_front();
      lock.Unlock();
      if (message.size() != received_bytes) return "a message of another length";
      std::memcpy(received, message.data(), received_bytes);
      return "";
    }
    void Close() noexcept override {
      MutexLock lock(state_->mu);
      state_->closed = true;
      state_->changed.NotifyAll();
    }

   private:
    const std::shared_ptr<State> state_;
    const int rank_;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// The texts of all ranks, which are in one process.
class FakeTexts : public std::enable_shared_from_this<FakeTexts> {
 public:
  std::shared_ptr<server::Rendezvous> Rendezvous() { return std::make_shared<FakeRendezvous>(shared_from_this()); }
  // The length of the longest value.
  size_t longest() {
    MutexLock lock(mu_);
    size_t longest = 0;
    for (const auto& [key, value] : texts_) longest = std::max(longest, value.size());
    return longest;
  }

 private:
  class FakeRendezvous final : public server::Rendezvous {
   public:
    explicit FakeRendezvous(std::shared_ptr<FakeTexts> texts) : texts_(std::move(texts)) {}

    absl::Status Set(absl::string_view key, absl::string_view value) override {
      MutexLock lock(texts_->mu_);
      if (!texts_->texts_.emplace(key, value).second) return absl::AlreadyExistsError(absl::StrCat(key, " is set"));
      texts_->changed_.NotifyAll();
      return absl::OkStatus();
    }
    absl::StatusOr<std::string> Get(absl::string_view key, Time deadline) override {
      MutexLock lock(texts_->mu_);
      for (;;) {
        if (cancelled_) return absl::CancelledError(absl::StrCat("nobody waits for ", key, " any more"));
        if (const auto found = texts_->texts_.find(std::string(key)); found != texts_->texts_.end()) return found->second;
        if (!texts_->changed_.WaitUntil(texts_->mu_, deadline)) {
          return absl::DeadlineExceededError(absl::StrCat("nobody has set ", key));
        }
      }
    }
    void Cancel() override {
      MutexLock lock(texts_->mu_);
      cancelled_ = true;
      texts_->changed_.NotifyAll();
    }

   private:
    const std::shared_ptr<FakeTexts> texts_;
    bool cancelled_ = false;  // Guarded by texts_->mu_.
  };

  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::string> texts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_FAKE_RING_H_
