#include "server/invoker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "server/device_copy.h"

namespace gluond::server {
namespace {

// Equal for calls that one executor can run.
std::string KeyOf(const Place& place, const Invocation& call) {
  std::string key = absl::StrCat(place.device.ToString(), call.is_train ? " train " : " ", call.op);
  for (const auto& [name, value] : call.attrs) absl::StrAppend(&key, "\n", name.size(), name, "=", value.size(), value);
  for (const Tensor& input : call.inputs) {
    absl::StrAppend(&key, "\n", static_cast<int>(input.dtype()));
    for (const int64_t dim : input.shape()) absl::StrAppend(&key, ",", dim);
  }
  return key;
}

}  // namespace

absl::StatusOr<OneCall> MakeOneCall(const std::string& op_name, const AttrDict& attrs, size_t num_inputs) {
  ASSIGN_OR_RETURN(const Op* op, Op::Get(op_name));
  NodeAttrs parsed;
  parsed.op = op;
  parsed.name = op_name;
  parsed.dict = attrs;
  if (const auto* count = op->GetAttr<key_var_num_args>("key_var_num_args"); count != nullptr) {
    parsed.dict.try_emplace(*count, absl::StrCat(num_inputs));
  }
  RETURN_IF_ERROR(op->ParseAttrs(&parsed));
  const uint32_t want = op->num_inputs(parsed);
  if (want != kVarg && want != num_inputs) {
    return absl::InvalidArgumentError(absl::StrCat("operator '", op_name, "' takes ", want, " inputs, got ", num_inputs));
  }
  OneCall call;
  call.inputs = op->input_names(parsed, static_cast<uint32_t>(num_inputs));
  std::vector<NodeEntry> entries;
  for (const std::string& input : call.inputs) entries.push_back(MakeVariable(input));
  ASSIGN_OR_RETURN(call.node, TryMakeNode(op_name, op_name, std::move(entries), parsed.dict));
  for (uint32_t i = 0; i < op->num_visible_outputs(call.node->attrs); ++i) {
    call.graph.outputs.push_back({call.node, i});
  }
  return call;
}

void Invoker::Invoke(Place& place, Invocation invocation, Done done) {
  std::string key = KeyOf(place, invocation);
  // Copies to another device take time, too.
  CompiledPtr compiled = place.device.type == DeviceType::kCpu ? TakeIdle(key) : nullptr;
  if (compiled != nullptr) return Start(place, std::move(compiled), std::move(invocation), std::move(done));
  workers_.Post([this, &place, invocation = std::move(invocation), key = std::move(key),
                 done = std::move(done)]() mutable {
    CompileAndStart(place, std::move(invocation), std::move(key), std::move(done));
  });
}

void Invoker::CompileAndStart(Place& place, Invocation invocation, std::string key, Done done) {
  absl::StatusOr<CompiledPtr> compiled = TakeIdle(key);
  if (*compiled == nullptr) compiled = Compile(place, invocation, key);
  if (absl::IsResourceExhausted(compiled.status())) {  // What is kept idle may be what is missing.
    ForgetAll();
    compiled = Compile(place, invocation, key);
  }
  if (!compiled.ok()) return done(compiled.status());
  Start(place, *std::move(compiled), std::move(invocation), std::move(done));
}

absl::StatusOr<Invoker::CompiledPtr> Invoker::Compile(Place& place, const Invocation& invocation,
                                                      std::string key) const {
  ASSIGN_OR_RETURN(OneCall call, MakeOneCall(invocation.op, invocation.attrs, invocation.inputs.size()));
  if (!call.node->op()->RunsOn(place.device.type)) {
    return absl::FailedPreconditionError(absl::StrCat("operator '", invocation.op, "' has no kernel for ",
                                                      place.device.ToString(), "; choose another device"));
  }
  Signatures known;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    known[call.inputs[i]] = {invocation.inputs[i].shape(), invocation.inputs[i].dtype()};
  }
  auto compiled = std::make_shared<Compiled>();
  compiled->key = std::move(key);
  ASSIGN_OR_RETURN(compiled->executor, Executor::Compile(call.graph, known, {.is_train = invocation.is_train},
                                                         *place.lane, *place.allocator));
  for (const Executor::Variable& variable : compiled->executor->inputs()) {
    const auto at = std::find(call.inputs.begin(), call.inputs.end(), variable.name);
    compiled->operator_input.push_back(static_cast<size_t>(at - call.inputs.begin()));
  }
  return compiled;
}

void Invoker::Start(Place& place, CompiledPtr compiled, Invocation invocation, Done done) {
  Executor& executor = *compiled->executor;
  Run run = executor.TakeRun();
  run.inputs.resize(executor.inputs().size());
  run.outputs.assign(executor.outputs().size(), Tensor());
  run.seed = invocation.seed;
  run.cancellation = invocation.cancellation;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    Tensor& input = invocation.inputs[compiled->operator_input[i]];
    // The request's memory is not to be written.
    const bool copy = executor.inputs()[i].mutated || place.device.type != DeviceType::kCpu;
    absl::StatusOr<Tensor> placed = copy ? CopyToDevice(input, place) : std::move(input);
    if (!placed.ok()) {
      KeepIdle(std::move(compiled));
      return done(placed.status());
    }
    run.inputs[i] = *std::move(placed);
  }
  executor.Start(std::move(run), [this, &place, compiled, done = std::move(done)](absl::Status status) {
    std::vector<Tensor> outputs;
    if (status.ok()) outputs = compiled->executor->TakeRun().outputs;
    if (compiled->executor->idle()) KeepIdle(compiled);
    for (Tensor& output : outputs) {
      if (!status.ok()) break;
      absl::StatusOr<Tensor> on_host = CopyToHost(output, place, host_);
      status = on_host.status();
      if (status.ok()) output = *std::move(on_host);
    }
    status.ok() ? done(std::move(outputs)) : done(std::move(status));
  });
}

Invoker::CompiledPtr Invoker::TakeIdle(const std::string& key) {
  std::lock_guard lock(mu_);
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->key != key) continue;
    CompiledPtr compiled = std::move(*it);
    idle_.erase(it);
    return compiled;
  }
  return nullptr;
}

void Invoker::KeepIdle(CompiledPtr compiled) {
  CompiledPtr oldest;  // Freed without the lock.
  std::lock_guard lock(mu_);
  idle_.push_front(std::move(compiled));
  if (idle_.size() > kMaxKept) {
    oldest = std::move(idle_.back());
    idle_.pop_back();
  }
}

void Invoker::ForgetAll() {
  std::list<CompiledPtr> forgotten;
  std::lock_guard lock(mu_);
  forgotten.swap(idle_);
}

}  // namespace gluond::server
