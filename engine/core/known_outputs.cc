#include "engine/core/known_outputs.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/core/elementwise.h"
#include "engine/core/op_facts.h"

namespace gluond {
namespace {

// Filled before main, read after it.
absl::flat_hash_map<ShapeRule, OutputShape>& Declared() {
  static auto& declared = *new absl::flat_hash_map<ShapeRule, OutputShape>;
  return declared;
}

// ElemwiseShape<n, 1> is SameShape by the name that says how many inputs there are.
template <int... n>
ShapeRule DeclareSameShape(std::integer_sequence<int, n...>) {
  (DeclareOutputShape(ElemwiseShape<n, 1>, OutputShape::kFirst), ...);
  return DeclareOutputShape(SameShape, OutputShape::kFirst);
}
[[maybe_unused]] const ShapeRule same_shape = DeclareSameShape(std::make_integer_sequence<int, 9>());

}  // namespace

ShapeRule DeclareOutputShape(ShapeRule rule, OutputShape shape) {
  Declared()[rule] = shape;
  return rule;
}

OutputShape OutputShapeOf(const NodeAttrs& attrs) {
  const FInferShape* infer = attrs.facts->infer_shape;
  const ShapeRule* rule = infer == nullptr ? nullptr : infer->target<ShapeRule>();
  if (rule == nullptr || attrs.facts->num_visible != 1) return OutputShape::kInferred;
  const auto it = Declared().find(*rule);
  return it == Declared().end() ? OutputShape::kInferred : it->second;
}

DType OutputTypeOf(const NodeAttrs& attrs, uint32_t num_inputs, DType first) {
  TypeVector in(num_inputs, DType::kUnknown), out(attrs.facts->num_outputs, DType::kUnknown);
  if (!in.empty()) in[0] = first;
  if (!InferType(attrs, &in, &out).ok()) return DType::kUnknown;
  out.resize(attrs.facts->num_visible);
  for (const DType type : out)
    if (type != out[0]) return DType::kUnknown;
  return out.empty() ? DType::kUnknown : out[0];
}

}  // namespace gluond
