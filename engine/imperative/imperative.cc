#include "engine/imperative/imperative.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/direct.h"
#include "engine/passes/operator_error.h"

namespace gluond {

struct Imperative::Pending {
  CallPtr call;
  std::vector<ValuePtr> in;
  std::vector<ValuePtr> out;      // By output of the call; null: nobody wants it.
  std::vector<ValuePtr> written;  // By Call::written: the inputs' new values.
  bool training = false;
  Device device;
  uint64_t command = 0;
  uint32_t draw = 0;
};

struct Imperative::Direct : DirectRun {};

std::shared_ptr<Imperative> Imperative::Create(std::vector<Place> places, OnFailure on_failure) {
  return std::shared_ptr<Imperative>(new Imperative(std::move(places), std::move(on_failure)));
}

Imperative::Imperative(std::vector<Place> places, OnFailure on_failure)
    : places_(std::move(places)), on_failure_(std::move(on_failure)) {
  for (const Place& place : places_) caches_.push_back(std::make_unique<ExecutorCache>(*place.lane, *place.allocator));
}

const Imperative::Place* Imperative::Find(Device device) const {
  for (const Place& place : places_) if (place.device == device) return &place;
  return nullptr;
}

void Imperative::AtHome(std::function<void()> work) {
  if (home().lane->IsCurrent()) return work();
  home().lane->Post(std::move(work));
}

void Imperative::PutOnTape(Array* array) const {
  if (array->entry && !array->recorded().is_freed) return;
  array->entry = {};
  if (array->mark == nullptr) return;
  auto variable = std::make_shared<RecordedNode>();
  variable->attrs.name = "variable";
  variable->mark = array->mark;
  variable->values = {array->value};
  array->entry = {std::move(variable), 0};
}

void Imperative::Record(const Call& call, std::vector<Array>& inputs, Pending& pending, Results* results) const {
  bool wanted = false;
  for (Array& input : inputs) {
    PutOnTape(&input);
    wanted = wanted || input.entry;
  }
  if (!wanted) return;
  auto node = std::make_shared<RecordedNode>();
  node->attrs = call.node->attrs;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    Array& input = inputs[i];
    if (!input.entry) {
      auto constant = std::make_shared<RecordedNode>();
      constant->attrs.name = "constant";
      input.entry = {std::move(constant), 0};
    }
    if (call.gradient_reads_input[i]) {
      std::vector<ValuePtr>& values = input.recorded().values;
      values.resize(std::max<size_t>(values.size(), input.entry.index + 1));
      values[input.entry.index] = input.value;
    }
    node->inputs.push_back(input.entry);
  }
  node->values.resize(call.num_outputs);
  for (uint32_t i = 0; i < call.num_outputs; ++i) {
    if (!call.gradient_reads_output[i]) continue;
    if (pending.out[i] == nullptr) pending.out[i] = std::make_shared<Value>();
    node->values[i] = pending.out[i];
  }
  for (uint32_t i = 0; i < results->outputs.size(); ++i) results->outputs[i].entry = {node, i};
}

Imperative::Results Imperative::Invoke(const CallPtr& call, std::vector<Array> inputs, const Options& options) {
  auto pending = std::make_shared<Pending>();
  Results results;
  pending->call = call;
  pending->training = options.training;
  pending->device = options.device;
  pending->command = options.command;
  if (call->draws || call->graph != nullptr) pending->draw = draws_++;
  pending->out.resize(call->num_outputs);
  results.outputs.resize(options.wanted != nullptr ? call->num_outputs : call->num_visible);
  for (uint32_t i = 0; i < results.outputs.size(); ++i) {
    if (options.wanted != nullptr && !(*options.wanted)[i]) continue;
    results.outputs[i].value = pending->out[i] = std::make_shared<Value>();
  }
  if (options.recording) Record(*call, inputs, *pending, &results);
  for (const uint32_t i : call->written) {
    pending->written.push_back(std::make_shared<Value>());
    results.written.emplace_back(i, pending->written.back());
  }
  for (Array& input : inputs) pending->in.push_back(std::move(input.value));
  inputs.clear();  // A variable that was on no tape but this array's is nobody's now.

  ++pending_;
  const bool known = std::all_of(pending->in.begin(), pending->in.end(), [](const ValuePtr& v) { return v->known(); });
  if (known) {
    Start(pending);
  } else {
    WhenKnown(pending->in, [self = shared_from_this(), pending] { self->Start(pending); });
  }
  return results;
}

Imperative::Results Imperative::InvokeGraph(CachedGraph& graph, std::vector<Array> inputs, const Options& options) {
  CallPtr call = graph.plain();
  std::vector<bool> wanted(inputs.size());
  bool any = false;
  for (size_t i = 0; options.recording && i < inputs.size(); ++i) {
    PutOnTape(&inputs[i]);
    wanted[i] = static_cast<bool>(inputs[i].entry) && !graph.is_auxiliary(i);
    any = any || wanted[i];
  }
  Options recorded = options;
  recorded.recording = false;
  if (any) {
    // Without a gradient it can still be computed; Backward says why it goes no further.
    if (absl::StatusOr<CallPtr> differentiable = graph.Differentiable(wanted); differentiable.ok()) {
      call = *std::move(differentiable);
      recorded.recording = true;
    }
  }
  return Invoke(call, std::move(inputs), recorded);
}

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
  if (pending.call->graph == nullptr && pending.call->compute[Call::Index(device.type)] == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("it has no kernel for ", device.ToString(),
                                                      "; bring its inputs to another device"));
  }
  return place;
}

// Tensors are moved where the call is the only holder, which is how Run knows what it may overwrite.
void Imperative::Gather(Pending& pending, Direct* direct) const {
  direct->call = pending.call;
  direct->training = pending.training;
  direct->random = {seed_, 0, pending.draw};
  direct->wanted.assign(pending.out.size(), false);
  for (size_t i = 0; i < pending.out.size(); ++i) direct->wanted[i] = pending.out[i] != nullptr;
  direct->inputs.clear();
  for (ValuePtr& value : pending.in) {
    direct->inputs.push_back(value.use_count() == 1 ? value->Take() : value->tensor());
    value.reset();
  }
}

void Imperative::Start(const std::shared_ptr<Pending>& pending) {
  for (const ValuePtr& value : pending->in) {
    if (value->failure() != nullptr) return Fail(*pending, value->failure());
  }
  absl::StatusOr<const Place*> place = PlaceOf(*pending);
  if (place.ok() && cancelled_) place = absl::CancelledError("the session has ended");
  if (!place.ok()) {
    Direct none;
    return Finish(*pending, OperatorError(*pending->call->node, place.status()), none);
  }
  const bool at_home = *place == &home();
  std::shared_ptr<Direct> direct = std::move(direct_);
  if (direct == nullptr) direct = std::make_shared<Direct>();
  Gather(*pending, direct.get());
  if (pending->call->graph != nullptr) {
    return StartGraph(direct, **place, [self = shared_from_this(), pending](const absl::Status& status, Direct& ran) {
      self->Finish(*pending, status, ran);
    });
  }
  if (at_home) {
    const absl::Status status = RunDirectly(*(*place)->lane, *(*place)->allocator, direct.get());
    Finish(*pending, status, *direct);
    direct_ = std::move(direct);
    return;
  }
  (*place)->lane->Post([self = shared_from_this(), place = *place, pending, direct] {
    const absl::Status status = RunDirectly(*place->lane, *place->allocator, direct.get());
    self->home().lane->Post([self, pending, direct, status] { self->Finish(*pending, status, *direct); });
  });
}

ExecutorKeyPtr Imperative::KeyOf(const Direct& direct, const Place& place) {
  const GraphCall& graph = *direct.call->graph;
  std::vector<GraphKey>& keys = graph_keys_[graph.graph.get()];
  const auto same = [&](const GraphKey& key) {
    if (key.training != direct.training || !(key.device == place.device)) return false;
    for (size_t i = 0; i < key.inputs.size(); ++i) {
      const Tensor& tensor = direct.inputs[i];
      if (key.inputs[i].dtype != tensor.dtype() || key.inputs[i].shape != tensor.shape()) return false;
    }
    return true;
  };
  for (const GraphKey& key : keys) if (same(key)) return key.key;
  constexpr size_t kMostKeys = 64;
  if (keys.size() >= kMostKeys) keys.clear();
  if (graph_keys_.size() > 4096) {
    graph_keys_.clear();
    return KeyOf(direct, place);
  }
  GraphKey key{{}, direct.training, place.device, nullptr};
  Signatures known;
  for (size_t i = 0; i < direct.inputs.size(); ++i) {
    key.inputs.push_back({direct.inputs[i].shape(), direct.inputs[i].dtype()});
    known[graph.inputs[i]] = key.inputs.back();
  }
  key.key = ExecutorKey::Make(graph.graph, std::move(known), {.is_train = direct.training});
  keys.push_back(key);
  return key.key;
}

void Imperative::StartGraph(const std::shared_ptr<Direct>& direct, const Place& place, Ended ended) {
  ExecutorCache& cache = *caches_[static_cast<size_t>(&place - places_.data())];
  const auto end = [self = shared_from_this(), direct, ended = std::move(ended)](const absl::Status& status) {
    self->AtHome([direct, ended, status] { ended(status, *direct); });
  };
  const ExecutorKeyPtr key = KeyOf(*direct, place);
  auto run = [self = shared_from_this(), direct, end, &place](ExecutorLease lease) {
    auto executor = std::make_shared<ExecutorLease>(std::move(lease));
    absl::StatusOr<Run> run = BindGraph(**executor, *place.lane, *place.allocator, direct.get());
    if (!run.ok()) return end(run.status());
    run->cancellation = self->cancellation_;
    (*executor)->StartHere(*std::move(run), [executor, direct, end](const absl::Status& status) {
      direct->outputs = std::move((*executor)->TakeRun().outputs);
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
  if (!status.ok()) {
    return Fail(pending, Failed(status, pending.command)->failure());
  }
  --pending_;
  for (size_t i = 0; i < pending.out.size(); ++i) {
    if (pending.out[i] != nullptr) pending.out[i]->Set(std::move(direct.outputs[i]), queue_);
  }
  for (size_t i = 0; i < pending.written.size(); ++i) pending.written[i]->Set(std::move(direct.written[i]), queue_);
}

void Imperative::Fail(Pending& pending, const FailurePtr& failure) {
  --pending_;
  for (const ValuePtr& value : pending.out) if (value != nullptr) value->Fail(failure, queue_);
  for (const ValuePtr& value : pending.written) value->Fail(failure, queue_);
  pending.in.clear();
}

ValuePtr Imperative::CopyTo(const ValuePtr& value, Device device, uint64_t command) {
  if (value->known() && (value->failure() != nullptr || value->tensor().device() == device)) return value;
  auto copy = std::make_shared<Value>();
  ++pending_;
  WhenKnown({value}, [self = shared_from_this(), value, copy, device, command] {
    --self->pending_;
    if (value->failure() != nullptr) return copy->Fail(value->failure(), self->queue_);
    const Tensor from = value->tensor();
    if (from.device() == device) return copy->Set(from, self->queue_);
    const Place* to = self->Find(device);
    // The GPU's lane does it; between two GPUs, the one that has the values.
    const Place* by = from.device().type == DeviceType::kCpu ? to : self->Find(from.device());
    ++self->pending_;
    by->lane->Post([self, from, to, by, copy, command] {
      absl::StatusOr<Tensor> made = CopyBetween(from, *to->lane, *to->allocator, *by->lane);
      self->AtHome([self, made, copy, command] {
        --self->pending_;
        if (made.ok()) return copy->Set(*made, self->queue_);
        copy->Fail(self->Failed(made.status(), command)->failure(), self->queue_);
      });
    });
  });
  return copy;
}

ValuePtr Imperative::Failed(const absl::Status& status, uint64_t command) {
  auto failure = std::make_shared<Failure>();
  failure->status = status;
  failure->command = command;
  if (!cancelled_) on_failure_(failure);
  return std::make_shared<Value>(std::move(failure));
}

void Imperative::Cancel() {
  cancelled_ = true;
  cancellation_->Cancel();
}

}  // namespace gluond
