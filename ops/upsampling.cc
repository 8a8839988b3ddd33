// UpSampling: images `scale` times as high and wide. nearest repeats each element; of several inputs each is scaled to
// the size that the first becomes, and they are joined along the channels, or added up. bilinear is a Deconvolution of
// each channel with a weight of its own, whose initial values make it interpolate.

#include "ops/kernel/conv_volume.h"
#include "ops/kernel/fill.h"
#include "ops/operator.h"
#include "ops/window_sum.h"

namespace gluond::ops {
namespace {

enum UpsamplingSampleType { kNearest, kBilinear };
enum MultiInput { kConcat, kSum };

struct UpSamplingParam : Param<UpSamplingParam> {
  int64_t scale, num_filter, workspace;
  int sample_type, multi_input_mode, num_args;
  static void Fields(Schema<UpSamplingParam>& s) {
    using P = UpSamplingParam;
    s.Field("scale", &P::scale).Range(1, 1000).Describe("How many times as high and wide the output is.");
    s.Field("num_filter", &P::num_filter).Default(int64_t{0}).Range(0, int64_t{1} << 31).Describe("For bilinear: the channels.");
    s.Field("sample_type", &P::sample_type)
        .Decides()
        .Enum({{"nearest", kNearest}, {"bilinear", kBilinear}})
        .Describe("Repeat the elements, or convolve with a weight.");
    s.Field("multi_input_mode", &P::multi_input_mode)
        .Enum({{"concat", kConcat}, {"sum", kSum}})
        .Default("concat")
        .Describe("For nearest with several inputs: join their channels, or add them up.");
    s.Field("num_args", &P::num_args)
        .Decides()
        .AtLeast(1)
        .Describe("The number of inputs; filled in when absent. For bilinear 2: data and weight.");
    s.Field("workspace", &P::workspace).Default(512).Describe("Accepted for MXNet's sake; temporary space is as needed.");
  }

  int64_t kernel() const { return 2 * scale - scale % 2; }  // For bilinear.
  int64_t pad() const { return scale / 2; }
};

absl::Status ParseUpsampling(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<UpSamplingParam>(attrs));
  const auto& p = attrs->param<UpSamplingParam>();
  if (p.sample_type == kNearest) return absl::OkStatus();
  if (p.num_args != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter 'num_args' is ", p.num_args, ", expected 2 for bilinear: data and weight"));
  }
  if (p.num_filter > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("parameter 'num_filter' is 0, expected the number of channels for bilinear");
}

// How an input of (batch, channels, height, width) lies in the output.
struct Placing {
  int64_t channels, height, width, factor;  // The input's.
  int64_t all_channels, first_channel;      // The output's.

  // The output's element for (batch, channel), row and column.
  HOST_DEVICE int64_t At(int64_t plane, int64_t row, int64_t col) const {
    const int64_t to = plane / channels * all_channels + first_channel + plane % channels;
    return (to * height * factor + row) * width * factor + col;
  }
};

template <class C>
struct UpsamplingRepeat {
  Placing p;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {  // i: an element of the input's part of the output.
    const int64_t wide = p.width * p.factor, high = p.height * p.factor;
    const int64_t col = i % wide, row = i / wide % high, plane = i / wide / high;
    y.Set(p.At(plane, row, col), x[(plane * p.height + row / p.factor) * p.width + col / p.factor]);
  }
};
template <class C>
struct UpsamplingSumBlock {
  Placing p;
  In<C> dy;
  Out<C> dx;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {  // i: an element of the input.
    const int64_t col = i % p.width, row = i / p.width % p.height, plane = i / p.width / p.height;
    const C sum = SumOfWindow<C>(g, p.factor, p.factor,
                                 [&](int64_t r, int64_t c) { return dy[p.At(plane, row * p.factor + r, col * p.factor + c)]; });
    if (g.first()) dx.Set(i, sum);
  }
};

// Calls run(i, placing) for each input; `y` is the output's shape.
template <class Run>
absl::Status ForEachInput(const UpSamplingParam& p, Blobs x, const Shape& y, const Run& run) {
  int64_t channel = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Shape& s = x[i].shape;
    RETURN_IF_ERROR(run(i, Placing{s[1], s[2], s[3], y[2] / s[2], y[1], channel}));
    if (p.multi_input_mode == kConcat) channel += s[1];
  }
  return absl::OkStatus();
}

// The convolution whose gradient bilinear upsampling is: from the output's shape y to the data's shape x.
ConvSize Bilinear(const UpSamplingParam& p, const Shape& x, const Shape& y) {
  return {x[0],
          y[1],
          y[1],
          x[1],
          {1, y[2], y[3]},
          {1, x[2], x[3]},
          {1, p.kernel(), p.kernel()},
          {1, p.scale, p.scale},
          {1, 1, 1},
          {0, p.pad(), p.pad()}};
}

struct UpSampling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<UpSamplingParam>();
    const TBlob& y = out[0];
    if (req[0] == kNullOp || y.Size() == 0) return absl::OkStatus();
    if (p.sample_type == kBilinear) {
      return VolumeBackward<D>(ctx, Bilinear(p, in[0].shape, y.shape), in[0], y, in[1], {y, req[0]}, {}, {});
    }
    const bool sums = p.multi_input_mode == kSum && in.size() > 1;
    return DispatchReal(y.dtype, [&]<class C>(C) -> absl::Status {
      Stage<D, C> sum;  // Sums round once, at their end.
      if (sums) RETURN_IF_ERROR(sum.Begin(ctx, {y, req[0]}, false));
      RETURN_IF_ERROR(ForEachInput(p, in, y.shape, [&](size_t i, const Placing& placing) {
        const Out<C> to = sums ? Out<C>(sum.blob(ctx), i > 0 ? kAddTo : sum.req) : Out<C>(y, req[0]);
        return ForEach<D>(ctx, in[i].Size() * placing.factor * placing.factor, UpsamplingRepeat<C>{placing, In<C>(in[i]), to});
      }));
      return sums ? sum.Finish(ctx) : absl::OkStatus();
    });
  }
};

// Inputs: dy, then UpSampling's inputs, of which `nearest` uses the shapes only.
struct BackwardUpSampling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<UpSamplingParam>();
    const TBlob& dy = in[0];
    if (dy.Size() == 0) {
      for (size_t i = 0; i < out.size(); ++i) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[i], out[i]));
      return absl::OkStatus();
    }
    if (p.sample_type == kBilinear) {
      const ConvSize size = Bilinear(p, in[1].shape, dy.shape);
      if (req[0] != kNullOp) RETURN_IF_ERROR(VolumeForward<D>(ctx, size, dy, in[2], nullptr, {out[0], req[0]}));
      if (req[1] == kNullOp) return absl::OkStatus();
      return VolumeBackward<D>(ctx, size, in[1], dy, in[2], {}, {out[1], req[1]}, {});
    }
    return ForEachInput(p, out, dy.shape, [&](size_t i, const Placing& placing) {
      if (req[i] == kNullOp) return absl::OkStatus();
      return DispatchReal(dy.dtype, [&]<class C>(C) {
        return ForEachSum<D>(ctx, out[i].Size(), placing.factor * placing.factor,
                             UpsamplingSumBlock<C>{placing, In<C>(dy), Out<C>(out[i], req[i])});
      });
    });
  }
};

constexpr auto NumArgs = Count<&UpSamplingParam::num_args>;

absl::StatusOr<bool> UpsamplingShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<UpSamplingParam>();
  if (p.sample_type == kBilinear) {
    SHAPE_ASSIGN_CHECK(in, 0, Shape({Shape::kUnknown, p.num_filter, Shape::kUnknown, Shape::kUnknown}));
    SHAPE_ASSIGN_CHECK(in, 1, Shape({p.num_filter, 1, p.kernel(), p.kernel()}));
  }
  for (size_t i = 0; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, Shape::OfRank(4));
  const Shape first = (*in)[0];
  if (!first.known()) return false;
  Shape y = {first[0], first[1], first[2] * p.scale, first[3] * p.scale};
  for (size_t i = 1; i < in->size() && p.sample_type == kNearest; ++i) {
    SHAPE_ASSIGN_CHECK(
        in, i, Shape({first[0], p.multi_input_mode == kSum ? first[1] : Shape::kUnknown, Shape::kUnknown, Shape::kUnknown}));
    const Shape& x = (*in)[i];
    if (!x.known()) return false;
    const int64_t factor = x[2] > 0 ? y[2] / x[2] : 0;
    if (x[2] * factor != y[2] || x[3] * factor != y[3]) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", x.ToString(),
                                                     ", expected a height and width that go into the output's ", y[2], " and ",
                                                     y[3], " equally often"));
    }
    if (p.multi_input_mode == kConcat) y[1] += x[1];
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

Gradients UpsamplingBackward(const NodePtr& node, std::vector<NodeEntry> inputs, const NodeEntry& dy) {
  inputs.insert(inputs.begin(), dy);
  return OutputsOf(Call("_backward_UpSampling", std::move(inputs), node->attrs.dict));
}

// The gradients of dy, and, for bilinear, of x and the weight.
Gradients UpsamplingGradientOfBackward(const NodePtr& node, const Gradients& g) {
  Gradients gradients(node->num_inputs());
  if (node->param<UpSamplingParam>().sample_type == kNearest) {
    gradients[0] = Call("UpSampling", g, node->attrs.dict);
    return gradients;
  }
  const NodeEntry &dy = node->inputs[0], &x = node->inputs[1], &w = node->inputs[2];
  return {Call("UpSampling", {g[0], w}, node->attrs.dict) + Call("UpSampling", {x, g[1]}, node->attrs.dict),
          UpsamplingBackward(node, {x, g[1]}, dy)[0], UpsamplingBackward(node, {g[0], w}, dy)[1]};
}

GLUOND_REGISTER_OP(UpSampling)
    .describe(
        "Images `scale` times as high and wide: each element repeated (nearest), or spread by a weight "
        "(bilinear: a Deconvolution of each channel, kernel 2 scale - scale % 2, stride scale).")
    .add_argument("data", "NDArray[]", "(batch, channels, height, width), one or more for nearest; for bilinear data and weight.")
    .params<UpSamplingParam>(ParseUpsampling)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_num_inputs(NumArgs)
    .set_attr<FListInputNames>("FListInputNames",
                               [](const NodeAttrs& attrs) {
                                 const auto& p = attrs.param<UpSamplingParam>();
                                 std::vector<std::string> names = {"data", "weight"};
                                 if (p.sample_type == kBilinear) return names;
                                 names.clear();
                                 for (int i = 0; i < p.num_args; ++i) names.push_back(absl::StrCat("arg", i));
                                 return names;
                               })
    .set_attr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose",
                                         [](const NodeAttrs& attrs, NodeAttrs* variable, int index) {
                                           if (index == 1 && attrs.param<UpSamplingParam>().sample_type == kBilinear)
                                             variable->dict.emplace("__init__", "[\"bilinear\", {}]");
                                         })
    .infer(UpsamplingShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) { return UpsamplingBackward(node, node->inputs, dy[0]); })
    .compute<UpSampling>();

GLUOND_REGISTER_OP(_backward_UpSampling)
    .describe("The gradients of UpSampling's inputs.")
    .params<UpSamplingParam>(ParseUpsampling)
    .set_num_inputs([](const NodeAttrs& attrs) { return NumArgs(attrs) + 1; })
    .set_num_outputs(NumArgs)
    .infer(ShapesOfInputs<1>, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", UpsamplingGradientOfBackward)
    .compute<BackwardUpSampling>();

}  // namespace
}  // namespace gluond::ops
