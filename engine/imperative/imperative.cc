#include "engine/imperative/imperative.h"

#include <utility>

#include "engine/imperative/copy_op.h"

namespace gluond {

// Calls of gradients that need a compiled executor are kept with it, up to this number.
constexpr size_t kMostGradientCalls = 256;
constexpr size_t kMostPlans = 8;

Imperative::Imperative(std::shared_ptr<Scheduler> scheduler, int64_t most_nodes)
    : scheduler_(std::move(scheduler)), tape_(most_nodes), gradient_calls_(kMostGradientCalls), plans_(kMostPlans) {}

Imperative::Results Imperative::Invoke(const PreparedOpPtr& op, std::vector<Array> inputs, const Options& options) {
  return Begin(op, std::move(inputs), options, /*now=*/true);
}

Imperative::Results Imperative::Begin(const PreparedOpPtr& op, std::vector<Array> inputs, const Options& options, bool now) {
  const OpFacts& facts = op->facts();
  Results results;
  results.outputs.resize(options.wanted != nullptr ? facts.num_outputs : facts.num_visible);
  Invocation invoked(op,
                     [&](size_t i) { return i < results.outputs.size() && (options.wanted == nullptr || (*options.wanted)[i]); });
  for (uint32_t i = 0; i < results.outputs.size(); ++i) results.outputs[i].value = invoked.out[i];
  for (size_t i = 0; i < facts.mutated.size(); ++i) results.written.emplace_back(facts.mutated[i], invoked.written[i]);
  invoked.training = options.training;
  invoked.device = options.device;
  invoked.command = options.command;
  invoked.seed = random_.seed;
  if (facts.random || op->graph != nullptr) invoked.draw = options.draw.has_value() ? *options.draw : TakeDraw();
  absl::Status recorded;
  if (options.recording) recorded = tape_.Record(absl::MakeSpan(inputs), &invoked, absl::MakeSpan(results.outputs));
  invoked.in.reserve(inputs.size());
  for (Array& input : inputs) invoked.in.push_back(std::move(input.value));
  inputs.clear();  // Frees variables that only these arrays had on the tape.
  recorded.ok() ? scheduler_->Run(std::move(invoked), now) : scheduler_->Refuse(std::move(invoked), recorded);
  return results;
}

Imperative::Results Imperative::InvokeGraph(CachedGraph& graph, std::vector<Array> inputs, const Options& options) {
  std::vector<bool> wanted(inputs.size());
  bool any = false;
  for (size_t i = 0; options.recording && i < inputs.size(); ++i) {
    tape_.Put(&inputs[i]);
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
  return std::move(Invoke(PrepareCopy(device), {std::move(array)}, options).outputs[0]);
}

}  // namespace gluond
