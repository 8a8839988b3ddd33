#include "engine/imperative/imperative.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/imperative/copy_call.h"
#include "engine/imperative/pending.h"

namespace gluond {

// Idle executors keep memory for their next run: it goes before a call is refused.
class Imperative::Memory final : public Allocator {
 public:
  explicit Memory(std::shared_ptr<Allocator> memory) : memory_(std::move(memory)) {}
  void Spare(ExecutorCache* cache) { cache_ = cache; }

  Device device() const override { return memory_->device(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    absl::StatusOr<std::shared_ptr<Buffer>> buffer = memory_->Allocate(bytes);
    if (buffer.ok() || !absl::IsResourceExhausted(buffer.status()) || cache_->num_idle() == 0) return buffer;
    cache_->Clear();
    return memory_->Allocate(bytes);
  }

 private:
  const std::shared_ptr<Allocator> memory_;
  ExecutorCache* cache_ = nullptr;
};

std::shared_ptr<Imperative> Imperative::Create(std::vector<Place> places, OnFailure on_failure, const Limits& limits) {
  for (Place& place : places) place.allocator = std::make_shared<Memory>(std::move(place.allocator));
  return std::shared_ptr<Imperative>(new Imperative(std::move(places), std::move(on_failure), limits));
}

std::shared_ptr<Imperative> Imperative::Create(std::vector<Place> places) {
  return Create(std::move(places), [](const FailurePtr&) {}, {});
}

Imperative::Imperative(std::vector<Place> places, OnFailure on_failure, const Limits& limits)
    : places_(std::move(places)), on_failure_(std::move(on_failure)), limits_(limits),
      queue_(std::make_shared<ReadyQueue>(*home().lane)) {
  for (const Place& place : places_) {
    caches_.push_back(std::make_unique<ExecutorCache>(*place.lane, *place.allocator));
    static_cast<Memory&>(*place.allocator).Spare(caches_.back().get());
  }
}

const Imperative::Place* Imperative::Find(Device device) const {
  for (const Place& place : places_) if (place.device == device) return &place;
  return nullptr;
}

// Recording.

std::shared_ptr<RecordedNode> Imperative::NewNode() const { return std::make_shared<RecordedNode>(tape_nodes_); }

void Imperative::PutOnTape(Array* array) const {
  if (array->entry && !array->recorded().is_freed) return;
  array->entry = {};
  if (array->mark == nullptr) return;
  auto variable = NewNode();
  variable->attrs.name = "variable";
  variable->mark = array->mark;
  variable->values = {array->value};
  array->entry = {std::move(variable), 0};
}

absl::Status Imperative::Record(const Call& call, std::vector<Array>& inputs, Pending& pending,
                                Results* results) const {
  bool wanted = false;
  for (Array& input : inputs) {
    PutOnTape(&input);
    wanted = wanted || input.entry;
  }
  if (!wanted) return absl::OkStatus();
  if (*tape_nodes_ >= limits_.tape_nodes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tape holds ", tape_nodes_->load(), " recorded calls and variables, the limit of --max_session_arrays; "
        "call backward, or record less at once"));
  }
  const auto node = NewNode();
  node->attrs = call.node->attrs;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    Array& input = inputs[i];
    const ValuePtr* value = &input.value;
    if (!input.entry) {
      auto constant = NewNode();
      constant->attrs.name = "constant";
      constant->state = input.state;
      input.entry = {std::move(constant), 0};
      // The gradient sees what the call has made of it.
      const std::vector<uint32_t>& mutated = call.facts().mutated;
      const auto written = std::find(mutated.begin(), mutated.end(), i);
      if (written != mutated.end()) value = &pending.written[static_cast<size_t>(written - mutated.begin())];
    }
    if (call.gradient_reads_input[i]) {
      std::vector<ValuePtr>& values = input.recorded().values;
      values.resize(std::max<size_t>(values.size(), input.entry.index + 1));
      values[input.entry.index] = *value;
    }
    node->inputs.push_back(input.entry);
  }
  const uint32_t num_outputs = call.facts().num_outputs;
  node->values.resize(num_outputs);
  for (uint32_t i = 0; i < num_outputs; ++i) {
    if (!call.gradient_reads_output[i]) continue;
    if (pending.out[i] == nullptr) pending.out[i] = std::make_shared<Value>();
    node->values[i] = pending.out[i];
  }
  for (uint32_t i = 0; i < results->outputs.size(); ++i) {
    if (results->outputs[i]) results->outputs[i].entry = {node, i};
  }
  return absl::OkStatus();
}

// Calls.

Imperative::Results Imperative::Invoke(const CallPtr& call, std::vector<Array> inputs, const Options& options) {
  return Begin(call, std::move(inputs), options, /*now=*/true);
}

Imperative::Results Imperative::Begin(const CallPtr& call, std::vector<Array> inputs, const Options& options,
                                      bool now) {
  now = now && home().lane->IsCurrent();
  Results results;
  Pending pending;
  pending.call = call;
  pending.training = options.training;
  pending.device = options.device;
  pending.command = options.command;
  pending.seed = seed_;
  const OpFacts& facts = call->facts();
  if (facts.random || call->graph != nullptr) pending.draw = draws_++;
  pending.out.resize(facts.num_outputs);
  results.outputs.resize(options.wanted != nullptr ? facts.num_outputs : facts.num_visible);
  for (uint32_t i = 0; i < results.outputs.size(); ++i) {
    if (options.wanted != nullptr && !(*options.wanted)[i]) continue;
    results.outputs[i].value = pending.out[i] = std::make_shared<Value>();
  }
  for (const uint32_t i : facts.mutated) {
    pending.written.push_back(std::make_shared<Value>());
    results.written.emplace_back(i, pending.written.back());
  }
  const absl::Status recorded = options.recording ? Record(*call, inputs, pending, &results) : absl::OkStatus();
  bool known = true;
  pending.in.reserve(inputs.size());
  for (Array& input : inputs) {
    known = known && input.value->known();
    pending.in.push_back(std::move(input.value));
  }
  inputs.clear();  // A variable that was on no tape but this array's is nobody's now.

  ++pending_;
  if (!recorded.ok()) {
    Fail(pending, Failed(recorded, options.command)->failure());
  } else if (!known || !now || !StartHere(pending)) {
    const auto kept = std::make_shared<Pending>(std::move(pending));
    std::function<void()> start = [self = shared_from_this(), kept] { self->Start(kept); };
    if (!known) {
      WhenKnown(kept->in, std::move(start));
    } else {
      now ? start() : queue_->DoLater(std::move(start));
    }
  }
  return results;
}

Imperative::Results Imperative::InvokeGraph(CachedGraph& graph, std::vector<Array> inputs, const Options& options) {
  std::vector<bool> wanted(inputs.size());
  bool any = false;
  for (size_t i = 0; options.recording && i < inputs.size(); ++i) {
    PutOnTape(&inputs[i]);
    wanted[i] = static_cast<bool>(inputs[i].entry) && !graph.is_auxiliary(i);
    any = any || wanted[i];
  }
  if (any) return Invoke(graph.Differentiable(wanted), std::move(inputs), options);
  Options constant = options;
  constant.recording = false;
  return Invoke(graph.plain(), std::move(inputs), constant);
}

Array Imperative::CopyTo(Array array, Device device, const Options& options) {
  const Value& value = *array.value;
  if (value.known() && (value.failure() != nullptr || value.tensor().device() == device)) return array;
  return std::move(Invoke(MakeCopyCall(device), {std::move(array)}, options).outputs[0]);
}

ValuePtr Imperative::Failed(const absl::Status& status, uint64_t command) {
  auto failure = std::make_shared<Failure>();
  failure->status = status;
  failure->command = command;
  if (!cancelled_) on_failure_(failure);
  return std::make_shared<Value>(std::move(failure));
}

int64_t Imperative::num_compiled() const {
  int64_t n = 0;
  for (const auto& cache : caches_) n += cache->num_compiled();
  return n;
}

void Imperative::Cancel() {
  cancelled_ = true;
  cancellation_->Cancel();
}

}  // namespace gluond
