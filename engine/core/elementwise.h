// NNVM's helpers for registering operators: shape and type rules that many share, and gradient makers.

#ifndef ENGINE_CORE_ELEMENTWISE_H_
#define ENGINE_CORE_ELEMENTWISE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/status_macros.h"

// Merges `shape`, as far as it is known, into (*shapes)[i], or returns INVALID_ARGUMENT that names the argument and
// both shapes. `shapes` is FInferShape's `in` or `out`.
#define SHAPE_ASSIGN_CHECK(shapes, i, shape) RETURN_IF_ERROR(::gluond::AssignShape(#shapes, shapes, i, shape))
#define TYPE_ASSIGN_CHECK(types, i, type) RETURN_IF_ERROR(::gluond::AssignType(#types, types, i, type))

namespace gluond {

absl::Status AssignShape(absl::string_view list, ShapeVector* shapes, size_t i, const Shape& shape);
absl::Status AssignType(absl::string_view list, TypeVector* types, size_t i, DType type);

bool AllKnown(const ShapeVector& shapes);
bool AllKnown(const TypeVector& types);

// Merges all inputs and outputs with each other: one shape, one type.
absl::StatusOr<bool> SameShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out);
absl::StatusOr<bool> SameType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out);

// NNVM's spelling. The numbers document the operator; they are checked at node creation.
template <int num_in, int num_out>
absl::StatusOr<bool> ElemwiseShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  return SameShape(attrs, in, out);
}
template <int num_in, int num_out>
absl::StatusOr<bool> ElemwiseType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  return SameType(attrs, in, out);
}

// Every output of the node that `first` is output 0 of.
Gradients OutputsOf(const NodeEntry& first);

// The outputs of a call of `op` on `inputs` with the attributes `dict`; the call is named "<node>_backward".
Gradients MakeGradNode(absl::string_view op, const NodePtr& node, std::vector<NodeEntry> inputs, AttrDict dict = {});

// Entry i of `node`.
inline NodeEntry Output(const NodePtr& node, uint32_t i = 0) { return {node, i}; }

// FGradient: one call of `op` on the head gradients and the forward inputs (UseIn), outputs (UseOut), both (UseInOut)
// or neither (UseNone), with the forward node's attributes.
template <bool use_in, bool use_out>
struct ElemwiseGradUse {
  const char* op;
  Gradients operator()(const NodePtr& node, const Gradients& out_grads) const;
};
using ElemwiseGradUseIn = ElemwiseGradUse<true, false>;
using ElemwiseGradUseOut = ElemwiseGradUse<false, true>;
using ElemwiseGradUseInOut = ElemwiseGradUse<true, true>;
using ElemwiseGradUseNone = ElemwiseGradUse<false, false>;

// FGradient of an operator through which no gradient flows (floor, comparisons, labels).
Gradients NoGradient(const NodePtr& node, const Gradients& out_grads);

// FInplaceOption: input 0 may become output 0; both inputs may.
std::vector<std::pair<int, int>> InplaceFirst(const NodeAttrs& attrs);
std::vector<std::pair<int, int>> InplaceEither(const NodeAttrs& attrs);

}  // namespace gluond

#endif  // ENGINE_CORE_ELEMENTWISE_H_
