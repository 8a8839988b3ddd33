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

Invoker::Invoker(Devices& devices) : devices_(devices) {
  for (Place* place : devices.offered()) {
    caches_[place] = std::make_unique<ExecutorCache>(*place->lane, *place->allocator);
  }
}

absl::StatusOr<std::shared_ptr<const Invoker::Prepared>> Invoker::Prepare(const Place& place, const Invocation& call) {
  std::string key = KeyOf(place, call);
  {
    std::lock_guard lock(mu_);
    const auto found = prepared_.find(key);
    if (found != prepared_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(OneCall one, MakeOneCall(call.op, call.attrs, call.inputs.size()));
  if (!one.node->op()->RunsOn(place.device.type)) {
    return absl::FailedPreconditionError(absl::StrCat("operator '", call.op, "' has no kernel for ",
                                                      place.device.ToString(), "; choose another device"));
  }
  Signatures known;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    known[one.inputs[i]] = {call.inputs[i].shape(), call.inputs[i].dtype()};
  }
  auto prepared = std::make_shared<Prepared>();
  prepared->key = ExecutorKey::Make(std::make_shared<const Graph>(std::move(one.graph)), std::move(known),
                                    {.is_train = call.is_train});
  prepared->inputs = std::move(one.inputs);
  std::lock_guard lock(mu_);
  if (prepared_.size() >= kMaxPrepared) prepared_.clear();
  prepared_.emplace(std::move(key), prepared);
  return prepared;
}

void Invoker::Invoke(Place& place, Invocation invocation, Done done) {
  absl::StatusOr<std::shared_ptr<const Prepared>> prepared = Prepare(place, invocation);
  if (!prepared.ok()) return done(prepared.status());
  const ExecutorKeyPtr key = (*prepared)->key;
  caches_.at(&place)->Checkout(key, [this, &place, prepared = *std::move(prepared), invocation = std::move(invocation),
                                     done = std::move(done)](absl::StatusOr<ExecutorLease> lease) mutable {
    if (!lease.ok()) return done(lease.status());
    Start(place, *prepared, *std::move(lease), std::move(invocation), std::move(done));
  });
}

void Invoker::Start(Place& place, const Prepared& prepared, ExecutorLease lease, Invocation invocation, Done done) {
  auto executor = std::make_shared<ExecutorLease>(std::move(lease));
  const std::vector<Executor::Variable>& variables = (*executor)->inputs();
  Run run = (*executor)->NewRun();
  run.seed = invocation.seed;
  run.cancellation = invocation.cancellation;
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    const int at = (*executor)->input_index(prepared.inputs[i]);
    if (at < 0) continue;
    Tensor& input = invocation.inputs[i];
    // The request's memory is not to be written.
    const bool copy = variables[static_cast<size_t>(at)].mutated || place.device.type != DeviceType::kCpu;
    absl::StatusOr<Tensor> placed = copy ? CopyToDevice(input, place) : std::move(input);
    if (!placed.ok()) return done(placed.status());
    run.inputs[static_cast<size_t>(at)] = *std::move(placed);
  }
  (*executor)->StartHere(std::move(run), [this, &place, executor, done = std::move(done)](absl::Status status) {
    std::vector<Tensor> outputs;
    if (status.ok()) outputs = (*executor)->TakeRun().outputs;
    for (Tensor& output : outputs) {
      absl::StatusOr<Tensor> on_host = CopyToHost(output, place, *devices_.host().allocator);
      if (!on_host.ok()) return done(on_host.status());
      output = *std::move(on_host);
    }
    status.ok() ? done(std::move(outputs)) : done(std::move(status));
  });
}

}  // namespace gluond::server
