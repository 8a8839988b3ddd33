#include "engine/runtime/op_invoker.h"

#include <algorithm>
#include <utility>

#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

// Calls come from anybody: what their operators keep between calls is no more than this.
constexpr int64_t kMostKeptBytes = int64_t{64} << 20;

// A graph of one call, whose variables are named as the operator names its inputs.
absl::StatusOr<ExecutorKeyPtr> MakeKey(absl::string_view op_name, const AttrDict& attrs,
                                       const std::vector<Signature>& inputs, bool is_train) {
  ASSIGN_OR_RETURN(const Op* op, Op::Get(op_name));
  std::vector<NodeEntry> variables;
  for (size_t i = 0; i < inputs.size(); ++i) variables.push_back(MakeVariable(absl::StrCat("input", i)));
  ASSIGN_OR_RETURN(const NodePtr node, TryMakeNode(op_name, op->name(), variables, attrs));
  const std::vector<std::string> names = op->input_names(node->attrs, static_cast<uint32_t>(inputs.size()));
  Signatures known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < names.size()) variables[i].node->attrs.name = names[i];
    known[variables[i].node->name()] = inputs[i];
  }
  auto graph = std::make_shared<Graph>();
  for (uint32_t i = 0; i < node->facts().num_visible; ++i) graph->outputs.push_back({node, i});
  return ExecutorKey::Make(std::move(graph), std::move(known), {.is_train = is_train});
}

// A call between its start and its answer.
struct Call {
  ExecutorLease executor;
  Run run;
  OpInvoker::Done done;

  void Finish(const absl::Status& status) {
    std::vector<Tensor> outputs;
    if (status.ok()) outputs = std::move(executor->TakeRun().outputs);
    executor->ForgetOutputs();  // They are the caller's: their memory goes with the answer, or with a run that failed.
    executor = ExecutorLease();  // Before the caller can make the next call.
    status.ok() ? done(std::move(outputs)) : done(status);
  }
};

}  // namespace

bool OpInvoker::CallKey::operator==(const CallKey& other) const {
  const auto same = [](const Signature& s, const Signature& t) { return s.shape == t.shape && s.dtype == t.dtype; };
  return op == other.op && is_train == other.is_train && attrs == other.attrs &&
         std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same);
}

OpInvoker::OpInvoker(Lane& lane, Allocator& allocator, size_t max_kept)
    : max_kept_(max_kept), cache_(lane, allocator, max_kept, kMostKeptBytes) {}

absl::StatusOr<ExecutorKeyPtr> OpInvoker::FindKey(CallKey call) {
  {
    std::lock_guard lock(mu_);
    const auto it = keys_.find(call);
    if (it != keys_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(ExecutorKeyPtr key, MakeKey(call.op, call.attrs, call.inputs, call.is_train));
  std::lock_guard lock(mu_);
  if (keys_.size() >= max_kept_) {
    // Too many to keep, and rarely so: begins anew.
    keys_.clear();
    cache_.Clear();
  }
  return keys_.try_emplace(std::move(call), std::move(key)).first->second;
}

void OpInvoker::Invoke(absl::string_view op, AttrDict attrs, std::vector<Tensor> inputs, Options options, Done done) {
  CallKey call_key{std::string(op), std::move(attrs), {}, options.is_train};
  call_key.inputs.reserve(inputs.size());
  for (const Tensor& input : inputs) call_key.inputs.push_back({input.shape(), input.dtype()});
  absl::StatusOr<ExecutorKeyPtr> key = FindKey(std::move(call_key));
  if (!key.ok()) return done(key.status());

  auto call = std::make_shared<Call>();
  call->run.inputs = std::move(inputs);
  call->run.seed = options.seed;
  call->run.random_run = options.random_run;
  call->run.cancellation = std::move(options.cancellation);
  call->done = std::move(done);
  cache_.Checkout(*std::move(key), [call](absl::StatusOr<ExecutorLease> executor) {
    if (!executor.ok()) return call->done(executor.status());
    call->executor = *std::move(executor);
    call->executor->StartHere(std::move(call->run), [call](const absl::Status& status) { call->Finish(status); });
  });
}

}  // namespace gluond
