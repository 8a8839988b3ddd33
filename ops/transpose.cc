// transpose and SwapAxis: the same elements with the axes in another order.

#include <algorithm>

#include "ops/kernel/copy.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct TransposeParam : Param<TransposeParam> {
  std::vector<int64_t> axes;
  static void Fields(Schema<TransposeParam>& s) {
    s.Field("axes", &TransposeParam::axes)
        .Default(std::vector<int64_t>())
        .Describe("Output axis i is input axis axes[i]; (): the reverse order.");
  }
};

struct SwapAxisParam : Param<SwapAxisParam> {
  int dim1, dim2;
  static void Fields(Schema<SwapAxisParam>& s) {
    s.Field("dim1", &SwapAxisParam::dim1).Default(0).Describe("The one axis.");
    s.Field("dim2", &SwapAxisParam::dim2).Default(0).Describe("The other axis.");
  }
};

using Order = std::vector<int>;  // Output axis i is input axis order[i].

absl::StatusOr<Order> OrderOf(const TransposeParam& p, int ndim) {
  Order order;
  if (p.axes.empty()) {
    for (int axis = ndim; axis-- > 0;) order.push_back(axis);
    return order;
  }
  if (static_cast<int>(p.axes.size()) != ndim) {
    return absl::InvalidArgumentError(
        absl::StrCat("axes ", param_internal::FormatValue(p.axes), " has ", p.axes.size(), " entries; input 0 has rank ", ndim));
  }
  for (int64_t listed : p.axes) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(listed, ndim));
    if (std::find(order.begin(), order.end(), axis) != order.end()) {
      return absl::InvalidArgumentError(absl::StrCat("axes ", param_internal::FormatValue(p.axes), " repeats ", listed));
    }
    order.push_back(axis);
  }
  return order;
}

absl::StatusOr<Order> OrderOf(const SwapAxisParam& p, int ndim) {
  ASSIGN_OR_RETURN(const int a, NormalizeAxis(p.dim1, ndim));
  ASSIGN_OR_RETURN(const int b, NormalizeAxis(p.dim2, ndim));
  Order order;
  for (int axis = 0; axis < ndim; ++axis) order.push_back(axis == a ? b : axis == b ? a : axis);
  return order;
}

template <class P>
absl::StatusOr<bool> PermutedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const int ndim = std::max((*in)[0].ndim(), (*out)[0].ndim());
  if (ndim < 0) return false;
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(ndim));
  SHAPE_ASSIGN_CHECK(out, 0, Shape::OfRank(ndim));
  ASSIGN_OR_RETURN(const Order order, OrderOf(attrs.param<P>(), ndim));
  Shape x = (*in)[0], y = (*out)[0];
  for (int axis = 0; axis < ndim; ++axis) y[axis] = (*in)[0][order[axis]];
  SHAPE_ASSIGN_CHECK(out, 0, y);
  for (int axis = 0; axis < ndim; ++axis) x[order[axis]] = (*out)[0][axis];
  SHAPE_ASSIGN_CHECK(in, 0, x);
  return AllKnown(*in);
}

template <class P>
struct Permute {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const Order order, OrderOf(attrs.param<P>(), x[0].shape.ndim()));
    StridedCopy copy{.dims = y[0].shape};
    Strides strides;
    DenseStrides(x[0].shape, strides);
    for (size_t axis = 0; axis < order.size(); ++axis) copy.x_strides[axis] = strides[order[axis]];
    DenseStrides(y[0].shape, copy.y_strides);
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

Gradients TransposeGradient(const NodePtr& node, const Gradients& dy) {
  const std::vector<int64_t>& axes = node->param<TransposeParam>().axes;
  const int64_t ndim = static_cast<int64_t>(axes.size());
  std::vector<int64_t> inverse(axes.size());
  for (int64_t i = 0; i < ndim; ++i) {
    // Axes that are out of range are refused by inference.
    const int64_t axis = axes[i] < 0 ? axes[i] + ndim : axes[i];
    if (axis >= 0 && axis < ndim) inverse[axis] = i;
  }
  return {Call("transpose", {dy[0]}, {{"axes", param_internal::FormatValue(inverse)}})};
}

GLUOND_REGISTER_OP(transpose)
    .describe("The axes in another order.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<TransposeParam>()
    .infer(PermutedShape<TransposeParam>, ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient", TransposeGradient)
    .compute<Permute<TransposeParam>>();

GLUOND_REGISTER_OP(SwapAxis)
    .describe("Exchanges two axes.")
    .add_alias("swapaxes")
    .add_argument("data", "NDArray", "Any shape.")
    .params<SwapAxisParam>()
    .infer(PermutedShape<SwapAxisParam>, ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"SwapAxis"})
    .compute<Permute<SwapAxisParam>>();

}  // namespace
}  // namespace gluond::ops
