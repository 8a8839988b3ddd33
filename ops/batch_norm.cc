// BatchNorm: y = gamma (x - mean) / sqrt(var + eps) + beta for each channel. While training, mean and variance (biased)
// are the batch's, and the forward pass moves the running ones towards them: moving = momentum moving + (1 - momentum)
// batch. (MXNet moves them in the backward pass on a CPU and in the forward one with cuDNN; here the forward pass
// does on every device, with the biased variance.) Otherwise the running ones are used, and nothing is written.

#include "ops/kernel/batch_norm.h"
#include "ops/affine.h"
#include "ops/kernel/channels.h"
#include "ops/kernel/math.h"
#include "ops/norm_gradient.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct BatchNormParam : Param<BatchNormParam> {
  double eps, momentum;
  bool fix_gamma, use_global_stats, output_mean_var, cudnn_off;
  int axis;
  static void Fields(Schema<BatchNormParam>& s) {
    using P = BatchNormParam;
    s.Field("eps", &P::eps).Default(1e-3).AtLeast(0.0).Describe("Added to the variance.");
    s.Field("momentum", &P::momentum).Default(0.9).Range(0.0, 1.0).Describe("Of the running mean and variance.");
    s.Field("fix_gamma", &P::fix_gamma).Default(true).Describe("Take gamma as 1; its gradient is 0.");
    s.Field("use_global_stats", &P::use_global_stats)
        .Default(false)
        .Describe("Use the running mean and variance while training, too.");
    s.Field("output_mean_var", &P::output_mean_var)
        .Decides()
        .Default(false)
        .Describe("Show the mean and 1 / sqrt(var + eps) as outputs.");
    s.Field("axis", &P::axis).Default(1).Describe("The channels' axis.");
    s.Field("cudnn_off", &P::cudnn_off).Default(false).Describe("Accepted for MXNet's sake, not used.");
  }
};

enum { kData, kGamma, kBeta, kMovingMean, kMovingVar };

BatchNormCall CallOf(const BatchNormParam& p, const OpContext& ctx, const Shape& x) {
  const bool from_batch = ctx.is_train && !p.use_global_stats && x.Size() > 0;
  return {RowsOf(x, p.axis < 0 ? p.axis + x.ndim() : p.axis), p.eps, p.momentum, from_batch, p.fix_gamma};
}

template <class C, class X, class Y>
struct BatchNormNormalize {
  RowGeometry shape;
  X x;
  Y y;
  In<C> gamma, beta, moving_mean, moving_var;
  Out<C> mean, inverse_std, new_mean, new_var;
  double eps, momentum;
  bool from_batch, fix_gamma, set_y, set_mean, set_inverse;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t c) const {
    C m, v;
    if (from_batch) {
      const C count = static_cast<C>(shape.outer * shape.inner);
      m = SumChannel(g, shape, c, [&](int64_t i) { return x[i]; }) / count;
      v = SumChannel(g, shape, c, [&](int64_t i) { return (x[i] - m) * (x[i] - m); }) / count;
    } else {
      m = moving_mean[c];
      v = moving_var[c];
    }
    const C inverse = 1 / math::Sqrt(v + static_cast<C>(eps));
    if (set_y) {
      const C scale = fix_gamma ? inverse : gamma[c] * inverse, shift = beta[c];
      ForEachOfChannel(g, shape, c, [&](int64_t i) { y.Set(i, (x[i] - m) * scale + shift); });
    }
    if (!g.first()) return;
    if (set_mean) mean.Set(c, m);
    if (set_inverse) inverse_std.Set(c, inverse);
    if (!from_batch) return;
    const C keep = static_cast<C>(momentum), take = static_cast<C>(1 - momentum);
    new_mean.Set(c, keep * moving_mean[c] + take * m);
    new_var.Set(c, keep * moving_var[c] + take * v);
  }
};

struct BatchNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<BatchNormParam>();
    const TBlob& x = in[kData];
    const BatchNormCall call = CallOf(p, ctx, x.shape);
    ASSIGN_OR_RETURN(const bool done, BatchNormByLibrary<D>(ctx, call, in, req, out));
    if (done) return absl::OkStatus();
    const RowGeometry& shape = call.shape;
    return WithAccess(x.dtype, {x.dtype}, req[0] == kAddTo, [&](auto c, auto* in_type, auto* out_type) {
      using C = decltype(c);
      using X = std::remove_pointer_t<decltype(in_type)>;
      using Y = std::remove_pointer_t<decltype(out_type)>;
      return ForEachGroup<D>(
          ctx, shape.n, shape.outer * shape.inner,
          BatchNormNormalize<C, X, Y>{shape, X(x), Y(out[0], req[0]), In<C>(in[kGamma]), In<C>(in[kBeta]), In<C>(in[kMovingMean]),
                                      In<C>(in[kMovingVar]), Out<C>(out[1], req[1]), Out<C>(out[2], req[2]),
                                      Out<C>(in[kMovingMean], kWriteTo), Out<C>(in[kMovingVar], kWriteTo), p.eps, p.momentum,
                                      call.from_batch, p.fix_gamma, req[0] != kNullOp, req[1] != kNullOp, req[2] != kNullOp});
    });
  }
};

// With z = (x - mean) / std:
//   dbeta = sum dy, dgamma = sum dy z
//   dx = gamma / std (dy - mean(dy) - z mean(dy z)) when mean and variance are the batch's, else gamma / std dy
template <class C, class X, class Y>
struct BatchNormBackwardNormalize {
  RowGeometry shape;
  X dy, x;
  Y dx;
  In<C> gamma, mean, inverse_std;
  Out<C> dgamma, dbeta;
  bool from_batch, fix_gamma, set_dx, set_dgamma, set_dbeta;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t c) const {
    const C m = mean[c], inverse = inverse_std[c];
    const C sum = SumChannel(g, shape, c, [&](int64_t i) { return dy[i]; });
    const C dot = SumChannel(g, shape, c, [&](int64_t i) { return dy[i] * (x[i] - m); }) * inverse;
    if (set_dx) {
      const C scale = fix_gamma ? inverse : gamma[c] * inverse;
      const C count = static_cast<C>(shape.outer * shape.inner);
      const C mean_dy = from_batch ? sum / count : C(0), slope = from_batch ? dot * inverse / count : C(0);
      ForEachOfChannel(g, shape, c, [&](int64_t i) { dx.Set(i, scale * (dy[i] - mean_dy - (x[i] - m) * slope)); });
    }
    if (!g.first()) return;
    if (set_dgamma) dgamma.Set(c, fix_gamma ? C(0) : dot);
    if (set_dbeta) dbeta.Set(c, sum);
  }
};

struct BackwardBatchNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<BatchNormParam>();
    const TBlob &dy = in[0], &x = in[1], &gamma = in[2], &mean = in[3], &inverse_std = in[4];
    const BatchNormCall call = CallOf(p, ctx, x.shape);
    ASSIGN_OR_RETURN(const bool done, BatchNormGradientByLibrary<D>(ctx, call, in, req, out));
    if (done) return absl::OkStatus();
    const RowGeometry& shape = call.shape;
    return WithAccess(x.dtype, {dy.dtype, x.dtype}, req[0] == kAddTo, [&](auto c, auto* in_type, auto* out_type) {
      using C = decltype(c);
      using X = std::remove_pointer_t<decltype(in_type)>;
      using Y = std::remove_pointer_t<decltype(out_type)>;
      return ForEachGroup<D>(
          ctx, shape.n, shape.outer * shape.inner,
          BatchNormBackwardNormalize<C, X, Y>{shape, X(dy), X(x), Y(out[0], req[0]), In<C>(gamma), In<C>(mean), In<C>(inverse_std),
                                              Out<C>(out[1], req[1]), Out<C>(out[2], req[2]), call.from_batch, p.fix_gamma,
                                              req[0] != kNullOp, req[1] != kNullOp, req[2] != kNullOp});
    });
  }
};

absl::StatusOr<bool> BatchNormShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape x = (*in)[0];
  Shape channels = Shape::OfRank(1);
  if (x.rank_known()) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<BatchNormParam>().axis, x.ndim()));
    channels[0] = x[axis];
  }
  for (size_t i = 1; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, channels);
  for (size_t i = 1; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, channels);
  return AllKnown(*in) && AllKnown(*out);
}

// Parameters and statistics of 16-bit data are float32.
absl::StatusOr<bool> BatchNormType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  const DType x = (*in)[0];
  if (x == DType::kUnknown) return false;
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", x));
  const DType channels = x == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  for (size_t i = 1; i < in->size(); ++i) {
    if ((*in)[i] == DType::kUnknown) (*in)[i] = channels;
    RETURN_IF_ERROR(CheckFloat(absl::StrCat("input ", i), (*in)[i]));
  }
  for (size_t i = 1; i < out->size(); ++i) TYPE_ASSIGN_CHECK(out, i, channels);
  return true;
}

// dx is like x, dgamma and dbeta like gamma.
absl::StatusOr<bool> BackwardShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  for (size_t i = 0; i < 3; ++i) SHAPE_ASSIGN_CHECK(out, i, (*in)[i == 0 ? 1 : 2]);
  return AllKnown(*in) && AllKnown(*out);
}
absl::StatusOr<bool> BackwardType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  for (size_t i = 0; i < 3; ++i) TYPE_ASSIGN_CHECK(out, i, (*in)[i == 0 ? 1 : 2]);
  return AllKnown(*in) && AllKnown(*out);
}

void InitOnCompose(const NodeAttrs&, NodeAttrs* variable, int index) {
  const bool one = index == kGamma || index == kMovingVar;
  if (index != kData) variable->dict.emplace("__init__", one ? "[\"one\", {}]" : "[\"zero\", {}]");
}

Gradients BatchNormGradient(const NodePtr& node, const Gradients& dy) {
  const std::vector<NodeEntry>& in = node->inputs;
  Gradients dx =
      OutputsOf(Call("_backward_BatchNorm", {dy[0], in[kData], in[kGamma], Output(node, 1), Output(node, 2)}, node->attrs.dict));
  dx.resize(5);  // The running ones have none.
  return dx;
}

// With the running mean and variance: y = scale x + shift.
Affine WithRunningStatistics(const Node& node, DType dtype) {
  const auto& p = node.param<BatchNormParam>();
  const auto input = [&](uint32_t i) { return CastTo(node.inputs[i], dtype); };
  NodeEntry scale = Call("rsqrt", {input(kMovingVar) + p.eps});
  if (!p.fix_gamma) scale = input(kGamma) * scale;
  return {node.inputs[kData], p.axis, scale, input(kBeta) - input(kMovingMean) * scale, dtype};
}

GLUOND_REGISTER_OP(BatchNorm)
    .describe(
        "y = gamma (x - mean) / sqrt(var + eps) + beta for each channel. While training, mean and biased variance "
        "are the batch's, and the forward pass updates moving_mean and moving_var; otherwise those are used.")
    .add_argument("data", "NDArray", "x.")
    .add_argument("gamma", "NDArray", "(channels).")
    .add_argument("beta", "NDArray", "(channels).")
    .add_argument("moving_mean", "NDArray", "(channels). Auxiliary: written while training.")
    .add_argument("moving_var", "NDArray", "(channels). Auxiliary: written while training.")
    .params<BatchNormParam>()
    .set_num_inputs(5)
    .set_num_outputs(3)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", VisibleOutputs<BatchNormParam>)
    .set_attr<FListOutputNames>("FListOutputNames", Names({"output", "mean", "var"}))
    .set_attr<FMutateInputs>("FMutateInputs",
                             [](const NodeAttrs&) -> std::vector<uint32_t> {
                               return {kMovingMean, kMovingVar};
                             })
    .set_attr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose", InitOnCompose)
    .infer(LikeFirst<BatchNormShape>(), BatchNormType)
    .set_attr<FGradient>("FGradient", BatchNormGradient)
    .set_attr<FAffine>("FAffine", WithRunningStatistics)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BatchNorm>();

GLUOND_REGISTER_OP(_backward_BatchNorm)
    .describe("The gradients of BatchNorm's data, gamma and beta.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x.")
    .add_argument("gamma", "NDArray", "gamma.")
    .add_argument("mean", "NDArray", "The mean that the forward pass took.")
    .add_argument("var", "NDArray", "1 / sqrt(var + eps) that it took.")
    .params<BatchNormParam>()
    .set_num_inputs(5)
    .set_num_outputs(3)
    .infer(BackwardShape, BackwardType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BackwardBatchNorm>();

}  // namespace
}  // namespace gluond::ops
