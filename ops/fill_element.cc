// fill_element_0index and _onehot_encode, which MXNet keeps for old programs: a matrix with one element of each row
// set.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

// An index out of range sets nothing.
template <class C>
struct FillElementOfRow {
  int64_t columns;
  In<C> x, value;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / columns;
    y.Set(i, index[row] == i % columns ? value[row] : x[i]);
  }
};
template <class C>
struct OneHotElement {
  int64_t columns;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, index[i / columns] == i % columns ? C(1) : C(0)); }
};

struct FillElements {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    return DispatchCompute(y[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, y[0].Size(), FillElementOfRow<C>{y[0].shape[1], In<C>(x[0]), In<C>(x[1]),
                                                              In<int64_t>(x[2]), Out<C>(y[0], req[0])});
    });
  }
};
struct OneHot {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    return DispatchCompute(y[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, y[0].Size(), OneHotElement<C>{y[0].shape[1], In<int64_t>(x[0]), Out<C>(y[0], req[0])});
    });
  }
};

// One matrix in and out, and vectors with an element for each of its rows.
template <size_t matrix>
absl::StatusOr<bool> ByRows(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, matrix, Shape::OfRank(2));
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[matrix]);
  SHAPE_ASSIGN_CHECK(in, matrix, (*out)[0]);
  for (size_t i = 0; i < in->size(); ++i) {
    if (i != matrix) SHAPE_ASSIGN_CHECK(in, i, Shape({(*in)[matrix][0]}));
  }
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(fill_element_0index)
    .describe("lhs with element rhs[i] of row i replaced by mhs[i].")
    .set_num_inputs(3)
    .add_argument("lhs", "NDArray", "A matrix.")
    .add_argument("mhs", "NDArray", "The new element of each row.")
    .add_argument("rhs", "NDArray", "Its index; any type.")
    .set_attr<FInferShape>("FInferShape", ByRows<0>)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      TypeVector values = {(*in)[0], (*in)[1]};
      RETURN_IF_ERROR(SameType(attrs, &values, out).status());
      (*in)[0] = (*in)[1] = values[0];
      return AllKnown(*in);
    })
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      const NodeEntry& index = node->inputs[2];
      return {Call("fill_element_0index", {dy[0], Call("zeros_like", {node->inputs[1]}), index}),
              Call("pick", {dy[0], index}), {}};
    })
    .compute<FillElements>();

GLUOND_REGISTER_OP(_onehot_encode)
    .describe("Rows of the shape of rhs with 1 at index lhs[i], else 0.")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "The index in each row; any type.")
    .add_argument("rhs", "NDArray", "A matrix; only its shape and type are used.")
    .set_attr<FInferShape>("FInferShape", ByRows<1>)
    .set_attr<FInferType>("FInferType", [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      TYPE_ASSIGN_CHECK(out, 0, (*in)[1]);
      TYPE_ASSIGN_CHECK(in, 1, (*out)[0]);
      return AllKnown(*in);
    })
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<OneHot>();

}  // namespace
}  // namespace gluond::ops
