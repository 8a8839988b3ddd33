// LayerNorm: y = gamma (x - mean) / std + beta along an axis, std = sqrt(variance + eps) with the biased variance. The
// gradient is one kernel (ops/kernel/backward_norm.h), and its own gradient a graph (ops/norm_gradient.h).

#include "ops/kernel/backward_norm.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/norm_gradient.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct LayerNormParam : Param<LayerNormParam> {
  int axis;
  double eps;
  bool output_mean_var;
  static void Fields(Schema<LayerNormParam>& s) {
    s.Field("axis", &LayerNormParam::axis).Default(-1).Describe("The axis to normalize.");
    s.Field("eps", &LayerNormParam::eps).Default(1e-5).AtLeast(0.0).Describe("Added to the variance.");
    s.Field("output_mean_var", &LayerNormParam::output_mean_var)
        .Decides()
        .Default(false)
        .Describe("Show mean and std as outputs. No gradient flows through them.");
  }
};

template <class C, class X, class Y>
struct NormalizeRow {
  RowGeometry rows;
  X x, gamma, beta;
  Y y;
  Out<C> mean, std;
  double eps;
  bool set_y, set_mean, set_std;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    rows.inner == 1 ? Normalize<true>(g, row) : Normalize<false>(g, row);
  }

 private:
  // `dense`: a row's elements lie together, so that g++ vectorizes.
  template <bool dense, class Group>
  HOST_DEVICE void Normalize(Group g, int64_t row) const {
    const int64_t begin = rows.begin(row), step = dense ? 1 : rows.inner, n = rows.n;
    const C count = static_cast<C>(n);
    const C m = g.Sum(n, [&](int64_t i) { return x[begin + i * step]; }) / count;
    const C v = g.Sum(n, [&](int64_t i) {
      const C d = x[begin + i * step] - m;
      return d * d;
    }) / count;
    const C s = math::Sqrt(v + static_cast<C>(eps));
    if (set_y) g.ForEach(n, [&](int64_t i) { y.Set(begin + i * step, (x[begin + i * step] - m) / s * gamma[i] + beta[i]); });
    if (!g.first()) return;
    if (set_mean) mean.Set(row, m);
    if (set_std) std.Set(row, s);
  }
};

struct LayerNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<LayerNormParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, in[0].shape.ndim()));
    const RowGeometry rows = RowsOf(in[0].shape, axis);
    return WithAccess(
        out[0].dtype, {in[0].dtype, in[1].dtype, in[2].dtype}, req[0] == kAddTo, [&](auto c, auto* in_type, auto* out_type) {
          using C = decltype(c);
          using X = std::remove_pointer_t<decltype(in_type)>;
          using Y = std::remove_pointer_t<decltype(out_type)>;
          return ForEachGroup<D>(
              ctx, rows.rows(), 4 * rows.n,  // Three passes over a row, with divisions.
              NormalizeRow<C, X, Y>{rows, X(in[0]), X(in[1]), X(in[2]), Y(out[0], req[0]), Out<C>(out[1], req[1]),
                                    Out<C>(out[2], req[2]), p.eps, req[0] != kNullOp, req[1] != kNullOp, req[2] != kNullOp});
        });
  }
};

absl::StatusOr<bool> LayerNormShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape row = (*in)[0];
  if (!row.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<LayerNormParam>().axis, row.ndim()));
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(in, i, Shape({row[axis]}));
  row[axis] = 1;
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(out, i, row);
  return AllKnown(*in) && AllKnown(*out);
}

struct BackwardLayerNorm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<LayerNormParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, in[1].shape.ndim()));
    return BackwardNorm<D>(ctx, {RowsOf(in[1].shape, axis), /*groups=*/0, p.eps}, in, req, out);
  }
};

// gamma lies along the axis. It broadcasts against the last axis, so that x's axis is made the last.
Gradients LayerNormSecondGradient(const NodePtr& node, const Gradients& heads) {
  const auto& p = node->param<LayerNormParam>();
  const AttrDict swap = {{"dim1", absl::StrCat(p.axis)}, {"dim2", "-1"}};
  const auto to_last = [&](const NodeEntry& e) { return p.axis == -1 ? e : Call("SwapAxis", {e}, swap); };
  return NormSecondGradient(node, heads, p.eps, {{{"axis", "-1"}, {"keepdims", "True"}}, to_last, to_last});
}

GLUOND_REGISTER_OP(LayerNorm)
    .describe("y = gamma (x - mean) / sqrt(var + eps) + beta, with mean and biased variance along an axis.")
    .add_argument("data", "NDArray", "x.")
    .with(NormFacts("_backward_LayerNorm", "As long as the axis."))
    .params<LayerNormParam>()
    .with(MeanAndStd<LayerNormParam>)
    .infer(LikeFirst<LayerNormShape>(), SameFloatType)
    .compute<LayerNorm>();

GLUOND_REGISTER_OP(_backward_LayerNorm)
    .describe("The gradients of LayerNorm's data, gamma and beta.")
    .with(BackwardNormFacts)
    .params<LayerNormParam>()
    .set_attr<FGradient>("FGradient", LayerNormSecondGradient)
    .compute<BackwardLayerNorm>();

}  // namespace
}  // namespace gluond::ops
