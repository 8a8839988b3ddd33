// depth_to_space and space_to_depth: between channels and blocks of pixels, each other's inverse and gradient.

#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct BlockParam : Param<BlockParam> {
  int64_t block_size;
  static void Fields(Schema<BlockParam>& s) {
    s.Field("block_size", &BlockParam::block_size).Range(1, int64_t{1} << 20).Describe("Height and width of a block.");
  }
};

// (n, b b c, h, w) to (n, c, h b, w b), or back.
template <bool to_space>
absl::StatusOr<bool> BlockShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  const int64_t b = attrs.param<BlockParam>().block_size;
  const bool fits = x.ndim() == 4 && (to_space ? x[1] % (b * b) == 0 : x[2] % b == 0 && x[3] % b == 0);
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 has shape ", x.ToString(), "; want (batch, channels, height, width), with ",
                     to_space ? "channels" : "height and width", " a multiple of ", to_space ? b * b : b));
  }
  Shape y = x;
  if (!to_space) RETURN_IF_ERROR(ElementsOf("the channels", {x[1], b, b}).status());
  if (to_space) {
    ASSIGN_OR_RETURN(y, Shape::FromDims({x[0], x[1] / (b * b), x[2] * b, x[3] * b}));
  } else {
    ASSIGN_OR_RETURN(y, Shape::FromDims({x[0], x[1] * b * b, x[2] / b, x[3] / b}));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

// With the axes (n, i, j, c, h, w) of the deep tensor, the wide one's are (n, c, h, i, w, j).
template <bool to_space>
struct MoveBlocks {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const int64_t b = attrs.param<BlockParam>().block_size;
    const Shape& wide = (to_space ? y : x)[0].shape;
    const int64_t n = wide[0], c = wide[1], h = wide[2] / b, w = wide[3] / b;
    const Shape deep_axes = {n, b, b, c, h, w}, wide_axes = {n, c, h, b, w, b};
    constexpr int kDeepOfWide[] = {0, 3, 4, 1, 5, 2}, kWideOfDeep[] = {0, 3, 5, 1, 2, 4};
    StridedCopy copy{.dims = to_space ? wide_axes : deep_axes};
    Strides strides;
    DenseStrides(to_space ? deep_axes : wide_axes, strides);
    for (int axis = 0; axis < 6; ++axis) {
      copy.x_strides[axis] = strides[to_space ? kDeepOfWide[axis] : kWideOfDeep[axis]];
    }
    DenseStrides(copy.dims, copy.y_strides);
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

#define BLOCKS(name, to_space, inverse, text)                               \
  GLUOND_REGISTER_OP(name)                                                  \
      .describe(text)                                                       \
      .add_argument("data", "NDArray", "(batch, channels, height, width).") \
      .params<BlockParam>()                                                 \
      .infer(BlockShape<to_space>, ElemwiseType<1, 1>)                      \
      .set_attr<FGradient>("FGradient", FirstGradient<>{#inverse})          \
      .compute<MoveBlocks<to_space>>()

BLOCKS(depth_to_space, true, space_to_depth, "Each block_size^2 channels become blocks of pixels.");
BLOCKS(space_to_depth, false, depth_to_space, "The pixels of each block become channels.");

}  // namespace
}  // namespace gluond::ops
