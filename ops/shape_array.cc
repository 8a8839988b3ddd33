// shape_array and size_array: the shape, and the number of elements, of a tensor, as a tensor.

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct SetSize {
  int64_t size[Shape::kMaxRank];
  Out<int64_t> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, size[i]); }
};

template <bool each_axis>
struct Sizes {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    SetSize set{{}, Out<int64_t>(y[0], req[0])};
    if (each_axis) {
      std::copy(x[0].shape.begin(), x[0].shape.end(), set.size);
    } else {
      set.size[0] = x[0].shape.Size();
    }
    return ForEach<D>(ctx, y[0].Size(), set);
  }
};

template <bool each_axis>
absl::StatusOr<bool> SizesShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  if (each_axis && !(*in)[0].rank_known()) return false;
  SHAPE_ASSIGN_CHECK(out, 0, Shape({each_axis ? (*in)[0].ndim() : 1}));
  return AllKnown(*in);
}

#define SIZES(name, each_axis, text)                          \
  GLUOND_REGISTER_OP(name)                                    \
      .describe(text)                                         \
      .add_argument("data", "NDArray", "Any shape.")          \
      .infer(SizesShape<each_axis>, FixedType<DType::kInt64>) \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)    \
      .set_attr<FGradient>("FGradient", NoGradient)           \
      .compute<Sizes<each_axis>>()

SIZES(shape_array, true, "The size of each axis, as int64.");
SIZES(size_array, false, "The number of elements, as int64.");

}  // namespace
}  // namespace gluond::ops
