// How a call runs once its inputs are known: within Invoke, on another lane, as a copy, or by an executor.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/copy_call.h"
#include "engine/imperative/pending.h"
#include "engine/passes/operator_error.h"
#include "engine/runtime/transfer.h"

namespace gluond {

absl::StatusOr<const Imperative::Place*> Imperative::PlaceOf(const Pending& pending) const {
  const Device device = pending.in.empty() ? pending.device : pending.in[0]->tensor().device();
  for (size_t i = 1; i < pending.in.size(); ++i) {
    const Device other = pending.in[i]->tensor().device();
    if (other == device) continue;
    return absl::InvalidArgumentError(absl::StrCat("input 0 is on ", device.ToString(), ", input ", i, " on ",
                                                   other.ToString(), "; bring them to one device first"));
  }
  const Place* place = Find(device);
  if (place == nullptr) return absl::NotFoundError(absl::StrCat("there is no device ", device.ToString(), " here"));
  if (pending.call->graph == nullptr && pending.call->facts().kernel(device.type) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("it has no kernel for ", device.ToString(),
                                                      "; bring its inputs to another device"));
  }
  return place;
}

// Tensors are moved where the call is the only holder, which is how RunDirectly knows what it may overwrite.
void Imperative::Gather(Pending& pending, Direct* direct) const {
  direct->training = pending.training;
  direct->random = {pending.seed, 0, pending.draw};
  direct->wanted.assign(pending.out.size(), false);
  for (size_t i = 0; i < pending.out.size(); ++i) direct->wanted[i] = pending.out[i] != nullptr;
  direct->inputs.clear();
  for (ValuePtr& value : pending.in) {
    direct->inputs.push_back(value.use_count() == 1 ? value->Take() : value->tensor());
    value.reset();
  }
}

bool Imperative::StartHere(Pending& pending) {
  for (const ValuePtr& value : pending.in) {
    if (value->failure() == nullptr) continue;
    Fail(pending, value->failure());
    return true;
  }
  const Call& call = *pending.call;
  if (call.graph != nullptr || call.copies || cancelled_) return false;
  const absl::StatusOr<const Place*> place = PlaceOf(pending);
  if (!place.ok() || *place != &home()) return false;
  DirectPtr direct = std::move(direct_);
  if (direct == nullptr) direct = std::make_shared<Direct>();
  Gather(pending, direct.get());
  const absl::Status status = RunDirectly(call, *home().lane, *home().allocator, direct.get());
  Finish(pending, status, *direct);
  direct_ = std::move(direct);
  return true;
}

void Imperative::Start(PendingPtr pending) {
  if (StartHere(*pending)) return;
  absl::StatusOr<const Place*> place = nullptr;
  if (cancelled_) {
    place = absl::CancelledError("the session has ended");
  } else if (pending->call->copies) {
    return StartCopy(std::move(pending));
  } else {
    place = PlaceOf(*pending);
  }
  if (place.ok()) return StartThere(std::move(pending), **place);
  Fail(*pending, Failed(OperatorError(*pending->call->node, place.status()), pending->command)->failure());
}

// What the other lane holds, it gives back: the home lane alone lets go of values.
void Imperative::StartThere(PendingPtr pending, const Place& place) {
  auto direct = std::make_shared<Direct>();
  direct->call = pending->call;
  Gather(*pending, direct.get());
  if (pending->call->graph != nullptr) {
    return StartGraph(std::move(direct), place,
                      [self = shared_from_this(), pending](const absl::Status& status, Direct& ran) {
                        self->Finish(*pending, status, ran);
                      });
  }
  place.lane->Post([self = shared_from_this(), &place, pending = std::move(pending), direct]() mutable {
    absl::Status status = RunDirectly(*direct->call, *place.lane, *place.allocator, direct.get());
    Lane& home = *self->home().lane;
    home.Post([self = std::move(self), pending = std::move(pending), direct = std::move(direct),
               status = std::move(status)] { self->Finish(*pending, status, *direct); });
  });
}

void Imperative::StartCopy(PendingPtr pending) {
  Tensor from = pending->in[0]->tensor();
  const Device* const device = CopiesTo(*pending->call);
  const Place* const to = Find(device != nullptr ? *device : pending->in[1]->tensor().device());
  auto direct = std::make_shared<Direct>();
  if (to == nullptr) {
    return Finish(*pending, absl::NotFoundError(absl::StrCat("there is no device ", device->ToString(), " here")),
                  *direct);
  }
  if (from.device() == to->device) {
    direct->outputs = {from};
    return Finish(*pending, absl::OkStatus(), *direct);
  }
  // The GPU's lane does it; between two GPUs, the one that has the values.
  const Place* const by = from.device().type == DeviceType::kCpu ? to : Find(from.device());
  by->lane->Post([self = shared_from_this(), from = std::move(from), to, by, pending = std::move(pending),
                  direct]() mutable {
    absl::StatusOr<Tensor> copy = CopyBetween(from, by->lane->lanes(), to->lane->lanes(), *to->allocator);
    if (copy.ok()) direct->outputs = {*copy};
    from = {};
    Imperative& imperative = *self;
    imperative.AtHome([self = std::move(self), pending = std::move(pending), direct = std::move(direct),
                       status = copy.status()] { self->Finish(*pending, status, *direct); });
  });
}

void Imperative::StartGraph(DirectPtr direct, const Place& place, Ended ended) {
  ExecutorCache& cache = *caches_[static_cast<size_t>(&place - places_.data())];
  const ExecutorKeyPtr key = direct->call->graph->KeyOf(direct->inputs, direct->training, place.device);
  const auto end = [self = shared_from_this(), direct, ended = std::move(ended)](const absl::Status& status) {
    self->AtHome([direct, ended, status] { ended(status, *direct); });
  };
  auto run = [self = shared_from_this(), direct, end, &place](ExecutorLease lease) {
    auto executor = std::make_shared<ExecutorLease>(std::move(lease));
    absl::StatusOr<Run> run = BindGraph(**executor, *place.lane, *place.allocator, direct.get());
    if (!run.ok()) return end(run.status());
    run->cancellation = self->cancellation_;
    (*executor)->StartHere(*std::move(run), [executor, direct, end](const absl::Status& status) {
      if (status.ok()) direct->outputs = std::move((*executor)->TakeRun().outputs);
      *executor = ExecutorLease();
      end(status);
    });
  };
  if (place.lane->IsCurrent()) {
    if (ExecutorLease lease = cache.TakeIdle(key)) return run(std::move(lease));
  }
  cache.Checkout(key, [run, end](absl::StatusOr<ExecutorLease> lease) {
    lease.ok() ? run(*std::move(lease)) : end(lease.status());
  });
}

void Imperative::Finish(Pending& pending, const absl::Status& status, Direct& direct) {
  if (!status.ok()) return Fail(pending, Failed(status, pending.command)->failure());
  --pending_;
  for (size_t i = 0; i < pending.out.size(); ++i) {
    if (pending.out[i] != nullptr) pending.out[i]->Set(std::move(direct.outputs[i]), *queue_);
  }
  for (size_t i = 0; i < pending.written.size(); ++i) pending.written[i]->Set(std::move(direct.written[i]), *queue_);
}

void Imperative::Fail(Pending& pending, const FailurePtr& failure) {
  --pending_;
  for (const ValuePtr& value : pending.out) if (value != nullptr) value->Fail(failure, *queue_);
  for (const ValuePtr& value : pending.written) value->Fail(failure, *queue_);
  pending.in.clear();
}

void Imperative::AtHome(std::function<void()> work) {
  if (home().lane->IsCurrent()) return work();
  home().lane->Post(std::move(work));
}

}  // namespace gluond
