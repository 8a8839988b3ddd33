// InstanceNorm and GroupNorm: y = gamma (x - mean) / std + beta, with mean and biased variance of each channel, or
// group of neighbouring channels, of each sample; std = sqrt(variance + eps). As in MXNet, gamma and beta have one
// element for each channel, or each group. The gradient is one kernel (ops/kernel/backward_norm.h), and its own
// gradient a graph of operators (ops/norm_gradient.h).

#include "ops/kernel/backward_norm.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/norm_gradient.h"
#include "ops/operator.h"

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
    s.Field("num_groups", &GroupNormParam::num_groups)
        .Default(1)
        .Range(1, int64_t{1} << 31)
        .Describe("Parts that the channels are split into.");
    s.Field("eps", &GroupNormParam::eps).Default(1e-5).AtLeast(0.0).Describe("Added to the variance.");
    s.Field("output_mean_var", &GroupNormParam::output_mean_var)
        .Decides()
        .Default(false)
        .Describe("Show mean and std as outputs. No gradient flows through them.");
  }
};

// Row r, of n elements that lie together, is group r % groups of sample r / groups.
template <class C, class X, class Y>
struct NormalizeGroup {
  int64_t n, groups;
  X x;
  In<C> gamma, beta;
  Y y;
  Out<C> mean, std;
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

// How many groups the channels of a sample make.
int64_t GroupsOf(const InstanceNormParam&, const Shape& x) { return x[1]; }
int64_t GroupsOf(const GroupNormParam& p, const Shape&) { return p.num_groups; }

template <class P>
struct GroupNormNormalize {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const P& p = attrs.param<P>();
    const int64_t groups = GroupsOf(p, in[0].shape), rows = in[0].shape[0] * groups;
    if (rows == 0) return absl::OkStatus();
    const bool shown = out.size() > 1;
    return WithAccess(out[0].dtype, {in[0].dtype}, req[0] == kAddTo, [&](auto c, auto* in_type, auto* out_type) {
      using C = decltype(c);
      using X = std::remove_pointer_t<decltype(in_type)>;
      using Y = std::remove_pointer_t<decltype(out_type)>;
      const int64_t n = in[0].Size() / rows;
      return ForEachGroup<D>(
          ctx, rows, n,
          NormalizeGroup<C, X, Y>{n, groups, X(in[0]), In<C>(in[1]), In<C>(in[2]), Y(out[0], req[0]),
                                  shown ? Out<C>(out[1], req[1]) : Out<C>(), shown ? Out<C>(out[2], req[2]) : Out<C>(), p.eps,
                                  req[0] != kNullOp, shown && req[1] != kNullOp, shown && req[2] != kNullOp});
    });
  }
};

absl::Status CheckData(const Shape& x) { return CheckRank(x, 2, ": batch and channels"); }

absl::StatusOr<bool> InstanceShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  RETURN_IF_ERROR(CheckData((*in)[0]));
  if (!(*in)[0].rank_known()) return false;
  const Shape channels = {(*in)[0][1]};
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(in, i, channels);
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> GroupShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const int64_t groups = attrs.param<GroupNormParam>().num_groups;
  RETURN_IF_ERROR(CheckData((*in)[0]));
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

template <class P>
struct GroupNormBackwardNormalize {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const P& p = attrs.param<P>();
    const Shape& x = in[1].shape;
    const int64_t groups = GroupsOf(p, x);
    return BackwardNorm<D>(ctx, {{x[0] * groups, x.Size(1, x.ndim()) / groups, 1}, groups, p.eps}, in, req, out);
  }
};

// The groups' axis becomes the last, so that gamma gets there by broadcasting. `split`: Reshape's codes that give the
// groups an axis of their own, axis 1; empty when the channels are the groups.
Gradients GroupNormSecondGradient(const NodePtr& node, const Gradients& heads, double eps, const std::string& split) {
  const AttrDict swap = {{"dim1", "1"}, {"dim2", "-1"}};
  const auto to_last = [&](const NodeEntry& e) {
    return Call("SwapAxis", {split.empty() ? e : Call("Reshape", {e}, {{"shape", split}})}, swap);
  };
  const auto back = [&](const NodeEntry& e) {
    const NodeEntry swapped = Call("SwapAxis", {e}, swap);
    // Wide, as all of this is: of one type with what it gives its shape to.
    return split.empty() ? swapped : Call("reshape_like", {swapped, Call("_widen", {node->inputs[1]})});
  };
  const AttrDict others = {{"axis", "(0, -1)"}, {"exclude", "True"}, {"keepdims", "True"}};
  return NormSecondGradient(node, heads, eps, {others, to_last, back});
}

#define GROUP_NORM(name, P, gamma)                                   \
  GLUOND_REGISTER_OP(name)                                           \
      .add_argument("data", "NDArray", "x: (batch, channels, ...).") \
      .with(NormFacts("_backward_" #name, gamma))                    \
      .params<P>()                                                   \
      .compute<GroupNormNormalize<P>>()
#define BACKWARD_GROUP_NORM(name, P)                                  \
  GLUOND_REGISTER_OP(_backward_##name)                                \
      .describe("The gradients of " #name "'s data, gamma and beta.") \
      .with(BackwardNormFacts)                                        \
      .params<P>()                                                    \
      .compute<GroupNormBackwardNormalize<P>>()

GROUP_NORM(InstanceNorm, InstanceNormParam, "(channels).")
    .describe(
        "y = gamma (x - mean) / sqrt(var + eps) + beta, with mean and biased variance of each channel of each "
        "sample.")
    .infer(LikeFirst<InstanceShape>(), SameFloatType);

BACKWARD_GROUP_NORM(InstanceNorm, InstanceNormParam)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& heads) {
      return GroupNormSecondGradient(node, heads, node->param<InstanceNormParam>().eps, "");
    });

GROUP_NORM(GroupNorm, GroupNormParam, "(num_groups).")
    .describe(
        "y = gamma (x - mean) / sqrt(var + eps) + beta, with mean and biased variance of each group of channels "
        "of each sample.")
    .with(MeanAndStd<GroupNormParam>)
    .infer(LikeFirst<GroupShape>(), SameFloatType);

BACKWARD_GROUP_NORM(GroupNorm, GroupNormParam).set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& heads) {
  const auto& p = node->param<GroupNormParam>();
  return GroupNormSecondGradient(node, heads, p.eps, absl::StrCat("(0, -4, ", p.num_groups, ", -1, -2)"));
});

}  // namespace
}  // namespace gluond::ops
