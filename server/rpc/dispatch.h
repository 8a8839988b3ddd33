// Dispatch decides where a server's own work may run: on the thread at hand, which may be gRPC's, or on one of two
// pools that peers take in turns (engine/runtime/fair_threads.h). The caller says what its work costs, not which
// threads take it:
//
//   runner.dispatch.Run(rows > kManyRows ? Weight::kHeavy : Weight::kLight, [call] { ... });
//
// Operators compute on a device's lanes, and programs are compiled beside them (engine/runtime/lane.h); the waiting
// times of those queues are listed here, too. Thread-safe.

#ifndef SERVER_RPC_DISPATCH_H_
#define SERVER_RPC_DISPATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/account.h"
#include "engine/runtime/fair_threads.h"
#include "server/start/pulse.h"

namespace gluond::server {

// The cost of work: of a method's own code until it hands over to a lane, or of a part of it.
enum class Weight {
  kLight,   // Less than a change of threads: runs at once.
  kHeavy,   // Much to parse, to encode or to look at: never on gRPC's threads, nor on a lane's.
  kDisk,    // May wait for the disk; nobody else is to wait with it.
  kAlways,  // As kLight, beside the limits and while the server drains, too: short, for programs that watch it.
};

// Sends an empty work through a pool of threads, again and again. So it tells a pool that hangs from a pool whose threads are all
// held by works: the disk may be slow, and messages large.
class PoolProbe {
 public:
  explicit PoolProbe(std::string pool) : account_(std::make_shared<Account>(pool)), pulse_(std::move(pool)) { pulse_.Rest(); }

  // To be called now and then, on one thread. `pool`, of `most_threads`, ends before this.
  void Send(FairThreads& pool, int most_threads) {
    if (is_under_way_) {
      const FairThreads::Load load = pool.load();
      if (load.at_work >= most_threads || load.are_all) pulse_.Beat();
      return;
    }
    is_under_way_ = true;
    pulse_.Beat();
    const ScopedAccount own(account_);
    pool.Post([this] {
      pulse_.Rest();
      is_under_way_ = false;
    });
  }

 private:
  const AccountPtr account_;
  std::atomic<bool> is_under_way_ = false;
  Pulse pulse_;
};

class Dispatch {
 public:
  // Messages up to this size are parsed, and light methods run, on gRPC's thread: that takes less than a change of
  // threads.
  static constexpr int64_t kLargeMessage = 256 << 10;
  static Weight OfMessage(int64_t bytes) { return bytes > kLargeMessage ? Weight::kHeavy : Weight::kLight; }
  // The weight of a call: the method's weight, but kHeavy for a large request, and where the call takes a turn among all peers.
  static Weight OfCall(Weight method, int64_t bytes, bool takes_turn);

  // Does light work before it returns, and other work in its peer's turn.
  template <class Work>
  void Run(Weight weight, Work work) {
    FairThreads* const threads = weight == Weight::kHeavy ? &workers_ : weight == Weight::kDisk ? &disk_ : nullptr;
    threads == nullptr ? work() : threads->Post(std::move(work));
  }

  struct Queue {
    std::string name;
    FairThreads::Load load;
  };
  // Lists another queue, too. To be called before the first call. `load` lives as long as this.
  void List(std::string name, std::function<FairThreads::Load()> load) { others_.emplace_back(std::move(name), std::move(load)); }
  std::vector<Queue> queues();
  // Looks whether the pools take work still. To be called now and then, on one thread.
  void Probe() {
    disk_probe_.Send(disk_, kDiskThreads);
    worker_probe_.Send(workers_, kWorkers);
  }

 private:
  static constexpr int kDiskThreads = 8, kWorkers = 17;

  std::vector<std::pair<std::string, std::function<FairThreads::Load()>>> others_;
  PoolProbe disk_probe_{"disk"}, worker_probe_{"worker"};
  // Each pool does one thing at a time for one peer.
  FairThreads disk_{{.name = "disk", .most_threads = kDiskThreads}};
  FairThreads workers_{{.name = "worker", .threads = 2, .most_threads = kWorkers}};
};

}  // namespace gluond::server

#endif  // SERVER_RPC_DISPATCH_H_
