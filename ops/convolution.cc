// Convolution over one to three spatial axes, with groups and dilation: layout (batch, channels, width), (batch,
// channels, height, width) or (batch, channels, depth, height, width). Being linear in each input, its gradient is
// differentiated by Convolution and itself.

#include <optional>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/bilinear.h"
#include "ops/conv_size.h"
#include "ops/kernel/fill.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct ConvolutionParam : Param<ConvolutionParam> {
  std::vector<int64_t> kernel, stride, dilate, pad;
  int64_t num_filter, num_group, workspace;
  bool no_bias, cudnn_off;
  std::optional<std::string> cudnn_tune;
  std::optional<int> layout;

  static void Fields(Schema<ConvolutionParam>& s) {
    using P = ConvolutionParam;
    constexpr int64_t kMax = kMaxSpatial;
    s.Field("kernel", &P::kernel).Elements<int64_t>(1, kMax).Describe("Size of the window: (w), (h, w) or (d, h, w).");
    s.Field("stride", &P::stride).Default(std::vector<int64_t>{}).Elements<int64_t>(1, kMax)
        .Describe("Steps of the window. Default: 1 for each axis.");
    s.Field("dilate", &P::dilate).Default(std::vector<int64_t>{}).Elements<int64_t>(1, kMax)
        .Describe("Distance of the window's elements. Default: 1 for each axis.");
    s.Field("pad", &P::pad).Default(std::vector<int64_t>{}).Elements<int64_t>(0, kMax)
        .Describe("Zeros on both sides of each axis. Default: 0.");
    s.Field("num_filter", &P::num_filter).Range(1, int64_t{1} << 31).Describe("Channels of the output.");
    s.Field("num_group", &P::num_group).Default(1).Range(1, int64_t{1} << 31)
        .Describe("Parts that the channels are split into; each output channel sees one.");
    s.Field("workspace", &P::workspace)
        .Default(1024)
        .Describe("Accepted for MXNet's sake; temporary space is as needed.");
    s.Field("no_bias", &P::no_bias).Default(false).Describe("Leave the bias out.");
    s.Field("cudnn_tune", &P::cudnn_tune).Default("None").Describe("Accepted for MXNet's sake, not used.");
    s.Field("cudnn_off", &P::cudnn_off).Default(false).Describe("Accepted for MXNet's sake, not used.");
    s.Field("layout", &P::layout).Enum({{"NCW", 1}, {"NCHW", 2}, {"NCDHW", 3}}).Default("None")
        .Describe("Channels come first.");
  }
};

absl::Status Parse(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<ConvolutionParam>(attrs));
  auto& param = *std::any_cast<ConvolutionParam>(&attrs->parsed);
  const size_t axes = param.kernel.size();
  RETURN_IF_ERROR(CheckKernelRank(axes));
  if (param.num_filter % param.num_group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'num_filter' is ", param.num_filter,
                                                   ", expected a multiple of num_group, ", param.num_group));
  }
  RETURN_IF_ERROR(FillAxes("stride", axes, 1, &param.stride));
  RETURN_IF_ERROR(FillAxes("dilate", axes, 1, &param.dilate));
  return FillAxes("pad", axes, 0, &param.pad);
}

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& param = attrs.param<ConvolutionParam>();
  const int axes = static_cast<int>(param.kernel.size());
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(axes + 2));
  if (!param.no_bias) SHAPE_ASSIGN_CHECK(in, 2, Shape({param.num_filter}));
  const Shape x = (*in)[0];

  Shape w = {param.num_filter, Shape::kUnknown};
  if (x[1] >= 0) {
    if (x[1] == 0 || x[1] % param.num_group != 0) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", x[1],
                                                     " channels, expected a positive multiple of num_group, ",
                                                     param.num_group));
    }
    w[1] = x[1] / param.num_group;
  }
  Shape y = {x[0], param.num_filter};
  for (int axis = 0; axis < axes; ++axis) {
    w.Append(param.kernel[axis]);
    y.Append(Shape::kUnknown);
    const int64_t size = x[2 + axis];
    if (size < 0) continue;
    const int64_t window = (param.kernel[axis] - 1) * param.dilate[axis] + 1;
    const int64_t padded = size + 2 * param.pad[axis];
    if (window > padded || size == 0) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", size, " elements along axis ", 2 + axis,
                                                     ", ", padded, " with padding; expected at least the window's ",
                                                     window));
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& p = attrs.param<ConvolutionParam>();
    const TBlob &x = in[0], &y = out[0];
    if (y.Size() == 0) return absl::OkStatus();
    return VolumeForward<D>(ctx, VolumeOf(p, p.pad, x.shape, y.shape), x, in[1], in.size() < 3 ? nullptr : &in[2],
                            {y, req[0]});
  }
};

struct BackwardConvolution {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const TBlob &dy = in[0], &x = in[1], &w = in[2];
    if (dy.Size() == 0) {  // Of an empty batch.
      for (size_t i = 0; i < out.size(); ++i) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[i], out[i]));
      return absl::OkStatus();
    }
    const auto& p = attrs.param<ConvolutionParam>();
    const auto to = [&](size_t i) { return i < out.size() ? Target{out[i], req[i]} : Target(); };
    return VolumeBackward<D>(ctx, VolumeOf(p, p.pad, x.shape, dy.shape), dy, x, w, to(0), to(1), to(2));
  }
};

GLUOND_REGISTER_OP(Convolution)
    .describe("y[n,o] = bias[o] + sum over the input channels of o's group of x convolved with the weight "
              "(not flipped). Output size along an axis: floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1.")
    .add_argument("data", "NDArray", "x: (batch, channels, width), with height before the width, or depth and height.")
    .add_argument("weight", "NDArray", "(num_filter, channels / num_group, kernel...).")
    .add_argument("bias", "NDArray", "(num_filter). Absent with no_bias.")
    .add_arguments(ConvolutionParam::__FIELDS__())
    .set_attr_parser(Parse)
    .set_num_inputs(NumBilinearInputs<ConvolutionParam>)
    .set_attr<FListInputNames>("FListInputNames", BilinearInputNames<ConvolutionParam>)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", BilinearGradient)
    .compute<Convolution>();

GLUOND_REGISTER_OP(_backward_Convolution)
    .describe("The gradients of Convolution's inputs.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x.")
    .add_argument("weight", "NDArray", "The weight.")
    .add_arguments(ConvolutionParam::__FIELDS__())
    .set_attr_parser(Parse)
    .set_num_inputs(3)
    .set_num_outputs(NumBilinearInputs<ConvolutionParam>)
    .set_attr<FInferShape>("FInferShape", BilinearBackwardShape<ConvolutionParam, &ConvolutionParam::num_filter>)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", GradientOfBilinearBackward)
    .compute<BackwardConvolution>();

}  // namespace
}  // namespace gluond::ops
