#include "engine/core/op_facts.h"

#include "engine/core/elementwise.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

// The operator's function `key` answers for the call; `otherwise` stands for a function that it does not have.
template <class F, class T>
T Ask(const NodeAttrs& attrs, absl::string_view key, T otherwise) {
  const F* f = attrs.op->GetAttr<F>(key);
  return f == nullptr ? std::move(otherwise) : (*f)(attrs);
}

}  // namespace

OpFacts::OpFacts(const NodeAttrs& attrs) {
  const Op& op = *attrs.op;
  using Indices = std::vector<uint32_t>;
  num_outputs = op.num_outputs(attrs);
  num_visible = op.num_visible_outputs(attrs);
  mutated = Ask<FMutateInputs>(attrs, "FMutateInputs", Indices{});
  ignored = Ask<FIgnoreInputs>(attrs, "FIgnoreInputs", Indices{});
  std::vector<bool> identity = Ask<FInplaceIdentity>(attrs, "FInplaceIdentity", std::vector<bool>{});
  const auto pairs = Ask<FInplaceOption>(attrs, "FInplaceOption", std::vector<std::pair<int, int>>{});
  identity.resize(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    in_place.push_back({static_cast<uint32_t>(pairs[i].first), static_cast<uint32_t>(pairs[i].second), identity[i]});
  }
  absl::c_stable_sort(in_place, [](const InPlace& a, const InPlace& b) { return a.output < b.output; });
  async = Ask<FExecType>(attrs, "FExecType", ExecType::kSync) == ExecType::kAsync;
  const auto resources = Ask<FResourceRequest>(attrs, "FResourceRequest", std::vector<ResourceRequest>{});
  random = absl::c_linear_search(resources, ResourceRequest::kRandom);
  const bool repeatable = !random || op.GetAttr<THasDeterministicOutput>("THasDeterministicOutput", false);
  pure = repeatable && !async && !op.HasAttr("FMutateInputs");
  sum = op.GetAttr<TIsSum>("TIsSum", false);
  zeros = op.GetAttr<TIsZeros>("TIsZeros", false);
  begins_gradient = Ask<FBeginsGradient>(attrs, "FBeginsGradient", false);
  infer_shape = op.GetAttr<FInferShape>("FInferShape");
  infer_type = op.GetAttr<FInferType>("FInferType");
  gradient = op.GetAttr<FGradient>("FGradient");
  cpu_kernel = op.kernel(DeviceType::kCpu);
  gpu_kernel = op.kernel(DeviceType::kGpu);
  cpu_prepare = op.GetAttr<FPrepare>("FPrepare<cpu>");
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
