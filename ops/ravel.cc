// _ravel_multi_index and _unravel_index convert between the indices of elements along each axis and their places in a
// row-major tensor of a given shape. Nothing checks that they are inside it; the size of the first axis is not used.

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct RavelParam : Param<RavelParam> {
  std::vector<int64_t> shape;
  static void Fields(Schema<RavelParam>& s) {
    s.Field("shape", &RavelParam::shape)
        .Describe("The shape of the tensor that is indexed; -1: any first size.")
        .Check(
            [](const std::vector<int64_t>& dims) {
              bool positive = !dims.empty() && Shape::FromDims(dims).ok();
              for (size_t axis = 1; axis < dims.size(); ++axis) positive = positive && dims[axis] > 0;
              return positive;
            },
            "want 1 to 8 sizes, each above 0 but the first");
  }
};

struct Index {
  int axes;
  int64_t n;
  int64_t dim[Shape::kMaxRank];
  In<int64_t> x;
  Out<int64_t> y;

  Index(const NodeAttrs& attrs, const TBlob& from, OpReqType req, const TBlob& to, int64_t count) : n(count), x(from), y(to, req) {
    const std::vector<int64_t>& shape = attrs.param<RavelParam>().shape;
    axes = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), dim);
  }
};
struct RavelElement : Index {
  using Index::Index;
  HOST_DEVICE void operator()(int64_t i) const {
    int64_t at = 0;
    for (int axis = 0; axis < axes; ++axis) at = at * (axis == 0 ? 1 : dim[axis]) + x[axis * n + i];
    y.Set(i, at);
  }
};
struct UnravelElement : Index {
  using Index::Index;
  HOST_DEVICE void operator()(int64_t i) const {
    int64_t rest = x[i];
    for (int axis = axes - 1; axis > 0; --axis) {
      y.Set(axis * n + i, rest % dim[axis]);
      rest /= dim[axis];
    }
    y.Set(i, rest);
  }
};

template <class Element, bool unravel>
struct Indices {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const int64_t n = (unravel ? x : y)[0].Size();
    return ForEach<D>(ctx, n, Element(attrs, x[0], req[0], y[0], n));
  }
};

absl::StatusOr<bool> RavelShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  const int64_t axes = static_cast<int64_t>(attrs.param<RavelParam>().shape.size());
  if (x.ndim() < 1 || (x[0] != axes && x[0] != Shape::kUnknown)) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 has shape ", x.ToString(), "; want ", axes, " rows, one for each axis of parameter 'shape'"));
  }
  SHAPE_ASSIGN_CHECK(out, 0, Shape(x.begin() + 1, x.end()));
  return AllKnown(*in);
}
absl::StatusOr<bool> UnravelShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  std::vector<int64_t> dims = {static_cast<int64_t>(attrs.param<RavelParam>().shape.size())};
  dims.insert(dims.end(), x.begin(), x.end());
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in);
}

#define INDICES(name, Element, unravel, shape, text, data) \
  GLUOND_REGISTER_OP(name)                                 \
      .describe(text)                                      \
      .add_argument("data", "NDArray", data)               \
      .params<RavelParam>()                                \
      .infer(shape, ElemwiseType<1, 1>)                    \
      .set_attr<FGradient>("FGradient", NoGradient)        \
      .compute<Indices<Element, unravel>>()

INDICES(_ravel_multi_index, RavelElement, false, RavelShape, "The places of elements, by their indices along each axis.",
        "One row of indices for each axis.")
    .add_alias("ravel_multi_index");
INDICES(_unravel_index, UnravelElement, true, UnravelShape, "The indices of elements along each axis, by their places.",
        "Any shape; the result has one such row for each axis.")
    .add_alias("unravel_index");

}  // namespace
}  // namespace gluond::ops
