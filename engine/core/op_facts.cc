#include "engine/core/op_facts.h"

#include <atomic>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

// The attributes of which facts are made.
struct FactAttrs {
  OpMap<FMutateInputs> mutated{"FMutateInputs"};
  OpMap<FIgnoreInputs> ignored{"FIgnoreInputs"};
  OpMap<FInplaceIdentity> identity{"FInplaceIdentity"};
  OpMap<FInplaceOption> in_place{"FInplaceOption"};
  OpMap<FExecType> exec_type{"FExecType"};
  OpMap<FResourceRequest> resources{"FResourceRequest"};
  OpMap<THasDeterministicOutput> deterministic{"THasDeterministicOutput"};
  OpMap<TIsSum> sum{"TIsSum"};
  OpMap<TIsZeros> zeros{"TIsZeros"};
  OpMap<FBeginsGradient> begins_gradient{"FBeginsGradient"};
  OpMap<FInferShape> infer_shape{"FInferShape"};
  OpMap<FInferType> infer_type{"FInferType"};
  OpMap<FGradient> gradient{"FGradient"};
  OpMap<FPrepare> cpu_prepare{"FPrepare<cpu>"};
};

// The operator's function answers for the call; `otherwise` stands for a function that it does not have.
template <class F, class T>
T Ask(const NodeAttrs& attrs, const OpMap<F>& functions, T otherwise) {
  const F* f = functions[attrs.op];
  return f == nullptr ? std::move(otherwise) : (*f)(attrs);
}

}  // namespace

OpFacts::OpFacts(const NodeAttrs& attrs) {
  static const FactAttrs of;
  const Op* const op = attrs.op;
  using Indices = std::vector<uint32_t>;
  num_outputs = op->num_outputs(attrs);
  num_visible = op->num_visible_outputs(attrs);
  mutated = Ask(attrs, of.mutated, Indices{});
  ignored = Ask(attrs, of.ignored, Indices{});
  std::vector<bool> identity = Ask(attrs, of.identity, std::vector<bool>{});
  const auto pairs = Ask(attrs, of.in_place, std::vector<std::pair<int, int>>{});
  identity.resize(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    in_place.push_back({static_cast<uint32_t>(pairs[i].first), static_cast<uint32_t>(pairs[i].second), identity[i]});
  }
  absl::c_stable_sort(in_place, [](const InPlace& a, const InPlace& b) { return a.output < b.output; });
  async = Ask(attrs, of.exec_type, ExecType::kSync) == ExecType::kAsync;
  const auto resources = Ask(attrs, of.resources, std::vector<ResourceRequest>{});
  random = absl::c_linear_search(resources, ResourceRequest::kRandom);
  const bool repeatable = !random || of.deterministic.Get(op, false);
  pure = repeatable && !async && of.mutated[op] == nullptr;
  sum = of.sum.Get(op, false);
  zeros = of.zeros.Get(op, false);
  begins_gradient = Ask(attrs, of.begins_gradient, false);
  infer_shape = of.infer_shape[op];
  infer_type = of.infer_type[op];
  gradient = of.gradient[op];
  cpu_kernel = op->kernel(DeviceType::kCpu);
  gpu_kernel = op->kernel(DeviceType::kGpu);
  cpu_prepare = of.cpu_prepare[op];
}

void FindFacts(NodeAttrs* attrs) {
  static std::atomic<uint64_t> calls = 0;
  attrs->call = 1 + calls.fetch_add(1, std::memory_order_relaxed);
  attrs->facts = attrs->op->Share(OpFacts(*attrs));
}

absl::Status RunKernel(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                       absl::Span<const TBlob> out) {
  return (*attrs.facts->kernel(ctx.device.type))(attrs, ctx, in, req, out);
}

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const FInferShape* rule = attrs.facts->infer_shape;
  return rule == nullptr ? false : (*rule)(attrs, in, out);
}

absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const FInferType* rule = attrs.facts->infer_type;
  return rule == nullptr ? SameType(attrs, in, out) : (*rule)(attrs, in, out);
}

absl::flat_hash_set<std::string> MutatedVariables(absl::Span<const NodePtr> nodes) {
  absl::flat_hash_set<std::string> mutated;
  for (const NodePtr& node : nodes) {
    for (const uint32_t i : node->facts().mutated) {
      if (i < node->num_inputs() && node->inputs[i].node->is_variable()) mutated.insert(node->inputs[i].node->name());
    }
  }
  return mutated;
}

}  // namespace gluond
