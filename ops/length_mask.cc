// _length_mask: which elements of each row count. What gradients of operators with lengths are multiplied by.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/length.h"
#include "ops/kernel/rows.h"

namespace gluond::ops {
namespace {

struct LengthMaskParam : Param<LengthMaskParam> {
  int axis;
  static void Fields(Schema<LengthMaskParam>& s) {
    s.Field("axis", &LengthMaskParam::axis).Default(-1).Describe("The axis that the lengths are along.");
  }
};

template <class C>
struct MaskElement {
  RowGeometry rows;
  In<double> length;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / (rows.n * rows.inner) * rows.inner + i % rows.inner, at = i / rows.inner % rows.n;
    y.Set(i, at < ToLength(length[row], rows.n) ? C(1) : C(0));
  }
};

struct LengthMask {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<LengthMaskParam>().axis, out[0].shape.ndim()));
    return DispatchReal(out[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, out[0].Size(),
                        MaskElement<C>{RowsOf(out[0].shape, axis), In<double>(in[1]), Out<C>(out[0], req[0])});
    });
  }
};

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<LengthMaskParam>().axis, x.ndim()));
  Shape rows = Shape::Scalar();
  for (int i = 0; i < x.ndim(); ++i) if (i != axis) rows.Append(x[i]);
  SHAPE_ASSIGN_CHECK(in, 1, x.ndim() == 1 ? Shape({1}) : rows);  // As softmax takes them.
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(_length_mask)
    .describe("1 for the first `length` elements along an axis, else 0.")
    .add_argument("data", "NDArray", "For its shape and type only.")
    .add_argument("length", "NDArray", "The shape without the axis.")
    .add_arguments(LengthMaskParam::__FIELDS__())
    .set_attr_parser(ParamParser<LengthMaskParam>)
    .set_num_inputs(2)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
                            TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
                            return AllKnown(*in) && AllKnown(*out);
                          })
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<LengthMask>();

}  // namespace
}  // namespace gluond::ops
