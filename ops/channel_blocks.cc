// Images into blocks of channels and out of them: what a prediction puts between its other calls (engine/passes/block_channels.h).

#include "ops/channel_blocks.h"

#include <type_traits>

#include "ops/kernel/channel_blocks.h"
#include "ops/kernel/strided.h"

namespace gluond::ops {
namespace {

struct ToBlockedParam : Param<ToBlockedParam> {
  int64_t block;
  static void Fields(Schema<ToBlockedParam>& s) {
    s.Field("block", &ToBlockedParam::block).Range(1, 1 << 10).Describe("Channels in a block.");
  }
};
struct FromBlockedParam : Param<FromBlockedParam> {
  static void Fields(Schema<FromBlockedParam>&) {}
};

absl::Status CheckFills(const Shape& x, int64_t block) {
  if (x[1] < 0 || x[1] % block == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected a multiple of ", block, " channels"));
}

absl::StatusOr<bool> ChannelBlocksToShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const int64_t block = attrs.param<ToBlockedParam>().block;
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  RETURN_IF_ERROR(CheckFills((*in)[0], block));
  SHAPE_ASSIGN_CHECK(out, 0, InBlocks((*in)[0], block));
  SHAPE_ASSIGN_CHECK(in, 0, Unblocked((*out)[0]));
  return AllKnown(*in);
}
absl::StatusOr<bool> FromShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(5));
  SHAPE_ASSIGN_CHECK(out, 0, Unblocked((*in)[0]));
  return AllKnown(*in);
}

// Images into blocks, or out of them.
template <bool into>
struct CopyBlocks {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &x = in[0], &y = out[0];
    const Shape& blocked = into ? y.shape : x.shape;
    if (req[0] == kNullOp || blocked.Size() == 0) return absl::OkStatus();
    if constexpr (std::is_same_v<D, cpu>) {
      if (x.dtype == DType::kFloat32 && blocked[4] % 8 == 0) {
        const BlockedSize size = {blocked.Size(0, 2), blocked[4], blocked.Size(2, 4)};
        (into ? ToBlocked : FromBlocked)(ctx, size, x.dptr<float>(), req[0] == kAddTo, y.dptr<float>());
        return absl::OkStatus();
      }
    }
    StridedCopy copy{.dims = blocked};
    Strides plain;
    DenseStrides(Unblocked(blocked), plain);
    DenseStrides(blocked, into ? copy.y_strides : copy.x_strides);
    int64_t* const strides = into ? copy.x_strides : copy.y_strides;
    strides[0] = plain[0];
    strides[1] = plain[1] * blocked[4];
    strides[2] = plain[2];
    strides[3] = plain[3];
    strides[4] = plain[1];
    return CopyStrided<D>(ctx, copy, x, req[0], y);
  }
};

GLUOND_REGISTER_OP(_to_blocked)
    .describe("Images (batch, channels, height, width) as (batch, channels / block, height, width, block).")
    .add_argument("data", "NDArray", "The images. Blocks divide their channels.")
    .params<ToBlockedParam>()
    .infer(ChannelBlocksToShape, SameType)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .compute<CopyBlocks<true>>();

GLUOND_REGISTER_OP(_from_blocked)
    .describe("Images (batch, blocks, height, width, block) as (batch, channels, height, width).")
    .add_argument("data", "NDArray", "The images in blocks of channels.")
    .params<FromBlockedParam>()
    .infer(FromShape, SameType)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .compute<CopyBlocks<false>>();

}  // namespace
}  // namespace gluond::ops
