// InstanceNorm and GroupNorm: y = gamma (x - mean) / std + beta, with mean and biased variance of each channel, or
// group of neighbouring channels, of each sample; std = sqrt(variance + eps). As in MXNet, gamma and beta have one
// element for each channel, or each group. The gradient is one kernel (ops/kernel/backward_norm.h); that of the
// gradient, a graph of operators (ops/norm_gradient.h).

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/backward_norm.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/norm_gradient.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct InstanceNormParam : Param<InstanceNormParam> {
  double eps;
  static void Fields(Schema<InstanceNormParam>& s) {
    s.Field("eps", &InstanceNormParam::eps).Default(1e-3).AtLeast(0.0).Describe("Added to the variance.");
  }
};
struct GroupNormParam : Param<GroupNormParam> {
  int64_t num_groups;
  double eps;
  bool output_mean_var;
  static void Fields(Schema<GroupNormParam>& s) {
    s.Field("num_groups", &GroupNormParam::num_groups).Default(1).Range(1, int64_t{1} << 31)
        .Describe("Parts that the channels are split into.");
    s.Field("eps", &GroupNormParam::eps).Default(1e-5).AtLeast(0.0).Describe("Added to the variance.");
    s.Field("output_mean_var", &GroupNormParam::output_mean_var).Default(false)
        .Describe("Show mean and std as outputs. No gradient flows through them.");
  }
};

// Row r, of n elements that lie together, is group r % groups of sample r / groups.
template <class C>
struct NormalizeGroup {
  int64_t n, groups;
  In<C> x, gamma, beta;
  Out<C> y, mean, std;
  double eps;
  bool set_y, set_mean, set_std;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t begin = row * n;
    const C count = static_cast<C>(n);
    const C m = g.Sum(n, [&](int64_t i) { return x[begin + i]; }) / count;
    const C v = g.Sum(n, [&](int64_t i) {
      const C d = x[begin + i] - m;
      return d * d;
    }) / count;
    const C s = math::Sqrt(v + static_cast<C>(eps));
    if (set_y) {
      const C scale = gamma[row % groups], shift = beta[row % groups];
      g.ForEach(n, [&](int64_t i) { y.Set(begin + i, (x[begin + i] - m) / s * scale + shift); });
    }
    if (!g.first()) return;
    if (set_mean) mean.Set(row, m);
    if (set_std) std.Set(row, s);
  }
};

template <class D>
absl::Status Normalize(const OpContext& ctx, int64_t groups, double eps, absl::Span<const TBlob> in,
                       absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  const int64_t rows = in[0].shape[0] * groups;
  if (rows == 0) return absl::OkStatus();
  const bool shown = out.size() > 1;
  return DispatchReal(out[0].dtype, [&](auto c) {
    using C = decltype(c);
    const int64_t n = in[0].Size() / rows;
    return ForEachGroup<D>(ctx, rows, n,
                           NormalizeGroup<C>{n, groups, In<C>(in[0]), In<C>(in[1]), In<C>(in[2]),
                                             Out<C>(out[0], req[0]), shown ? Out<C>(out[1], req[1]) : Out<C>(),
                                             shown ? Out<C>(out[2], req[2]) : Out<C>(), eps, req[0] != kNullOp,
                                             shown && req[1] != kNullOp, shown && req[2] != kNullOp});
  });
}

struct InstanceNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    return Normalize<D>(ctx, in[0].shape[1], attrs.param<InstanceNormParam>().eps, in, req, out);
  }
};
struct GroupNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& p = attrs.param<GroupNormParam>();
    return Normalize<D>(ctx, p.num_groups, p.eps, in, req, out);
  }
};

// x and y alike, (batch, channels, ...).
absl::Status DataShape(ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  const Shape& x = (*in)[0];
  if (!x.rank_known() || x.ndim() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected rank 2 or more: batch and channels"));
}

absl::StatusOr<bool> InstanceShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  RETURN_IF_ERROR(DataShape(in, out));
  if (!(*in)[0].rank_known()) return false;
  const Shape channels = {(*in)[0][1]};
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(in, i, channels);
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> GroupShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const int64_t groups = attrs.param<GroupNormParam>().num_groups;
  RETURN_IF_ERROR(DataShape(in, out));
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(in, i, Shape({groups}));
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  if (x[1] >= 0 && x[1] % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has ", x[1], " channels, expected a multiple of num_groups, ", groups));
  }
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(out, i, Shape({x[0], groups}));
  return AllKnown(*in) && AllKnown(*out);
}

template <class D>
absl::Status BackwardNormalize(const OpContext& ctx, int64_t groups, double eps, absl::Span<const TBlob> in,
                               absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  const Shape& x = in[1].shape;
  return BackwardNorm<D>(ctx, {{x[0] * groups, x.Size(1, x.ndim()) / groups, 1}, groups, eps}, in, req, out);
}

struct BackwardInstanceNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    return BackwardNormalize<D>(ctx, in[1].shape[1], attrs.param<InstanceNormParam>().eps, in, req, out);
  }
};
struct BackwardGroupNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& p = attrs.param<GroupNormParam>();
    return BackwardNormalize<D>(ctx, p.num_groups, p.eps, in, req, out);
  }
};

// The groups' axis becomes the last, so that gamma gets there by broadcasting. `split`: Reshape's codes that give the
// groups an axis of their own, axis 1; empty when the channels are the groups.
Gradients SecondGradient(const NodePtr& node, const Gradients& heads, double eps, const std::string& split) {
  const AttrDict swap = {{"dim1", "1"}, {"dim2", "-1"}};
  const auto to_last = [&](const NodeEntry& e) {
    return Call("SwapAxis", {split.empty() ? e : Call("Reshape", {e}, {{"shape", split}})}, swap);
  };
  const auto back = [&](const NodeEntry& e) {
    const NodeEntry swapped = Call("SwapAxis", {e}, swap);
    return split.empty() ? swapped : Call("reshape_like", {swapped, node->inputs[1]});
  };
  const AttrDict others = {{"axis", "(0, -1)"}, {"exclude", "True"}, {"keepdims", "True"}};
  return NormSecondGradient(node, heads, eps, {others, to_last, back});
}

void InitOnCompose(const NodeAttrs&, NodeAttrs* variable, int index) {
  if (index > 0) variable->dict.emplace("__init__", index == 1 ? "[\"one\", {}]" : "[\"zero\", {}]");
}

#define GROUP_NORM(name, P, parameter)                                                            \
  GLUOND_REGISTER_OP(name)                                                                        \
      .add_argument("data", "NDArray", "x: (batch, channels, ...).")                              \
      .add_argument("gamma", "NDArray", parameter)                                                \
      .add_argument("beta", "NDArray", parameter)                                                 \
      .add_arguments(P::__FIELDS__())                                                             \
      .set_attr_parser(ParamParser<P>)                                                            \
      .set_num_inputs(3)                                                                          \
      .set_attr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose", InitOnCompose)            \
      .set_attr<FInferType>("FInferType", SameFloatType)                                          \
      .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) {            \
        return OutputsOf(                                                                         \
            Call("_backward_" #name, {dy[0], node->inputs[0], node->inputs[1]}, node->attrs.dict)); \
      })                                                                                          \
      .compute<name>()

#define BACKWARD_GROUP_NORM(name, P)                                                              \
  GLUOND_REGISTER_OP(_backward_##name)                                                            \
      .describe("The gradients of " #name "'s data, gamma and beta.")                             \
      .add_argument("out_grad", "NDArray", "dL/dy.")                                              \
      .add_argument("data", "NDArray", "x.")                                                      \
      .add_argument("gamma", "NDArray", "gamma.")                                                 \
      .add_arguments(P::__FIELDS__())                                                             \
      .set_attr_parser(ParamParser<P>)                                                            \
      .set_num_inputs(3)                                                                          \
      .set_num_outputs(3)                                                                         \
      .set_attr<FInferShape>("FInferShape", BackwardNormShape)                                    \
      .set_attr<FInferType>("FInferType", SameFloatType)                                          \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)                                  \
      .compute<Backward##name>()

GROUP_NORM(InstanceNorm, InstanceNormParam, "(channels).")
    .describe("y = gamma (x - mean) / sqrt(var + eps) + beta, with mean and biased variance of each channel of each "
              "sample.")
    .set_attr<FInferShape>("FInferShape", InstanceShape);

BACKWARD_GROUP_NORM(InstanceNorm, InstanceNormParam)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& heads) {
      return SecondGradient(node, heads, node->param<InstanceNormParam>().eps, "");
    });

GROUP_NORM(GroupNorm, GroupNormParam, "(num_groups).")
    .describe("y = gamma (x - mean) / sqrt(var + eps) + beta, with mean and biased variance of each group of channels "
              "of each sample.")
    .set_num_outputs(3)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs",
                                  [](const NodeAttrs& attrs) {
                                    return attrs.param<GroupNormParam>().output_mean_var ? 3u : 1u;
                                  })
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs&) {
                                  return std::vector<std::string>{"output", "mean", "std"};
                                })
    .set_attr<FInferShape>("FInferShape", GroupShape);

BACKWARD_GROUP_NORM(GroupNorm, GroupNormParam)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& heads) {
      const auto& p = node->param<GroupNormParam>();
      return SecondGradient(node, heads, p.eps, absl::StrCat("(0, -4, ", p.num_groups, ", -1, -2)"));
    });

}  // namespace
}  // namespace gluond::ops
