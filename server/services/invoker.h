// Invoker runs single operators on tensors of the host, on any device. Each account has lanes and compiled calls of its
// own, so that a long operator of one client holds up no other client. Thread-safe.

#ifndef SERVER_SERVICES_INVOKER_H_
#define SERVER_SERVICES_INVOKER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/node_attrs.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/scheduler.h"
#include "engine/nn/node_spec.h"
#include "engine/runtime/account.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/transfer.h"
#include "server/hosted/devices.h"

namespace gluond::server {

struct OperatorCall {
  std::string op;
  AttrDict attrs;
  std::vector<Tensor> inputs;  // On the host. They are not written.
  bool training;
  uint64_t seed;
  std::shared_ptr<Cancellation> cancellation;
  std::string tenant;  // The tenant of the caller: "acme/". Custom operators are those that its clients share.
};

class Invoker {
 public:
  // `devices` outlives the invoker and its calls.
  explicit Invoker(Devices& devices) : devices_(devices) {}

  // `done` gets the visible outputs, on the host. It is called once: on a lane of the place, or here where there is no such
  // operator (NOT_FOUND), or none with a kernel for the device (FAILED_PRECONDITION).
  using Done = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;

  void Invoke(Place& place, OperatorCall invoked, Done done) {
    const absl::StatusOr<const Op*> op = OfferedOp(invoked.op);
    if (!op.ok()) return done(op.status());
    if ((*op)->kernel(place.device.type) == nullptr) {
      return done(
          FailedPrecondition("operator '", invoked.op, "' has no kernel for ", place.device.ToString(), "; choose another device"));
    }
    const BenchPtr bench = Find(place);
    bench->lane->Post([this, bench, invoked = std::move(invoked), done = std::move(done)]() mutable {
      if (absl::Status status = Start(bench, std::move(invoked), done); !status.ok()) done(std::move(status));
    });
  }

  // Drops the compiled calls of connections that are gone, and those that nobody has used for a minute.
  void Sweep() {
    std::list<BenchPtr> dropped;  // They go without the lock.
    MutexLock lock(mu_);
    const Clock::time_point used_since = Clock::now() - kKept;
    for (auto bench = benches_.begin(); bench != benches_.end();) {
      const auto next = std::next(bench);
      if ((*bench)->account.expired() || (*bench)->last_used < used_since) dropped.splice(dropped.end(), benches_, bench);
      bench = next;
    }
  }

 private:
  static constexpr size_t kBenches = 32;    // Accounts whose compiled calls are kept.
  static constexpr size_t kCallsKept = 64;  // Compiled calls of each.
  // Operators that wait for a client keep no more than this between calls.
  static constexpr int64_t kMostKeptBytes = int64_t{64} << 20;
  // Compiled calls that nobody has used for so long are dropped.
  static constexpr std::chrono::minutes kKept{1};

  using Clock = std::chrono::steady_clock;

  // Compiled calls of an account on one device.
  struct Bench {
    std::weak_ptr<const Account> account;  // A bench does not keep a connection's account.
    Place* place;
    std::shared_ptr<Lane> lane;
    std::shared_ptr<Scheduler> scheduler;
    PreparedOps calls;            // Used on the lane.
    Clock::time_point last_used;  // Guarded by the invoker's mutex.
  };
  using BenchPtr = std::shared_ptr<Bench>;

  absl::Status Start(const BenchPtr& bench, OperatorCall invoked, const Done& done) {
    Place& place = *bench->place;
    const bool on_host = place.device.type == DeviceType::kCpu;
    const ScopedCustomHost host(devices_.custom_host_of(invoked.tenant));
    const auto make = [&] { return PrepareOp(invoked.op, invoked.attrs, invoked.inputs.size()); };
    ASSIGN_OR_RETURN(PreparedOpPtr call, bench->calls.Find(invoked.op, invoked.attrs, invoked.inputs.size(), make));
    const size_t num_visible = call->facts().num_visible;
    Invocation invocation(std::move(call), [num_visible](size_t i) { return i < num_visible; });
    for (Tensor input : invoked.inputs) {
      if (!on_host) {
        ASSIGN_OR_RETURN(input, CopyTo(input, *place.lanes, *place.allocator));
      }
      invocation.in.push_back(std::make_shared<Value>(std::move(input)));
    }
    invocation.training = invoked.training;
    invocation.device = place.device;
    invocation.seed = invoked.seed;
    invocation.cancellation = invoked.cancellation;
    const Invocation::Values outputs(invocation.out.begin(), invocation.out.begin() + static_cast<ptrdiff_t>(num_visible));
    bench->scheduler->Run(std::move(invocation), /*now=*/true);
    // While the callback holds `inputs`, nothing writes the request's memory.
    WhenKnown(outputs, [this, bench, outputs, done, on_host, inputs = std::move(invoked.inputs)] {
      std::vector<Tensor> found;
      for (const ValuePtr& output : outputs) {
        if (output->failure() != nullptr) return done(output->failure()->status);
        absl::StatusOr<Tensor> result = output->tensor();
        if (!on_host) result = CopyTo(*result, *bench->place->lanes, *devices_.host().allocator);
        if (!result.ok()) return done(result.status());
        found.push_back(*std::move(result));
      }
      done(std::move(found));
    });
    return absl::OkStatus();
  }

  // The bench of the calling thread's account.
  BenchPtr Find(Place& place) {
    const AccountPtr& account = CurrentAccount();
    BenchPtr dropped;  // Goes without the lock.
    MutexLock lock(mu_);
    const auto found = std::find_if(benches_.begin(), benches_.end(), [&](const BenchPtr& bench) {
      return bench->account.lock() == account && bench->place == &place;
    });
    if (found != benches_.end()) {
      benches_.splice(benches_.begin(), benches_, found);
      benches_.front()->last_used = Clock::now();
      return benches_.front();
    }
    if (benches_.size() >= kBenches) {
      dropped = std::move(benches_.back());
      benches_.pop_back();
    }
    const std::shared_ptr<Lane> lane = place.lanes->Take();
    benches_.push_front(
        BenchPtr(new Bench{account, &place, lane,
                           Scheduler::Create(
                               {{place.device, lane.get(), place.allocator}}, [](const FailurePtr&) {}, kMostKeptBytes),
                           PreparedOps(kCallsKept), Clock::now()}));
    return benches_.front();
  }

  Devices& devices_;
  Mutex mu_;
  std::list<BenchPtr> benches_ ABSL_GUARDED_BY(mu_);  // The most recently used first.
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INVOKER_H_
