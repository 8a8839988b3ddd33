// where: elements of x or of y, by a condition of their shape, or of one element for each row.

#include "ops/elements.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

absl::StatusOr<bool> WhereShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ShapeVector values = {(*in)[1], (*in)[2]};
  RETURN_IF_ERROR(SameShape(attrs, &values, out).status());
  (*in)[1] = (*in)[2] = values[0];
  const Shape &condition = (*in)[0], &x = (*in)[1];
  if (!x.rank_known() || !condition.rank_known()) return false;
  if (condition.ndim() == 1 && x.ndim() != 1) {
    if (x.ndim() == 0) return absl::InvalidArgumentError("input 0 has rank 1, and input 1 rank 0; want one shape");
    SHAPE_ASSIGN_CHECK(in, 0, Shape({x[0]}));
  } else {
    SHAPE_ASSIGN_CHECK(in, 0, x);
  }
  return AllKnown(*in);
}

template <class C>
struct WhereElement {
  int64_t row;  // The number of elements for each element of the condition.
  In<double> condition;
  In<C> x, y;
  Out<C> z;
  HOST_DEVICE void operator()(int64_t i) const { z.Set(i, condition[row == 1 ? i : i / row] != 0 ? x[i] : y[i]); }
};

struct Where {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs z) {
    if (req[0] == kNullOp || z[0].Size() == 0) return absl::OkStatus();
    const int64_t row = z[0].Size() / x[0].Size();
    return ForEachElement<D>(ctx, req[0], z[0], [&]<class C>(Out<C> out) {
      return WhereElement<C>{row, In<double>(x[0]), In<C>(x[1]), In<C>(x[2]), out};
    });
  }
};

GLUOND_REGISTER_OP(where)
    .describe("x where the condition is not 0, else y.")
    .set_num_inputs(3)
    .add_argument("condition", "NDArray", "The shape of x, or as many elements as x has rows; any type.")
    .add_argument("x", "NDArray", "Any shape.")
    .add_argument("y", "NDArray", "The shape of x.")
    .infer(WhereShape, TypeOfTwo<1, 2>)
    .set_attr<FInplaceOption>("FInplaceOption",
                              [](const NodeAttrs&) {
                                return std::vector<std::pair<int, int>>{{1, 0}, {2, 0}};
                              })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dz) -> Gradients {
                           const NodeEntry &condition = node->inputs[0], zeros = Call("zeros_like", {dz[0]});
                           return {{}, Call("where", {condition, dz[0], zeros}), Call("where", {condition, zeros, dz[0]})};
                         })
    .compute<Where>();

}  // namespace
}  // namespace gluond::ops
