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

// So many accounts' compiled calls are kept,
constexpr size_t kBenches = 32;
// and of each so many.
constexpr size_t kCallsKept = 64;
// Compiled calls that nobody has used for so long are dropped.
constexpr std::chrono::minutes kKept{1};

absl::Status CopyAll(std::vector<Tensor>* tensors, Place& place) {
  for (Tensor& tensor : *tensors) {
    ASSIGN_OR_RETURN(tensor, CopyToDevice(tensor, *place.lanes, *place.allocator));
  }
  return absl::OkStatus();
}

}  // namespace

Invoker::BenchPtr Invoker::Find(Place& place) {
  const AccountPtr& account = CurrentAccount();
  BenchPtr dropped;  // Goes without the lock.
  std::lock_guard lock(mu_);
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
  benches_.push_front(BenchPtr(new Bench{account, &place, lane, {*lane, *place.allocator, kCallsKept}, Clock::now()}));
  return benches_.front();
}

void Invoker::Sweep() {
  std::list<BenchPtr> dropped;  // They go without the lock.
  std::lock_guard lock(mu_);
  const Clock::time_point used_since = Clock::now() - kKept;
  for (auto bench = benches_.begin(); bench != benches_.end();) {
    const auto next = std::next(bench);
    if ((*bench)->account.expired() || (*bench)->last_used < used_since) dropped.splice(dropped.end(), benches_, bench);
    bench = next;
  }
}

void Invoker::Invoke(Place& place, Invocation invocation, OpInvoker::Done done) {
  const absl::StatusOr<const Op*> op = OfferedOp(invocation.op);
  if (!op.ok()) return done(op.status());
  if ((*op)->kernel(place.device.type) == nullptr) {
    return done(absl::FailedPreconditionError(absl::StrCat("operator '", invocation.op, "' has no kernel for ",
                                                           place.device.ToString(), "; choose another device")));
  }
  const BenchPtr bench = Find(place);
  const bool on_host = place.device.type == DeviceType::kCpu;
  if (on_host && !(*op)->HasAttr("FMutateInputs")) {
    return bench->invoker.Invoke(invocation.op, std::move(invocation.attrs), std::move(invocation.inputs),
                          std::move(invocation.options), std::move(done));
  }
  // The request's memory is not to be written; and a GPU has its own.
  bench->lane->Post([this, &place, bench, invocation = std::move(invocation), done = std::move(done)]() mutable {
    if (absl::Status status = CopyAll(&invocation.inputs, place); !status.ok()) return done(std::move(status));
    bench->invoker.Invoke(invocation.op, std::move(invocation.attrs), std::move(invocation.inputs),
                   std::move(invocation.options),
                   [this, &place, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> outputs) {
      if (!outputs.ok()) return done(std::move(outputs));
      for (Tensor& output : *outputs) {
        absl::StatusOr<Tensor> copy = CopyToHost(output, *place.lanes, *devices_.host().allocator);
        if (!copy.ok()) return done(copy.status());
        output = *std::move(copy);
      }
      done(std::move(outputs));
    });
  });
}

}  // namespace gluond::server
