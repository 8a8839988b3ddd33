// Dispatch decides where a server's own work may run: on the thread at hand, which may be gRPC's, or on one of two pools that
// peers take in turns (engine/runtime/fair_threads.h). Whoever has work says what it costs, and not which threads take it:
//
//   runner.dispatch.Run(rows > kManyRows ? Weight::kHeavy : Weight::kLight, [call] { ... });
//
// What computes runs on a device's lanes, and what compiles beside them (engine/runtime/lane.h); how long that waits is
// listed here, too. Thread-safe.

#ifndef SERVER_RPC_DISPATCH_H_
#define SERVER_RPC_DISPATCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/fair_threads.h"

namespace gluond::server {

// What work costs: a method's own code until it hands over to a lane, or a part of it.
enum class Weight {
  kLight,   // Less than a change of threads: runs at once.
  kHeavy,   // Much to parse, to encode or to look at: never on gRPC's threads, nor on a lane's.
  kDisk,    // May wait for the disk, which nobody else is to wait for.
  kAlways,  // As kLight, and beside the limits, while the server drains, too: short, for whoever watches over it.
};

class Dispatch {
 public:
  // Messages up to this size are parsed, and light methods run, on gRPC's thread: that takes less than a change of threads.
  static constexpr int64_t kLargeMessage = 256 << 10;
  static Weight OfMessage(int64_t bytes) { return bytes > kLargeMessage ? Weight::kHeavy : Weight::kLight; }
  // Of a call: the method's, but heavy for a large request, and for one that is to take its turn among those of all peers.
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
  // Lists a queue of somebody else's, too. Before the first call. `load` lives as long as this.
  void List(std::string name, std::function<FairThreads::Load()> load) {
    others_.push_back({std::move(name), std::move(load)});
  }
  std::vector<Queue> queues();

 private:
  // Null: the calling one.
  FairThreads* ThreadsOf(Weight weight);

  struct Other {
    std::string name;
    std::function<FairThreads::Load()> load;
  };
  std::vector<Other> others_;
  // Each does one thing at a time for one peer.
  FairThreads disk_{{.name = "disk", .most_threads = 8}};
  FairThreads workers_{{.name = "worker", .threads = 2, .most_threads = 17}};
};

}  // namespace gluond::server

#endif  // SERVER_RPC_DISPATCH_H_
