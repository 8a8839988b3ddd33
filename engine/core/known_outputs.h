// The types of a call's outputs, as far as an operator's own rules tell them before the shapes of its inputs are known.
// Clients know most of their results' types by that, and need not ask for each.

#ifndef ENGINE_CORE_KNOWN_OUTPUTS_H_
#define ENGINE_CORE_KNOWN_OUTPUTS_H_

#include "absl/status/statusor.h"
#include "engine/core/op_attr_types.h"

namespace gluond {

enum class OutputShape {
  kInferred,   // By FInferShape alone.
  kFirst,      // The first input's.
  kBroadcast,  // Two inputs broadcast to it.
};

// A rule for FInferShape, which many operators may share.
using ShapeRule = absl::StatusOr<bool> (*)(const NodeAttrs&, ShapeVector*, ShapeVector*);

// Makes known that output 0 of every operator with this rule has such a shape, and returns the rule. For registrations.
ShapeRule DeclareOutputShape(ShapeRule rule, OutputShape shape);

// The shape of the call's only visible output. kInferred where there are others. Requires: attrs.facts is set.
OutputShape OutputShapeOf(const NodeAttrs& attrs);

// The type of all visible outputs of the call where its first input has the type `first`, by FInferType. kUnknown: it
// depends on other inputs, the outputs' types differ, or the call is refused. Requires: attrs.facts is set.
DType OutputTypeOf(const NodeAttrs& attrs, uint32_t num_inputs, DType first);

}  // namespace gluond

#endif  // ENGINE_CORE_KNOWN_OUTPUTS_H_
