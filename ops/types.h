// Facts that several operators share: type rules, and requests for resources.

#ifndef OPS_TYPES_H_
#define OPS_TYPES_H_

#include "engine/core/elementwise.h"

namespace gluond::ops {

// OK for floating-point types, and while the type is not known. `what` is for the message: "input 0 'data'".
inline absl::Status CheckFloat(absl::string_view what, DType type) {
  if (type == DType::kUnknown || IsFloating(type)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", Name(type), ", expected a floating-point type; insert a Cast"));
}

// FInferType: one floating-point type for all inputs and outputs.
inline absl::StatusOr<bool> SameFloatType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  ASSIGN_OR_RETURN(const bool known, SameType(attrs, in, out));
  if (!in->empty()) RETURN_IF_ERROR(CheckFloat("input 0", (*in)[0]));
  return known;
}

// FResourceRequest of kernels that use temporary space, and of those that draw random numbers.
inline std::vector<ResourceRequest> TempSpace(const NodeAttrs&) { return {ResourceRequest::kTempSpace}; }
inline std::vector<ResourceRequest> Random(const NodeAttrs&) { return {ResourceRequest::kRandom}; }

}  // namespace gluond::ops

#endif  // OPS_TYPES_H_
