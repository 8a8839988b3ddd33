// _backward_topk and its own gradient: elements of rows, moved by indices to where they came from, or taken from there.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/indexed_type.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/launch.h"
#include "ops/rows_along.h"

namespace gluond::ops {
namespace {

struct AlongParam : Param<AlongParam> {
  std::optional<int> axis;
  static void Fields(Schema<AlongParam>& s) {
    s.Field("axis", &AlongParam::axis).Default(-1).Describe("The axis; None: all elements, as one row.");
  }
};

// Between `whole` and `part`, element i of which belongs to element index[i] of its row in `whole`; `put` says which of
// them is written. The indices of a row differ, and are in range: they come from sorting.
template <class C, bool put>
struct MoveAlong {
  RowGeometry whole, part;
  In<int64_t> index;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / part.n, in_part = part.begin(row) + i % part.n * part.inner;
    const int64_t in_whole = whole.begin(row) + index[in_part] * whole.inner;
    y.Set(put ? in_whole : in_part, x[put ? in_part : in_whole]);
  }
};

// Inputs: x, the indices, and for put one of which only the shape is used.
template <bool put>
struct Along {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry whole, RowsAlong(attrs.param<AlongParam>().axis, (put ? y : x)[0].shape));
    const int64_t n = x[1].Size();
    if (put) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], y[0]));
    if (n == 0) return absl::OkStatus();
    const RowGeometry part = {whole.outer, n / whole.rows(), whole.inner};
    return DispatchCompute(y[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, n, MoveAlong<C, put>{whole, part, In<int64_t>(x[1]), In<C>(x[0]), Out<C>(y[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(_backward_topk)
    .describe("The gradient of sorted elements: dy where they came from, zeros elsewhere.")
    .set_num_inputs(3)
    .add_argument("dy", "NDArray", "dL/dy.")
    .add_argument("indices", "NDArray", "Where each element of a row came from.")
    .add_argument("like", "NDArray", "What was sorted; only its shape is used.")
    .add_arguments(AlongParam::__FIELDS__())
    .set_attr_parser(ParamParser<AlongParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      SHAPE_ASSIGN_CHECK(out, 0, (*in)[2]);
      SHAPE_ASSIGN_CHECK(in, 2, (*out)[0]);
      SHAPE_ASSIGN_CHECK(in, 0, (*in)[1]);
      return AllKnown(*in);
    })
    .set_attr<FInferType>("FInferType", IndexedGradientType)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<2>)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_backward_topk", {dy[0], node->inputs[1]}, node->attrs.dict), {}, {}};
    })
    .compute<Along<true>>();

GLUOND_REGISTER_OP(_backward_backward_topk)
    .describe("The gradient of _backward_topk's dy: the elements that the indices name, row by row.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("indices", "NDArray", "Where in its row each element of y is.")
    .add_arguments(AlongParam::__FIELDS__())
    .set_attr_parser(ParamParser<AlongParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
      return AllKnown(*in);
    })
    .set_attr<FInferType>("FInferType", IndexedType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_topk", {dy[0], node->inputs[1], node->inputs[0]}, node->attrs.dict), {}};
    })
    .compute<Along<false>>();

}  // namespace
}  // namespace gluond::ops
