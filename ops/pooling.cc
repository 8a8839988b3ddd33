// Pooling over one to three spatial axes: the maximum, average or sum of each window.

#include <limits>
#include <optional>

#include "ops/channel_blocks.h"
#include "ops/kernel/pool.h"
#include "ops/operator.h"
#include "ops/window.h"

namespace gluond::ops {
namespace {

enum Convention { kValidConvention, kFullConvention };

struct PoolingParam : Param<PoolingParam> {
  std::vector<int64_t> kernel, stride, pad;
  int pool_type, pooling_convention;
  bool global_pool, cudnn_off;
  std::optional<bool> count_include_pad;
  std::optional<int> p_value;
  std::optional<int> layout;

  static void Fields(Schema<PoolingParam>& s) {
    using P = PoolingParam;
    s.Field("kernel", &P::kernel)
        .Default(std::vector<int64_t>{})
        .Elements<int64_t>(1, kMaxSpatial)
        .Describe("Size of the window: (w), (h, w) or (d, h, w). Required unless global_pool.");
    s.Field("pool_type", &P::pool_type)
        .Enum({{"max", static_cast<int>(PoolType::kMax)},
               {"avg", static_cast<int>(PoolType::kAvg)},
               {"sum", static_cast<int>(PoolType::kSum)}})
        .Default("max")
        .Describe("What to take of each window. A NaN in it is its maximum.");
    s.Field("global_pool", &P::global_pool).Default(false).Describe("One window: the whole plane.");
    s.Field("cudnn_off", &P::cudnn_off).Default(false).Describe("Accepted for MXNet's sake, not used.");
    s.Field("pooling_convention", &P::pooling_convention)
        .Enum({{"valid", kValidConvention}, {"full", kFullConvention}})
        .Default("valid")
        .Describe("Outputs for whole windows only (valid), or also for the part at the end (full).");
    s.Field("stride", &P::stride)
        .Default(std::vector<int64_t>{})
        .Elements<int64_t>(1, kMaxSpatial)
        .Describe("Steps of the window. Default: 1 for each axis.");
    s.Field("pad", &P::pad)
        .Default(std::vector<int64_t>{})
        .Elements<int64_t>(0, kMaxSpatial)
        .Describe("Padding on both sides of each axis, less than the kernel. Default: 0.");
    s.Field("p_value", &P::p_value).Default("None").Describe("Accepted for MXNet's sake: of pool_type lp, which is not offered.");
    s.Field("count_include_pad", &P::count_include_pad)
        .Default("None")
        .Describe("Averages divide by the window's size with its padding. Default: True.");
    s.Field("layout", &P::layout).Enum({{"NCW", 1}, {"NCHW", 2}, {"NCDHW", 3}}).Default("None").Describe("Channels come first.");
  }
};

absl::Status ParsePooling(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<PoolingParam>(attrs));
  auto& param = *std::any_cast<PoolingParam>(&attrs->parsed);
  if (param.global_pool) return absl::OkStatus();
  const size_t axes = param.kernel.size();
  RETURN_IF_ERROR(CheckKernelRank(axes));
  RETURN_IF_ERROR(FillAxes("stride", axes, 1, &param.stride));
  RETURN_IF_ERROR(FillAxes("pad", axes, 0, &param.pad));
  for (size_t axis = 0; axis < axes; ++axis) {
    if (param.pad[axis] >= param.kernel[axis]) {
      return absl::InvalidArgumentError(absl::StrCat("parameter 'pad' is ", param.pad[axis], " for axis ", axis,
                                                     ", expected less than the kernel's ", param.kernel[axis]));
    }
  }
  return absl::OkStatus();
}

bool IsMax(const NodeAttrs& attrs) { return attrs.param<PoolingParam>().pool_type == static_cast<int>(PoolType::kMax); }

// The positions of maxima are a hidden output.
uint32_t PoolingNumOutputs(const NodeAttrs& attrs) { return IsMax(attrs) ? 2 : 1; }

absl::StatusOr<bool> PoolingShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& param = attrs.param<PoolingParam>();
  if (!param.global_pool) SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(static_cast<int>(param.kernel.size()) + 2));
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  if (x.ndim() < 3 || x.ndim() > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has shape ", x.ToString(),
                     ", expected (batch, channels, width), with height before the width, or depth and height"));
  }
  Shape y = {x[0], x[1]};
  for (int axis = 0; axis + 2 < x.ndim(); ++axis) {
    const int64_t size = x[2 + axis];
    if (param.global_pool) {
      y.Append(1);
      continue;
    }
    y.Append(Shape::kUnknown);
    if (size < 0) continue;
    const int64_t room = size + 2 * param.pad[axis] - param.kernel[axis];
    if (room < 0) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", size, " elements along axis ", 2 + axis, ", ",
                                                     size + 2 * param.pad[axis], " with padding; expected at least the window's ",
                                                     param.kernel[axis]));
    }
    const int64_t up = param.pooling_convention == kFullConvention ? param.stride[axis] - 1 : 0;
    y[2 + axis] = (room + up) / param.stride[axis] + 1;
  }
  if (x.known() && x.Size(2, x.ndim()) > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected less than 2^31 elements in each channel"));
  }
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, y);
  Shape from_y = Shape::OfRank(x.ndim());
  from_y[0] = (*out)[0][0];
  from_y[1] = (*out)[0][1];
  SHAPE_ASSIGN_CHECK(in, 0, from_y);
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> PoolingType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  if (out->size() > 1) TYPE_ASSIGN_CHECK(out, 1, DType::kInt32);
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  return AllKnown(*in);
}

PoolSize PoolingSizeOf(const PoolingParam& p, const Shape& x, const Shape& y) {
  PoolSize size = {static_cast<PoolType>(p.pool_type), p.count_include_pad.value_or(true), x[0] * x[1], {}, {}, {}, {}, {}};
  const int missing = 5 - x.ndim();
  for (int axis = 0; axis < 3; ++axis) {
    const int i = axis - missing;
    const bool whole = i < 0 || p.global_pool;
    size.in[axis] = i < 0 ? 1 : x[2 + i];
    size.out[axis] = i < 0 ? 1 : y[2 + i];
    size.kernel[axis] = whole ? size.in[axis] : p.kernel[i];
    size.stride[axis] = whole ? 1 : p.stride[i];
    size.pad[axis] = whole ? 0 : p.pad[i];
  }
  return size;
}

struct Pooling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<PoolingParam>();
    const Shape &x = in[0].shape, &y = out[0].shape;
    const OpReqType index_req = out.size() < 2 ? kNullOp : req[1];
    const TBlob index = out.size() < 2 ? TBlob() : out[1];
    return PoolForward<D>(ctx, PoolingSizeOf(p, x, y), in[0], req[0], out[0], index_req, index);
  }
};

struct BackwardPooling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<PoolingParam>();
    const Shape &x = out[0].shape, &y = in[0].shape;
    const TBlob index = in.size() < 3 ? TBlob() : in[2];
    return PoolBackward<D>(ctx, PoolingSizeOf(p, x, y), in[0], index, req[0], out[0]);
  }
};

// Images in blocks of channels: what is pooled of an element of a block is one channel's.
Shape OfABlock(const Shape& x) { return Shape(x.begin(), x.begin() + 4); }

absl::StatusOr<bool> PoolingBlockedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(5));
  const int64_t block = (*in)[0][4];
  ShapeVector x = {OfABlock((*in)[0])}, y(1);
  RETURN_IF_ERROR(PoolingShape(attrs, &x, &y).status());
  if (y[0].ndim() == 4) {
    y[0].Append(block);
    SHAPE_ASSIGN_CHECK(out, 0, y[0]);
  }
  return AllKnown(*in) && AllKnown(*out);
}

// On a CPU only, as _blocked_Convolution.
absl::Status PoolBlocked(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
  if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
  const PoolSize size = PoolingSizeOf(attrs.param<PoolingParam>(), OfABlock(in[0].shape), OfABlock(out[0].shape));
  PoolForwardBlocked(ctx, size, in[0].shape[4], in[0].dptr<float>(), req[0] == kAddTo, out[0].dptr<float>());
  return absl::OkStatus();
}

Gradients PoolingGradient(const NodePtr& node, const Gradients& dy) {
  std::vector<NodeEntry> inputs = {dy[0], node->inputs[0]};
  if (IsMax(node->attrs)) inputs.push_back(Output(node, 1));
  return {Call("_backward_Pooling", std::move(inputs), node->attrs.dict)};
}

// Averages and sums are linear in x, so that the gradient of their gradient is the same pooling.
absl::StatusOr<Gradients> PoolingGradientOfBackward(const NodePtr& node, const Gradients& g) {
  if (!IsMax(node->attrs)) return Gradients{Call("Pooling", {g[0]}, node->attrs.dict), {}};
  return absl::UnimplementedError("the gradient of max pooling cannot be differentiated again; use pool_type avg");
}

GLUOND_REGISTER_OP(Pooling)
    .describe(
        "The maximum, average or sum of each window of each channel. Output size along an axis: "
        "floor((in + 2 pad - kernel) / stride) + 1, with ceil for pooling_convention full.")
    .add_argument("data", "NDArray", "(batch, channels, width), with height before the width, or depth and height.")
    .params<PoolingParam>(ParsePooling)
    .set_num_outputs(PoolingNumOutputs)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListOutputNames>("FListOutputNames", FirstNames({"output", "index"}, PoolingNumOutputs))
    .infer(PoolingShape, PoolingType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .set_attr<FChannelBlocks>("FChannelBlocks",
                              [](const Node& node, absl::Span<const Shape>, int64_t block) {
                                return BlockedCall{"_blocked_Pooling", node.attrs.dict, block, 1};
                              })
    .set_attr<FGradient>("FGradient", PoolingGradient)
    .compute<Pooling>();

GLUOND_REGISTER_OP(_blocked_Pooling)
    .describe("Pooling of images in blocks of channels, as _to_blocked makes them: what a prediction on a CPU computes.")
    .add_argument("data", "NDArray", "float32, (batch, channels / block, height, width, block).")
    .params<PoolingParam>(ParsePooling)
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .infer(PoolingBlockedShape, SameFloat32)
    .set_attr<FCompute>("FCompute<cpu>", PoolBlocked);

GLUOND_REGISTER_OP(_backward_Pooling)
    .describe("The gradient of Pooling's input.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x, for its shape only.")
    .add_argument("index", "NDArray", "The positions of the maxima; for pool_type max only.")
    .params<PoolingParam>(ParsePooling)
    .set_num_inputs([](const NodeAttrs& attrs) { return IsMax(attrs) ? 3u : 2u; })
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .infer(ShapesOfInputs<1>, TypesOfInputs<1>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", PoolingGradientOfBackward)
    .compute<BackwardPooling>();

}  // namespace
}  // namespace gluond::ops
