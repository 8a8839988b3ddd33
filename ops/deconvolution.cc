// Deconvolution, or transposed convolution, over one to three spatial axes: it does to x what Convolution's gradient
// does to dy. Its own gradient is a convolution, linear in each input, so that Deconvolution and the gradient itself
// differentiate it.

#include "ops/bilinear.h"
#include "ops/kernel/fill.h"
#include "ops/operator.h"
#include "ops/window.h"

namespace gluond::ops {
namespace {

using Dims = std::vector<int64_t>;

struct DeconvolutionParam : Param<DeconvolutionParam>, WindowParam {
  Dims adj, target_shape;

  static void Fields(Schema<DeconvolutionParam>& s) {
    using P = DeconvolutionParam;
    WindowFields(s, "Steps of the window over the output. Default: 1 for each axis.",
                 "What is cut off on both sides of the output's axes. Default: 0.");
    s.Field("adj", &P::adj)
        .Default(Dims{})
        .Elements<int64_t>(0, kMaxSpatial)
        .Describe("Added to the output's size, at the end; less than the stride. Default: 0.");
    s.Field("target_shape", &P::target_shape)
        .Default(Dims{})
        .Elements<int64_t>(0, kMaxSpatial)
        .Describe("The output's size; pad and adj follow from it and are not read. Default: as they say.");
    FilterFields(s, "Parts that the channels are split into; each input channel reaches one.", /*workspace=*/512,
                 /*no_bias=*/true);
  }

  bool has_target() const {
    for (int64_t size : target_shape)
      if (size != 0) return true;
    return false;
  }
};

absl::Status ParseDeconvolution(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParseWindow<DeconvolutionParam>(attrs));
  auto& p = *std::any_cast<DeconvolutionParam>(&attrs->parsed);
  const size_t axes = p.kernel.size();
  RETURN_IF_ERROR(FillAxes("target_shape", axes, 0, &p.target_shape));
  RETURN_IF_ERROR(FillAxes("adj", axes, 0, &p.adj));
  for (size_t axis = 0; axis < axes && !p.has_target(); ++axis) {
    if (p.adj[axis] < p.stride[axis]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parameter 'adj' is ", p.adj[axis], " for axis ", axis, ", expected less than the stride's ", p.stride[axis]));
  }
  return absl::OkStatus();
}

// One axis of the output: its size, and how many elements are cut off on both sides.
struct OutputAxis {
  int64_t size, pad;
};
absl::StatusOr<OutputAxis> AxisOfOutput(const DeconvolutionParam& p, int axis, int64_t in) {
  constexpr int64_t kMaxInput = int64_t{1} << 40;  // Its product with a stride fits.
  if (in < 1 || in > kMaxInput) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has ", in, " elements along axis ", 2 + axis, ", expected 1 to ", kMaxInput));
  }
  const int64_t whole = (in - 1) * p.stride[axis] + p.dilate[axis] * (p.kernel[axis] - 1) + 1;
  OutputAxis out = {whole - 2 * p.pad[axis] + p.adj[axis], p.pad[axis]};
  if (p.has_target()) {
    const int64_t target = p.target_shape[axis], surplus = whole - target;
    out = {target, (surplus + 1) / 2};
    if (target < 1 || surplus < 0 || surplus % 2 >= p.stride[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter 'target_shape' is ", target, " for axis ", axis, "; ", in, " elements become ", whole,
                       ", of which equal parts can be cut off on both sides, or with a stride one more at the end"));
    }
  }
  if (out.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", in, " elements along axis ", 2 + axis, ", which become ",
                                                   out.size, ", expected one or more"));
  }
  return out;
}

// The padding, which target_shape may decide. Requires: the shapes were inferred.
Dims PadOf(const DeconvolutionParam& p, const Shape& x) {
  Dims pad;
  for (int axis = 0; axis < static_cast<int>(p.kernel.size()); ++axis) {
    pad.push_back(AxisOfOutput(p, axis, x[2 + axis])->pad);
  }
  return pad;
}

// The convolution that this is the gradient of; its input is our output.
ConvSize DeconvolutionSizeOf(const DeconvolutionParam& p, const Shape& x, const Shape& y) { return VolumeOf(p, PadOf(p, x), y, x); }

absl::StatusOr<bool> DeconvolutionShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<DeconvolutionParam>();
  const int axes = static_cast<int>(p.kernel.size());
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(axes + 2));
  if (!p.no_bias) SHAPE_ASSIGN_CHECK(in, 2, Shape({p.num_filter}));
  const Shape x = (*in)[0];
  RETURN_IF_ERROR(CheckChannels(x, p.num_group));
  Shape w = {x[1], p.num_filter / p.num_group}, y = {x[0], p.num_filter};
  for (int axis = 0; axis < axes; ++axis) {
    w.Append(p.kernel[axis]);
    y.Append(Shape::kUnknown);
    if (x[2 + axis] < 0) continue;
    ASSIGN_OR_RETURN(const OutputAxis output, AxisOfOutput(p, axis, x[2 + axis]));
    y[2 + axis] = output.size;
  }
  SHAPE_ASSIGN_CHECK(in, 1, w);
  SHAPE_ASSIGN_CHECK(out, 0, y);
  Shape from_others = Shape::OfRank(axes + 2);
  from_others[0] = (*out)[0][0];
  from_others[1] = (*in)[1][0];
  SHAPE_ASSIGN_CHECK(in, 0, from_others);
  return AllKnown(*in) && AllKnown(*out);
}

struct Deconvolution {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &x = in[0], &y = out[0];
    if (y.Size() == 0 || req[0] == kNullOp) return absl::OkStatus();
    const ConvSize size = DeconvolutionSizeOf(attrs.param<DeconvolutionParam>(), x.shape, y.shape);
    RETURN_IF_ERROR(VolumeBackward<D>(ctx, size, x, y, in[1], {y, req[0]}, {}, {}));
    return in.size() < 3 ? absl::OkStatus() : AddToChannels<D>(ctx, in[2], y);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &x = in[0], &y = out[0];
    if (y.Size() == 0 || req[0] == kNullOp) return absl::OkStatus();
    const ConvSize size = DeconvolutionSizeOf(attrs.param<DeconvolutionParam>(), x.shape, y.shape);
    return PrepareConvBackward(ctx, y.dtype, size, /*wants_x=*/true, false, false);
  }
};

// dx is the convolution of dy, dw its weight's gradient with the parts of x and dy exchanged.
struct BackwardDeconvolution {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &dy = in[0], &x = in[1], &w = in[2];
    if (dy.Size() == 0) {  // The batch is empty.
      for (size_t i = 0; i < out.size(); ++i) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[i], out[i]));
      return absl::OkStatus();
    }
    const ConvSize size = DeconvolutionSizeOf(attrs.param<DeconvolutionParam>(), x.shape, dy.shape);
    if (req[0] != kNullOp) RETURN_IF_ERROR(VolumeForward<D>(ctx, size, dy, w, nullptr, {out[0], req[0]}));
    if (req[1] != kNullOp) RETURN_IF_ERROR(VolumeBackward<D>(ctx, size, x, dy, w, {}, {out[1], req[1]}, {}));
    return out.size() < 3 ? absl::OkStatus() : SumChannels<D>(ctx, dy, {out[2], req[2]});
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    const TBlob &dy = in[0], &x = in[1];
    if (dy.Size() == 0) return absl::OkStatus();
    const ConvSize size = DeconvolutionSizeOf(attrs.param<DeconvolutionParam>(), x.shape, dy.shape);
    if (req[0] != kNullOp) RETURN_IF_ERROR(PrepareConvForward(ctx, dy.dtype, size, false));
    return PrepareConvBackward(ctx, dy.dtype, size, false, req[1] != kNullOp, false);
  }
};

GLUOND_REGISTER_OP(Deconvolution)
    .describe(
        "The transpose of a convolution: each element of x adds its window of the weight to y. Output size along "
        "an axis: (in - 1) stride + dilate (kernel - 1) + 1 - 2 pad + adj.")
    .add_argument("data", "NDArray", "x: (batch, channels, width), with height before the width, or depth and height.")
    .add_argument("weight", "NDArray", "(channels, num_filter / num_group, kernel...).")
    .add_argument("bias", "NDArray", "(num_filter). Absent with no_bias, the default.")
    .params<DeconvolutionParam>(ParseDeconvolution)
    .with(Bilinear<DeconvolutionParam>)
    .infer(DeconvolutionShape, SameFloatType)
    .compute<Deconvolution>();

GLUOND_REGISTER_OP(_backward_Deconvolution)
    .describe("The gradients of Deconvolution's inputs.")
    .with(BackwardBilinear<DeconvolutionParam, &DeconvolutionParam::num_filter>("The weight."))
    .params<DeconvolutionParam>(ParseDeconvolution)
    .compute<BackwardDeconvolution>();

}  // namespace
}  // namespace gluond::ops
