// Rules that several operators share: of shapes, of types, and requests for resources.

#ifndef OPS_RULES_H_
#define OPS_RULES_H_

#include "engine/core/elementwise.h"
#include "engine/core/known_outputs.h"

namespace gluond::ops {

// Input 0 and output 0 have one shape, or one type.
inline absl::Status Alike(ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  return absl::OkStatus();
}
inline absl::Status Alike(TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  return absl::OkStatus();
}

template <ShapeRule rest>
absl::StatusOr<bool> InferLikeFirst(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  return rest(attrs, in, out);
}
// FInferShape: output 0 has the shape of input 0, and `rest` tells the other shapes, and which there may be.
template <ShapeRule rest>
ShapeRule LikeFirst() {
  return DeclareOutputShape(InferLikeFirst<rest>, OutputShape::kFirst);
}

// FInferShape: output 0 has the shape of input i, and nothing is known of the other inputs.
template <size_t i>
absl::StatusOr<bool> ShapeOfInput(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[i]);
  SHAPE_ASSIGN_CHECK(in, i, (*out)[0]);
  return AllKnown(*in);
}
// FInferType: the same of types.
template <size_t i>
absl::StatusOr<bool> TypeOfInput(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, (*in)[i]);
  TYPE_ASSIGN_CHECK(in, i, (*out)[0]);
  return AllKnown(*in);
}

// FInferShape of a gradient, whose inputs are known: outputs 0, 1, ... are like the inputs from `first` on.
template <size_t first>
absl::StatusOr<bool> ShapesOfInputs(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, (*in)[first + i]);
  return AllKnown(*in) && AllKnown(*out);
}
template <size_t first>
absl::StatusOr<bool> TypesOfInputs(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  for (size_t i = 0; i < out->size(); ++i) TYPE_ASSIGN_CHECK(out, i, (*in)[first + i]);
  return AllKnown(*in) && AllKnown(*out);
}

// FInferShape of dx = f(dy, ..., like): the last input is x, and dy has the shape of y by the forward operator's rule,
// whose other inputs lie between them.
template <ShapeRule forward>
absl::StatusOr<bool> GradientShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const size_t like = in->size() - 1;
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[like]);
  SHAPE_ASSIGN_CHECK(in, like, (*out)[0]);
  ShapeVector x = {(*in)[like]}, y = {(*in)[0]};
  x.insert(x.end(), in->begin() + 1, in->end() - 1);
  RETURN_IF_ERROR(forward(attrs, &x, &y).status());
  (*in)[0] = y[0];
  return AllKnown(*in);
}

// INVALID_ARGUMENT: input 0 has a known rank below `least`. `why` follows "or more".
inline absl::Status CheckRank(const Shape& data, int least, absl::string_view why = "") {
  if (!data.rank_known() || data.ndim() >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has shape ", data.ToString(), ", expected rank ", least, " or more", why));
}

// The product of sizes, which are 0 or more. INVALID_ARGUMENT: `what` would have more elements than a tensor may have. For
// every product that is not that of a shape which was checked.
inline absl::StatusOr<int64_t> ElementsOf(absl::string_view what, std::initializer_list<int64_t> sizes) {
  const absl::StatusOr<Shape> shape = Shape::FromDims(sizes);
  if (shape.ok()) return shape->Size();
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", shape.status().message()));
}

// OK for floating-point types, and while the type is not known. `what` is for the message: "input 0 'data'".
inline absl::Status CheckFloat(absl::string_view what, DType type) {
  if (type == DType::kUnknown || IsFloating(type)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", Name(type), ", expected a floating-point type; insert a Cast"));
}

// Floating-point types whose sums are wider than themselves.
inline bool HasSixteenBits(DType type) { return type == DType::kFloat16 || type == DType::kBfloat16; }

// FInferType: one floating-point type for all inputs and outputs.
inline absl::StatusOr<bool> SameFloatType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  ASSIGN_OR_RETURN(const bool known, SameType(attrs, in, out));
  if (!in->empty()) RETURN_IF_ERROR(CheckFloat("input 0", (*in)[0]));
  return known;
}

// FInferType of y = f(x, index, ...): the other inputs may have any type.
inline absl::StatusOr<bool> IndexedType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  return TypeOfInput<0>(attrs, in, out);
}

// FInferType of y = f(x, like), where `like` counts by its shape alone.
inline absl::StatusOr<bool> FirstType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  return (*in)[0] != DType::kUnknown;
}

// FInferType: y and the inputs a and b have one type; the others may have any.
template <size_t a, size_t b>
absl::StatusOr<bool> TypeOfTwo(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TypeVector values = {(*in)[a], (*in)[b]};
  RETURN_IF_ERROR(SameType(attrs, &values, out).status());
  (*in)[a] = (*in)[b] = values[0];
  return AllKnown(*in);
}

// FInferType of y = f(x, label), in floating point: a label may have any type; where nothing is said, it has x's.
inline absl::StatusOr<bool> LabelledType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  if ((*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
  return AllKnown(*in);
}

// FInferType: parameter `dtype` is the type of output 0. Where it is None, input 0's type is.
template <class P>
absl::StatusOr<bool> TypeOfParam(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const auto& dtype = attrs.param<P>().dtype;
  if constexpr (std::is_same_v<decltype(dtype), const DType&>) {
    TYPE_ASSIGN_CHECK(out, 0, dtype);
  } else {
    TYPE_ASSIGN_CHECK(out, 0, dtype.value_or((*in)[0]));
  }
  return AllKnown(*in);
}
template <DType type>
absl::StatusOr<bool> FixedType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, type);
  return AllKnown(*in);
}

// FResourceRequest of kernels that use temporary space, and of those that draw random numbers.
inline std::vector<ResourceRequest> TempSpace(const NodeAttrs&) { return {ResourceRequest::kTempSpace}; }
inline std::vector<ResourceRequest> Random(const NodeAttrs&) { return {ResourceRequest::kRandom}; }

}  // namespace gluond::ops

#endif  // OPS_RULES_H_
