// Type rules of operators that are indexed by another tensor, which may be of any type.

#ifndef OPS_INDEXED_TYPE_H_
#define OPS_INDEXED_TYPE_H_

#include "engine/core/elementwise.h"

namespace gluond::ops {

// FInferType of y = f(x, index).
inline absl::StatusOr<bool> IndexedType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  return AllKnown(*in);
}

// FInferType of dx = f(dy, index, x).
inline absl::StatusOr<bool> IndexedGradientType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TypeVector values = {(*in)[0], (*in)[2]};
  RETURN_IF_ERROR(SameType(attrs, &values, out).status());
  (*in)[0] = (*in)[2] = values[0];
  return AllKnown(*in);
}

}  // namespace gluond::ops

#endif  // OPS_INDEXED_TYPE_H_
