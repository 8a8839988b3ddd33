#include "server/services/invoker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/nn/node_spec.h"
#include "engine/runtime/transfer.h"

namespace gluond::server {
namespace {

constexpr size_t kBenches = 32;    // Accounts whose compiled calls are kept.
constexpr size_t kCallsKept = 64;  // Compiled calls of each.
// Operators that wait for a client keep no more than this between calls.
constexpr int64_t kMostKeptBytes = int64_t{64} << 20;
// Compiled calls that nobody has used for so long are dropped.
constexpr std::chrono::minutes kKept{1};

}  // namespace

Invoker::BenchPtr Invoker::Find(Place& place) {
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

void Invoker::Sweep() {
  std::list<BenchPtr> dropped;  // They go without the lock.
  MutexLock lock(mu_);
  const Clock::time_point used_since = Clock::now() - kKept;
  for (auto bench = benches_.begin(); bench != benches_.end();) {
    const auto next = std::next(bench);
    if ((*bench)->account.expired() || (*bench)->last_used < used_since) dropped.splice(dropped.end(), benches_, bench);
    bench = next;
  }
}

void Invoker::Invoke(Place& place, OperatorCall invoked, Done done) {
  const absl::StatusOr<const Op*> op = OfferedOp(invoked.op);
  if (!op.ok()) return done(op.status());
  if ((*op)->kernel(place.device.type) == nullptr) {
    return done(absl::FailedPreconditionError(
        absl::StrCat("operator '", invoked.op, "' has no kernel for ", place.device.ToString(), "; choose another device")));
  }
  const BenchPtr bench = Find(place);
  bench->lane->Post([this, bench, invoked = std::move(invoked), done = std::move(done)]() mutable {
    if (absl::Status status = Start(bench, std::move(invoked), done); !status.ok()) done(std::move(status));
  });
}

absl::Status Invoker::Start(const BenchPtr& bench, OperatorCall invoked, const Done& done) {
  Place& place = *bench->place;
  const bool on_host = place.device.type == DeviceType::kCpu;
  const CustomHostPtr custom_host = devices_.custom_host_of(invoked.tenant);
  const ScopedCustomHost host(custom_host);
  const auto make = [&] { return PrepareOp(invoked.op, invoked.attrs, invoked.inputs.size()); };
  ASSIGN_OR_RETURN(PreparedOpPtr call, bench->calls.Find(invoked.op, invoked.attrs, invoked.inputs.size(), make));
  const size_t num_visible = call->facts().num_visible;
  Invocation invocation(std::move(call), [num_visible](size_t i) { return i < num_visible; });
  for (Tensor input : invoked.inputs) {
    if (!on_host) {
      ASSIGN_OR_RETURN(input, CopyToDevice(input, *place.lanes, *place.allocator));
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
      if (!on_host) result = CopyToHost(*result, *bench->place->lanes, *devices_.host().allocator);
      if (!result.ok()) return done(result.status());
      found.push_back(*std::move(result));
    }
    done(std::move(found));
  });
  return absl::OkStatus();
}

}  // namespace gluond::server
