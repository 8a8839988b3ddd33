// Lane: an order of work on a device. Work posted to a lane is done one piece after the other, in the order of posting,
// and each piece sees the effects of those before it. A device has many lanes, one for each model and each session. The
// device's threads take the lanes in turns that are fair to accounts (fair_threads.h). A GPU has one thread, and one
// stream for all lanes. A CPU has one thread, which computes with a team (team.h). While somebody's long operator holds
// that thread, more threads of the kind join in: other lanes go on, and share the team.
//
//   ASSIGN_OR_RETURN(auto lanes, Lanes::Create(device, {}, allocator));
//   std::shared_ptr<Lane> lane = lanes->Take();
//   lane->Post([] { ... });
//
// A CPU may have several sets of lanes, which share a team: the work of one set never waits for a thread of another
// set.
//
// Thread-safe. Work must not wait for a client or for other work of the device: a run that has to wait returns, and
// posts its continuation later. Suspended runs are cancelled before the lanes are destroyed: nothing else ends them.

#ifndef ENGINE_RUNTIME_LANE_H_
#define ENGINE_RUNTIME_LANE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/mutex.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "engine/runtime/fair_threads.h"
#include "engine/runtime/team.h"

namespace gluond {

struct LaneOptions {
  int threads = 0;        // In a CPU's team; 0: one for each processor.
  int most_at_work = 1;   // Works of a CPU's lanes that go on at once, while some are long.
  int at_work = 1;        // Those that go on at once in any case.
  double weight = 1;      // A CPU's: of these lanes, among all that share its team (team.h).
  bool urgent = false;    // A CPU's: the kernel is to begin a work of theirs within others' turns (processors.h).
  std::string name = {};  // The threads', for debuggers. Empty: the device's.
  // A GPU's: pays for what operators copy to the host's memory (OpContext::host_memory). Null: no operator may.
  std::shared_ptr<Allocator> host_memory = nullptr;
};

class Lanes;

class Lane {
 public:
  using Clock = FairThreads::Clock;

  // The only lane of threads of its own, which end with it.
  static absl::StatusOr<std::shared_ptr<Lane>> Create(Device device, const LaneOptions& options, Allocator& scratch_allocator);

  void Post(std::function<void()> work);
  // The same without allocating.
  void Post(Work* work);
  // Does `work` beside the lanes, on threads kept for long work that must not hold up runs: compiling above all.
  void PostAside(std::function<void()> work);
  // Whether the caller is a piece of the lane's work.
  bool IsCurrent() const { return FairThreads::current_queue() == &queue_; }
  // Ends the process unless the caller is such a piece, or one that has gone on beside the lane: things that belong to
  // one lane have no lock.
  void CheckHeld() const;

  // The device's lanes, of which it is one.
  const Lanes& lanes() const { return lanes_; }
  Device device() const;
  DeviceDriver& driver() const;
  void* stream() const;
  // nullptr unless this is a CPU's lane.
  Threads* threads() const;

  // The context of operators that run on the lane, without scratch space.
  OpContext NewContext(bool training) const;

  // The rest is only for the work that is running on the lane.

  // Does `rest`, which takes long and computes no operator, beside the lanes. The lane's next work begins after
  // `rest` has ended.
  void ContinueAside(std::function<void()> rest);
  // Gives the next operator all scratch space of the calling thread. The thread frees that space after a second
  // without work.
  void LendScratch(OpContext* context);
  // Until this piece of the lane's work ends, operators that ask for kReservedScratch bytes at most get them.
  // RESOURCE_EXHAUSTED: there is no memory for that.
  absl::Status ReserveScratch();
  static constexpr size_t kReservedScratch = 64 << 10;
  // Does `work` at `when` or soon after, unless Forget(work) comes first.
  void DoAt(Clock::time_point when, Work* work);
  void Forget(Work* work);

 private:
  friend class Lanes;
  explicit Lane(Lanes& lanes) : lanes_(lanes) {}

  Lanes& lanes_;
  WorkQueue queue_;
};

// The lanes of one device, and the threads that do their work. Thread-safe.
class Lanes {
 public:
  // `scratch_allocator` pays for the threads' scratch space and must outlive the lanes. UNAVAILABLE: no such device.
  static absl::StatusOr<std::unique_ptr<Lanes>> Create(Device device, const LaneOptions& options, Allocator& scratch_allocator);
  // Lanes of the CPU that has `others`, in the same team; options.threads does not count. The new lanes live no
  // longer than `others`.
  static std::unique_ptr<Lanes> CreateBeside(Lanes& others, const LaneOptions& options, Allocator& scratch_allocator);
  // Does all posted work, and the work that this posts.
  ~Lanes();

  // A lane to be used alone. Lanes that were given back are used again, also while somebody still refers to them: a
  // late post is one more piece of work.
  std::shared_ptr<Lane> Take();
  // Waits until nothing is posted, on any lane or beside them, or under way.
  void Drain();

  Device device() const { return device_; }
  DeviceDriver& driver() const { return driver_; }
  void* stream() const { return stream_.get(); }
  Threads* threads() const { return party_.get(); }
  // So many clients more wait for these lanes, which are a CPU's urgent lanes (team.h); below 0: so many fewer.
  void AddUrgentWaiters(int64_t clients) {
    if (party_ != nullptr) party_->AddUrgentWaiters(clients);
  }
  // See LaneOptions.
  Allocator* host_memory() const { return host_memory_.get(); }
  // Threads that compute at once now; 0: this is no CPU.
  int compute_threads() const { return party_ == nullptr ? 0 : party_->count(); }
  // The work that waits for the lanes, and for the threads beside them.
  FairThreads::Load load() { return threads_.load(); }
  FairThreads::Load load_aside() { return aside_.load(); }

 private:
  friend class Lane;
  Lanes(Device device, const LaneOptions& options, DeviceDriver& driver, std::shared_ptr<void> stream, std::shared_ptr<Team> team,
        Allocator& allocator);
  bool MayLook() const;
  std::shared_ptr<void> EnterThread();

  const Device device_;
  DeviceDriver& driver_;
  const std::shared_ptr<void> stream_;
  Allocator& allocator_;
  const std::shared_ptr<Allocator> host_memory_;
  const std::shared_ptr<Team> team_;  // Null unless this is a CPU, as party_.
  const std::unique_ptr<Team::Party> party_;
  const bool urgent_;

  // Lanes that were given back, perhaps after the end of all.
  struct Free {
    Mutex mu;
    std::vector<Lane*> lanes ABSL_GUARDED_BY(mu);
  };
  const std::shared_ptr<Free> free_ = std::make_shared<Free>();
  std::vector<std::unique_ptr<Lane>> all_ ABSL_GUARDED_BY(free_->mu);

  std::atomic<uint64_t> posts_ = 0;  // Works posted so far, on the lanes and beside them.
  FairThreads threads_;
  FairThreads aside_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_LANE_H_
