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

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/fair_threads.h"
#include "server/rpc/pool_probe.h"

namespace gluond::server {

// The cost of work: of a method's own code until it hands over to a lane, or of a part of it.
enum class Weight {
  kLight,   // Less than a change of threads: runs at once.
  kHeavy,   // Much to parse, to encode or to look at: never on gRPC's threads, nor on a lane's.
  kDisk,    // May wait for the disk; nobody else is to wait with it.
  kAlways,  // As kLight, beside the limits and while the server drains, too: short, for programs that watch it.
};

class Dispatch {
 public:
  // Messages up to this size are parsed, and light methods run, on gRPC's thread: that takes less than a change of
  // threads.
  static constexpr int64_t kLargeMessage = 256 << 10;
  static Weight OfMessage(int64_t bytes) { return bytes > kLargeMessage ? Weight::kHeavy : Weight::kLight; }
  // A call's weight: the method's, but heavy for a large request, and for one that takes its turn among all peers'.
  static Weight OfCall(Weight method, int64_t bytes, bool takes_turn);

  // Does light work before it returns, and other work in its peer's turn.
  template <class Work>
  void Run(Weight weight, Work work) {
    FairThreads* const threads = ThreadsOf(weight);
    threads == nullptr ? work() : threads->Post(std::move(work));
  }

  struct Queue {
    std::string name;
    FairThreads::Load load;
  };
  // Lists another queue, too. To be called before the first call. `load` lives as long as this.
  void List(std::string name, std::function<FairThreads::Load()> load) { others_.push_back({std::move(name), std::move(load)}); }
  std::vector<Queue> queues();
  // Looks whether the pools take work still (pool_probe.h). To be called now and then, on one thread.
  void Probe() {
    disk_probe_.Send(disk_, kDiskThreads);
    worker_probe_.Send(workers_, kWorkers);
  }

 private:
  static constexpr int kDiskThreads = 8, kWorkers = 17;

  // Null: the calling thread.
  FairThreads* ThreadsOf(Weight weight);

  struct Other {
    std::string name;
    std::function<FairThreads::Load()> load;
  };
  std::vector<Other> others_;
  PoolProbe disk_probe_{"disk"}, worker_probe_{"worker"};
  // Each pool does one thing at a time for one peer.
  FairThreads disk_{{.name = "disk", .most_threads = kDiskThreads}};
  FairThreads workers_{{.name = "worker", .threads = 2, .most_threads = kWorkers}};
};

}  // namespace gluond::server

#endif  // SERVER_RPC_DISPATCH_H_
