// Convolution over one to three spatial axes, with groups and dilation: layout (batch, channels, width), (batch,
// channels, height, width) or (batch, channels, depth, height, width). Its gradient
// is linear in each input, so that Convolution and the gradient itself differentiate it.

#include "ops/affine.h"
#include "ops/bilinear.h"
#include "ops/channel_blocks.h"
#include "ops/kernel/fill.h"
#include "ops/operator.h"
#include "ops/window.h"

namespace gluond::ops {
namespace {

template <class P>
void ConvolutionFields(Schema<P>& s) {
  WindowFields(s, "Steps of the window. Default: 1 for each axis.", "Zeros on both sides of each axis. Default: 0.");
  FilterFields(s, "Parts that the channels are split into; each output channel sees one.", /*workspace=*/1024,
               /*no_bias=*/false);
}

struct ConvolutionParam : Param<ConvolutionParam>, WindowParam {
  static void Fields(Schema<ConvolutionParam>& s) { ConvolutionFields(s); }
};

// The same on images in blocks of channels, or of few channels as they are, to images in blocks.
struct BlockedConvolutionParam : Param<BlockedConvolutionParam>, WindowParam {
  int64_t block;

  static void Fields(Schema<BlockedConvolutionParam>& s) {
    ConvolutionFields(s);
    s.Field("block", &BlockedConvolutionParam::block).Enum({{"8", 8}, {"16", 16}}).Describe("Channels in a block.");
  }
};

template <class P>
absl::StatusOr<bool> ConvolutionShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& param = attrs.param<P>();
  const int axes = static_cast<int>(param.kernel.size());
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(axes + 2));
  if (!param.no_bias) SHAPE_ASSIGN_CHECK(in, 2, Shape({param.num_filter}));
  const Shape x = (*in)[0];

  Shape w = {param.num_filter, Shape::kUnknown};
  RETURN_IF_ERROR(CheckChannels(x, param.num_group));
  if (x[1] >= 0) w[1] = x[1] / param.num_group;
  Shape y = {x[0], param.num_filter};
  for (int axis = 0; axis < axes; ++axis) {
    w.Append(param.kernel[axis]);
    y.Append(Shape::kUnknown);
    const int64_t size = x[2 + axis];
    if (size < 0) continue;
    const int64_t window = (param.kernel[axis] - 1) * param.dilate[axis] + 1;
    const int64_t padded = size + 2 * param.pad[axis];
    if (window > padded || size == 0) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", size, " elements along axis ", 2 + axis, ", ", padded,
                                                     " with padding; expected at least the window's ", window));
    }
    y[2 + axis] = (padded - window) / param.stride[axis] + 1;
  }
  SHAPE_ASSIGN_CHECK(in, 1, w);
  SHAPE_ASSIGN_CHECK(out, 0, y);
  Shape from_others = Shape::OfRank(axes + 2);
  from_others[0] = (*out)[0][0];
  if ((*in)[1][1] >= 0) from_others[1] = (*in)[1][1] * param.num_group;
  SHAPE_ASSIGN_CHECK(in, 0, from_others);
  return AllKnown(*in) && AllKnown(*out);
}

struct Convolution {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<ConvolutionParam>();
    const TBlob &x = in[0], &y = out[0];
    if (y.Size() == 0) return absl::OkStatus();
    return VolumeForward<D>(ctx, VolumeOf(p, p.pad, x.shape, y.shape), x, in[1], in.size() < 3 ? nullptr : &in[2], {y, req[0]});
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<ConvolutionParam>();
    if (out[0].Size() == 0 || req[0] == kNullOp) return absl::OkStatus();
    return PrepareConvForward(ctx, out[0].dtype, VolumeOf(p, p.pad, in[0].shape, out[0].shape), in.size() > 2);
  }
};

// Groups are of all channels or of one: else a block would be of several.
bool HasBlocks(const WindowParam& p, int64_t channels) {
  return p.kernel.size() == 2 && (p.num_group == 1 || (p.num_group == channels && p.num_group == p.num_filter));
}

absl::Status ParseBlocked(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParseWindow<BlockedConvolutionParam>(attrs));
  const auto& p = attrs->param<BlockedConvolutionParam>();
  if (p.kernel.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'kernel' has ", p.kernel.size(), " elements, expected 2"));
  }
  if (p.num_filter % p.block == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameter 'num_filter' is ", p.num_filter, ", expected a multiple of block, ", p.block));
}

absl::StatusOr<bool> ConvolutionBlockedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<BlockedConvolutionParam>();
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  const bool is_blocked = x.ndim() == 5;
  if (x.ndim() < 4 || x.ndim() > 5 || (is_blocked && x[4] != p.block)) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has shape ", x.ToString(),
                                                   ", expected (batch, channels / block, height, width, block) with blocks of ",
                                                   p.block, ", or (batch, channels, height, width)"));
  }
  ShapeVector plain = *in, y(1);
  plain[0] = is_blocked ? Unblocked(x) : x;
  if (plain[0][1] >= 0 && !HasBlocks(p, plain[0][1])) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'num_group' is ", p.num_group, " for ", plain[0][1], " channels and ",
                                                   p.num_filter, " filters, expected 1, or as many as there are of both"));
  }
  RETURN_IF_ERROR(ConvolutionShape<BlockedConvolutionParam>(attrs, &plain, &y).status());
  for (size_t i = 1; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, plain[i]);
  SHAPE_ASSIGN_CHECK(out, 0, InBlocks(y[0], p.block));
  return AllKnown(*in) && AllKnown(*out);
}

ConvSize BlockedSizeOf(const BlockedConvolutionParam& p, const Shape& x, const Shape& y) {
  const bool is_blocked = x.ndim() == 5;
  ConvSize size = VolumeOf(p, p.pad, is_blocked ? Unblocked(x) : x, Unblocked(y));
  if (is_blocked) size.x_block = p.block;
  size.y_block = p.block;
  return size;
}

// On a CPU only: a GPU's convolutions have no such blocks.
absl::Status ConvolveBlocked(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
  if (out[0].Size() == 0) return absl::OkStatus();
  const ConvSize size = BlockedSizeOf(attrs.param<BlockedConvolutionParam>(), in[0].shape, out[0].shape);
  return VolumeForward<cpu>(ctx, size, in[0], in[1], in.size() < 3 ? nullptr : &in[2], {out[0], req[0]});
}
absl::Status PrepareBlocked(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
  if (out[0].Size() == 0 || req[0] == kNullOp) return absl::OkStatus();
  const ConvSize size = BlockedSizeOf(attrs.param<BlockedConvolutionParam>(), in[0].shape, out[0].shape);
  return PrepareConvForward(ctx, out[0].dtype, size, in.size() > 2);
}

BlockedCall ChannelBlocks(const Node& node, absl::Span<const Shape> shapes, int64_t block) {
  constexpr int64_t kFewChannels = 4;  // The colours of an image.
  const auto& p = node.param<ConvolutionParam>();
  const int64_t channels = shapes[0][1];
  if (block == 0) block = ConvBlock();
  if (!HasBlocks(p, channels) || p.num_filter % block != 0) return {};
  if (channels % block != 0 && channels > kFewChannels) return {};
  AttrDict dict = node.attrs.dict;
  dict["block"] = absl::StrCat(block);
  return {"_blocked_Convolution", std::move(dict), block, channels % block == 0 ? 1u : 0u, /*gains=*/true};
}

struct BackwardConvolution {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &dy = in[0], &x = in[1], &w = in[2];
    if (dy.Size() == 0) {  // The batch is empty.
      for (size_t i = 0; i < out.size(); ++i) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[i], out[i]));
      return absl::OkStatus();
    }
    const auto& p = attrs.param<ConvolutionParam>();
    const auto to = [&](size_t i) { return i < out.size() ? Target{out[i], req[i]} : Target(); };
    return VolumeBackward<D>(ctx, VolumeOf(p, p.pad, x.shape, dy.shape), dy, x, w, to(0), to(1), to(2));
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    const TBlob &dy = in[0], &x = in[1];
    if (dy.Size() == 0) return absl::OkStatus();
    const auto& p = attrs.param<ConvolutionParam>();
    const auto wants = [&](size_t i) { return i < req.size() && req[i] != kNullOp; };
    return PrepareConvBackward(ctx, dy.dtype, VolumeOf(p, p.pad, x.shape, dy.shape), wants(0), wants(1), wants(2));
  }
};

NodePtr ConvolutionAbsorb(const Node& node, const Affine& affine, int rank, DType dtype) {
  return affine.axis == 1 ? WithAffine<ConvolutionParam>(node, affine, rank, dtype) : nullptr;
}

GLUOND_REGISTER_OP(Convolution)
    .describe(
        "y[n,o] = bias[o] + sum over the input channels of o's group of x convolved with the weight "
        "(not flipped). Output size along an axis: floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1.")
    .add_argument("data", "NDArray", "x: (batch, channels, width), with height before the width, or depth and height.")
    .add_argument("weight", "NDArray", "(num_filter, channels / num_group, kernel...).")
    .add_argument("bias", "NDArray", "(num_filter). Absent with no_bias.")
    .params<ConvolutionParam>(ParseWindow<ConvolutionParam>)
    .with(Bilinear<ConvolutionParam>)
    .set_attr<FAbsorbAffine>("FAbsorbAffine", ConvolutionAbsorb)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .set_attr<FChannelBlocks>("FChannelBlocks", ChannelBlocks)
    .infer(ConvolutionShape<ConvolutionParam>, SameFloatType)
    .compute<Convolution>();

GLUOND_REGISTER_OP(_blocked_Convolution)
    .describe("Convolution of images in blocks of channels, as _to_blocked makes them: what a prediction on a CPU computes.")
    .add_argument("data", "NDArray", "float32, (batch, channels / block, height, width, block); few channels as they are.")
    .add_argument("weight", "NDArray", "As Convolution's.")
    .add_argument("bias", "NDArray", "As Convolution's.")
    .params<BlockedConvolutionParam>(ParseBlocked)
    .set_num_inputs(NumBilinearInputs<BlockedConvolutionParam>)
    .set_attr<FListInputNames>("FListInputNames",
                               FirstNames({"data", "weight", "bias"}, NumBilinearInputs<BlockedConvolutionParam>))
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .infer(ConvolutionBlockedShape, SameFloat32)
    .set_attr<FPrepare>("FPrepare<cpu>", PrepareBlocked)
    .set_attr<FCompute>("FCompute<cpu>", ConvolveBlocked);

GLUOND_REGISTER_OP(_backward_Convolution)
    .describe("The gradients of Convolution's inputs.")
    .with(BackwardBilinear<ConvolutionParam, &ConvolutionParam::num_filter>("The weight."))
    .params<ConvolutionParam>(ParseWindow<ConvolutionParam>)
    .compute<BackwardConvolution>();

}  // namespace
}  // namespace gluond::ops
