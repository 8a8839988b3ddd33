#include "engine/imperative/direct.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/imperative/graph_call.h"
#include "engine/passes/in_place.h"
#include "engine/passes/infer.h"
#include "engine/passes/operator_error.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/only_holder.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

// Gives each input that the call writes memory that nobody else holds, but for those that it `leaves` as they are.
absl::Status TakeWritten(
    const std::vector<uint32_t>& indices, Lane& lane, Allocator& allocator, ConstantTensors& constants, DirectRun* run,
    absl::FunctionRef<bool(uint32_t)> leaves = [](uint32_t) { return false; }) {
  run->written.clear();
  for (const uint32_t i : indices) {
    if (!leaves(i)) {
      constants.Forget(run->inputs[i]);
      RETURN_IF_ERROR(Own(&run->inputs[i], lane.lanes(), allocator));
    }
    run->written.push_back(run->inputs[i]);
  }
  return absl::OkStatus();
}

// The operator of a call, as a key. Its address is no other's while the key is there.
struct OpKey {
  explicit OpKey(const NodePtr& op) : node(op.get()), keeps_address(op) {}
  bool operator==(const OpKey& other) const { return node == other.node; }
  template <class H>
  friend H AbslHashValue(H h, const OpKey& key) {
    return H::combine(std::move(h), key.node);
  }
  const Node* node;
  std::weak_ptr<const Node> keeps_address;
};

// The shapes and types of an operator's last call: mostly those of the next one, too.
struct LastCall {
  static constexpr size_t kFewTensors = 16;
  size_t num_tensors = 0;
  std::vector<Signature> inputs;
  ShapeVector out_shapes;
  TypeVector out_types;

  // A payer of calls pays for few tensors with each.
  size_t kept_bytes() const { return num_tensors <= kFewTensors ? 0 : num_tensors * sizeof(Signature); }
  bool IsLike(const std::vector<Tensor>& tensors) const {
    return !out_shapes.empty() && std::equal(tensors.begin(), tensors.end(), inputs.begin(), inputs.end(),
                                             [](const Tensor& tensor, const Signature& input) {
                                               return tensor.dtype() == input.dtype && tensor.shape() == input.shape;
                                             });
  }
};

absl::Status InferAnew(const PreparedOp& op, DirectRun* run) {
  const NodeAttrs& attrs = op.node->attrs;
  run->in_shapes.clear();
  run->in_types.clear();
  for (const Tensor& input : run->inputs) {
    run->in_shapes.push_back(input.shape());
    run->in_types.push_back(input.dtype());
  }
  const uint32_t num_outputs = op.facts().num_outputs;
  run->out_shapes.assign(num_outputs, Shape());
  run->out_types.assign(num_outputs, DType::kUnknown);
  ASSIGN_OR_RETURN(const bool known, InferShape(attrs, &run->in_shapes, &run->out_shapes));
  if (!known) RETURN_IF_ERROR(InferShape(attrs, &run->in_shapes, &run->out_shapes).status());
  RETURN_IF_ERROR(InferType(attrs, &run->in_types, &run->out_types).status());
  for (size_t i = 0; i < run->inputs.size(); ++i) {
    if (run->in_shapes[i] == run->inputs[i].shape() && run->in_types[i] == run->inputs[i].dtype()) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", Name(run->inputs[i].dtype()),
                                                   run->inputs[i].shape().ToString(), ", expected ", Name(run->in_types[i]),
                                                   run->in_shapes[i].ToString()));
  }
  if (AllKnown(run->out_shapes) && AllKnown(run->out_types)) return absl::OkStatus();
  return absl::FailedPreconditionError("its inputs do not tell the shape and type of its output");
}

absl::Status Infer(const PreparedOp& op, KernelCache& shapes, DirectRun* run) {
  ASSIGN_OR_RETURN(const std::shared_ptr<LastCall> last, shapes.Get<LastCall>(OpKey(op.node), [&] {
    auto made = std::make_unique<LastCall>();
    made->num_tensors = run->inputs.size() + op.facts().num_outputs;
    return absl::StatusOr<std::unique_ptr<LastCall>>(std::move(made));
  }));
  if (last->IsLike(run->inputs)) {
    run->out_shapes = last->out_shapes;
    run->out_types = last->out_types;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(InferAnew(op, run));
  last->inputs.clear();
  for (const Tensor& input : run->inputs) last->inputs.push_back({input.shape(), input.dtype()});
  last->out_shapes = run->out_shapes;
  last->out_types = run->out_types;
  return absl::OkStatus();
}

bool Fits(const DirectRun& run, uint32_t input, uint32_t output) {
  const Tensor& x = run.inputs[input];
  return FitTogether(x.shape(), x.dtype(), run.out_shapes[output], run.out_types[output]);
}

// The input whose memory output `o` may take. Nobody else may hold it: neither another output nor, for an input that the call
// writes, run.written. Such an input is alone where it lies: its number stands for the place.
std::optional<uint32_t> InPlaceInput(const PreparedOp& op, const DirectRun& run, uint32_t o) {
  const auto place_of = [&](uint32_t i) {
    return Fits(run, i, o) && IsOnlyHolder(run.inputs[i].buffer()) ? std::optional(i) : std::nullopt;
  };
  std::optional<uint32_t> found;
  ForEachPlaceToTakeOver(
      op.facts(), o, place_of, [](uint32_t) { return 1u; }, [&](uint32_t i) { found = found.value_or(i); });
  return found;
}

absl::Status Allocate(const PreparedOp& op, Allocator& allocator, Device device, DirectRun* run) {
  run->outputs.clear();
  run->out.clear();
  run->req.clear();
  run->in.clear();
  for (const Tensor& input : run->inputs) run->in.push_back(input.blob());
  for (uint32_t o = 0; o < op.facts().num_outputs; ++o) {
    Tensor& output = run->outputs.emplace_back();
    run->req.push_back(kNullOp);
    run->out.push_back({nullptr, run->out_shapes[o], run->out_types[o], device});
    if (!run->wanted[o]) continue;
    if (const std::optional<uint32_t> i = InPlaceInput(op, *run, o)) {
      output = run->inputs[*i].Reshaped(run->out_shapes[o]);
      run->req.back() = kWriteInplace;
    } else {
      ASSIGN_OR_RETURN(output, Tensor::Empty(allocator, run->out_shapes[o], run->out_types[o]));
      run->req.back() = kWriteTo;
    }
    run->out.back().data = output.data();
  }
  return absl::OkStatus();
}

absl::Status InferAndRun(const PreparedOp& op, Lane& lane, Allocator& allocator, ConstantTensors& constants, DirectCaches& caches,
                         DirectRun* run) {
  RETURN_IF_ERROR(Infer(op, caches.shapes, run));
  if (const auto i = InputOfIdentity(op.facts(), [run](uint32_t input) { return Fits(*run, input, 0); })) {
    run->written.clear();
    run->outputs.assign(1, run->inputs[*i].Reshaped(run->out_shapes[0]));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(TakeWritten(op.facts().mutated, lane, allocator, constants, run));
  RETURN_IF_ERROR(Allocate(op, allocator, lane.device(), run));
  OpContext context = lane.NewContext(run->training);
  context.random = run->random;
  context.kernels = &caches.kernels;
  lane.LendScratch(&context);
  RETURN_IF_ERROR(RunKernel(op.node->attrs, context, run->in, run->req, run->out));
  return lane.driver().Pace(lane.stream(), 1);
}

}  // namespace

absl::Status RunDirectly(const PreparedOp& op, Lane& lane, Allocator& allocator, ConstantTensors& constants, DirectCaches& caches,
                         DirectRun* run) {
  run->written.clear();
  const absl::Status status = InferAndRun(op, lane, allocator, constants, caches, run);
  if (!status.ok()) {  // A kernel that fails has written nothing.
    run->outputs.clear();
    run->written.clear();
    for (const uint32_t i : op.facts().mutated) run->written.push_back(run->inputs[i]);
  }
  run->inputs.clear();
  return status.ok() ? status : OperatorError(*op.node, status);
}

absl::StatusOr<Run> BindGraph(const GraphCall& graph, Executor& executor, Lane& lane, Allocator& allocator,
                              const std::shared_ptr<ConstantTensors>& constants, DirectRun* run, std::vector<Tensor>* before) {
  for (const uint32_t i : graph.written) before->push_back(run->inputs[i]);  // Held, they are copied for the run.
  const bool keeps = !run->training && graph.constants != nullptr && !graph.constants->empty();
  if (keeps) {
    constants->BeginRun();
    for (size_t i = 0; i < run->inputs.size(); ++i) {
      if (graph.constants->contains(graph.inputs[i])) constants->Add(run->inputs[i]);
    }
  }
  // A prediction leaves its constants as they are, whatever the operators say that they write.
  const auto leaves = [&](uint32_t i) { return keeps && graph.constants->contains(graph.inputs[i]); };
  RETURN_IF_ERROR(TakeWritten(graph.written, lane, allocator, *constants, run, leaves));
  Run bound = executor.NewRun();
  for (size_t i = 0; i < run->inputs.size(); ++i) {
    const int index = executor.input_index(graph.inputs[i]);
    if (index >= 0) bound.inputs[static_cast<size_t>(index)] = std::move(run->inputs[i]);
  }
  run->inputs.clear();
  // A backward call's outputs are the last ones; a forward call's run is behind the first ones, and no output.
  const size_t n = executor.outputs().size(), first = graph.graph == nullptr ? n - run->wanted.size() : 0;
  bound.output_reqs.assign(n, kNullOp);
  for (size_t i = 0; i < run->wanted.size() && first + i < n; ++i)
    bound.output_reqs[first + i] = run->wanted[i] ? kWriteTo : kNullOp;
  bound.seed = run->random.seed;
  bound.random_run = run->random.run;
  if (keeps) bound.constants = constants;
  return bound;
}

absl::StatusOr<PausedRun> TakePaused(Tensor paused_call, Executor& executor) {
  PausedCall& call = PausedCall::Of(paused_call);
  if (IsOnlyHolder(paused_call.buffer())) return std::move(call.run);
  return Annotate(executor.Copy(call.run), "backward with retain_graph=True");
}

}  // namespace gluond
