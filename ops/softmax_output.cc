// SoftmaxOutput: softmax whose gradient is that of the cross-entropy with the labels, whatever head gradient comes in:
// dx = grad_scale (y - onehot(label)) / normalization. And softmax_cross_entropy, that loss as a number.

#include "ops/kernel/labels.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum SoftmaxOutputNormalization { kSoftmaxNull, kSoftmaxBatch, kSoftmaxValid };

struct SoftmaxOutputParam : Param<SoftmaxOutputParam> {
  double grad_scale, ignore_label, smooth_alpha;
  bool multi_output, use_ignore, preserve_shape, out_grad;
  int normalization;

  static void Fields(Schema<SoftmaxOutputParam>& s) {
    using P = SoftmaxOutputParam;
    s.Field("grad_scale", &P::grad_scale).Default(1.0).Describe("Multiplies the gradient.");
    s.Field("ignore_label", &P::ignore_label)
        .Default(-1.0)
        .Range(-0x1p31, 0x1p31)
        .Describe("With use_ignore, rows of this label have gradient 0.");
    s.Field("multi_output", &P::multi_output).Default(false).Describe("Softmax along axis 1; a label for each other position.");
    s.Field("use_ignore", &P::use_ignore).Default(false).Describe("Heed ignore_label.");
    s.Field("preserve_shape", &P::preserve_shape)
        .Default(false)
        .Describe("Softmax along the last axis, a label for each row; otherwise along all axes but the first together.");
    s.Field("normalization", &P::normalization)
        .Enum({{"null", kSoftmaxNull}, {"batch", kSoftmaxBatch}, {"valid", kSoftmaxValid}})
        .Default("null")
        .Describe("Divide the gradient by nothing, by the number of labels (batch), or of those not ignored (valid).");
    s.Field("out_grad", &P::out_grad).Default(false).Describe("Multiply the gradient with that of the output.");
    s.Field("smooth_alpha", &P::smooth_alpha)
        .Default(0.0)
        .Range(0.0, 1.0)
        .Describe("Part of the label's probability that is spread over the other classes.");
  }
};

RowGeometry SoftmaxOutputRowsOf(const SoftmaxOutputParam& p, const Shape& x) {
  if (p.multi_output) return ops::RowsOf(x, 1);
  const int split = p.preserve_shape ? x.ndim() - 1 : 1;
  return {x.Size(0, split), x.Size(split, x.ndim()), 1};
}

// Labels are classes, one for each row, or probabilities of the shape of x.
absl::StatusOr<bool> SoftmaxOutputShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector*) {
  const auto& param = attrs.param<SoftmaxOutputParam>();
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  RETURN_IF_ERROR(CheckRank(x, 2));
  if (!x.known()) return false;
  const Shape label = (*in)[1];
  if (label == x) return true;
  Shape rows = {x[0]}, ones = x;
  if (param.multi_output) {
    ones[1] = 1;  // MXNet takes labels of the shape of x without axis 1, with size 1 there, or as a matrix.
    if (label == ones || (label.ndim() == 2 && label == Shape({x[0], x.Size(2, x.ndim())}))) return true;
    rows = Shape(x.begin(), x.begin() + 1);
    for (int axis = 2; axis < x.ndim(); ++axis) rows.Append(x[axis]);
  } else if (param.preserve_shape) {
    rows = Shape(x.begin(), x.end() - 1);
  }
  SHAPE_ASSIGN_CHECK(in, 1, rows);
  return true;
}

struct Probabilities {
  template <class Group, class X, class Y>
  HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
    const auto max = g.Max(n, [&](int64_t i) { return x[i]; });
    const auto sum = g.Sum(n, [&](int64_t i) { return math::Exp(x[i] - max); });
    g.ForEach(n, [&](int64_t i) { y.Set(i, math::Exp(x[i] - max) / sum); });
  }
};

struct SoftmaxOutput {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return Rows<D, 1>(ctx, SoftmaxOutputRowsOf(attrs.param<SoftmaxOutputParam>(), in[0].shape), Probabilities(), in.data(), req[0],
                      out[0]);
  }
};

// How many labels are not ignored, 1 at least.
struct SoftmaxOutputCountValid {
  Labels labels;
  int64_t rows;
  double* count;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const double valid = g.Sum(rows, [&](int64_t r) { return static_cast<int64_t>(labels.label[r]) == labels.ignore ? 0.0 : 1.0; });
    if (g.first()) *count = valid > 0 ? valid : 1;
  }
};

template <class C>
struct ClassGradient {
  RowGeometry rows;
  Labels labels;
  In<C> y, dy;
  Out<C> dx;
  double scale, alpha;
  const double* count;  // Divides, unless null.
  bool out_grad;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t label = labels[row], begin = rows.begin(row);
    const C factor = static_cast<C>(count == nullptr ? scale : scale / *count);
    const C hit = static_cast<C>(1 - alpha), miss = rows.n > 1 ? static_cast<C>(alpha / (rows.n - 1)) : C(0);
    g.ForEach(rows.n, [&](int64_t j) {
      const int64_t i = begin + j * rows.inner;
      C d = label == Labels::kIgnored ? C(0) : factor * (y[i] - (j == label ? hit : miss));
      if (label == Labels::kNoClass) d = std::numeric_limits<C>::quiet_NaN();
      dx.Set(i, out_grad && label != Labels::kIgnored ? d * dy[i] : d);
    });
  }
};

template <class C>
struct ProbabilityGradient {
  In<C> y, label, dy;
  Out<C> dx;
  double scale;
  bool out_grad;
  HOST_DEVICE void operator()(int64_t i) const {
    const C d = static_cast<C>(scale) * (y[i] - label[i]);
    dx.Set(i, out_grad ? d * dy[i] : d);
  }
};

struct BackwardSoftmaxOutput {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& param = attrs.param<SoftmaxOutputParam>();
    const TBlob &y = in[0], &label = in[1], &dx = out[0];
    if (req[0] == kNullOp || y.Size() == 0) return absl::OkStatus();
    const TBlob& dy = param.out_grad ? in[2] : y;
    if (label.shape == y.shape) {
      return DispatchReal(y.dtype, [&]<class C>(C) {
        return ForEach<D>(
            ctx, y.Size(),
            ProbabilityGradient<C>{In<C>(y), In<C>(label), In<C>(dy), Out<C>(dx, req[0]), param.grad_scale, param.out_grad});
      });
    }
    const RowGeometry rows = SoftmaxOutputRowsOf(param, y.shape);
    const Labels labels = {In<double>(label), rows.n, param.use_ignore, static_cast<int64_t>(param.ignore_label)};
    RETURN_IF_ERROR(CheckLabels<D>(labels, rows.rows()));
    double scale = param.grad_scale;
    double* count = nullptr;
    if (param.normalization == kSoftmaxValid) {
      ASSIGN_OR_RETURN(count, Space<double>(ctx, 1));
      RETURN_IF_ERROR(ForEachGroup<D>(ctx, 1, rows.rows(), SoftmaxOutputCountValid{labels, rows.rows(), count}));
    } else {
      scale /= rows.inner;
      if (param.normalization == kSoftmaxBatch) scale /= rows.outer;
    }
    return DispatchReal(y.dtype, [&]<class C>(C) {
      return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                             ClassGradient<C>{rows, labels, In<C>(y), In<C>(dy), Out<C>(dx, req[0]), scale, param.smooth_alpha,
                                              count, param.out_grad});
    });
  }
};

Gradients SoftmaxOutputGradient(const NodePtr& node, const Gradients& dy) {
  std::vector<NodeEntry> inputs = {Output(node), node->inputs[1]};
  if (node->param<SoftmaxOutputParam>().out_grad) inputs.push_back(dy[0]);
  return {Call("_backward_SoftmaxOutput", std::move(inputs), node->attrs.dict), {}};
}

GLUOND_REGISTER_OP(SoftmaxOutput)
    .describe(
        "softmax(x). Its gradient is that of the cross-entropy with the labels, grad_scale (y - onehot(label)) / "
        "normalization, whatever the gradient of the output is (unless out_grad). A label that is no class is an "
        "error on a CPU; on a GPU its row's gradient is NaN.")
    .add_alias("Softmax")
    .add_argument("data", "NDArray", "x: (batch, classes), or more axes; see multi_output and preserve_shape.")
    .add_argument("label", "NDArray", "The class of each row, of any type; or probabilities, of the shape of x.")
    .params<SoftmaxOutputParam>()
    .set_num_inputs(2)
    .infer(LikeFirst<SoftmaxOutputShape>(), LabelledType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FBeginsGradient>("FBeginsGradient",
                               [](const NodeAttrs& attrs) { return !attrs.param<SoftmaxOutputParam>().out_grad; })
    .set_attr<FGradient>("FGradient", SoftmaxOutputGradient)
    .compute<SoftmaxOutput>();

GLUOND_REGISTER_OP(_backward_SoftmaxOutput)
    .describe("The gradient of SoftmaxOutput's data.")
    .add_argument("output", "NDArray", "y.")
    .add_argument("label", "NDArray", "As SoftmaxOutput's.")
    .add_argument("out_grad", "NDArray", "dL/dy; with out_grad only.")
    .params<SoftmaxOutputParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return attrs.param<SoftmaxOutputParam>().out_grad ? 3u : 2u; })
    .infer(LikeFirst<SoftmaxOutputShape>(), LabelledType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BackwardSoftmaxOutput>();

// The loss of each row: log(sum_j e^x[j]) - x[label].
template <class C>
struct RowLoss {
  RowGeometry rows;
  Labels labels;
  In<C> x;
  C* loss;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t label = labels[row], begin = rows.begin(row);
    const C max = g.Max(rows.n, [&](int64_t j) { return x[begin + j]; });
    const C sum = g.Sum(rows.n, [&](int64_t j) { return math::Exp(x[begin + j] - max); });
    if (!g.first()) return;
    loss[row] = label < 0 ? std::numeric_limits<C>::quiet_NaN() : math::Log(sum) + max - x[begin + label];
  }
};
template <class C>
struct SumOf {
  int64_t n;
  const C* x;
  Out<C> y;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const C sum = g.Sum(n, [&](int64_t i) { return x[i]; });
    if (g.first()) y.Set(0, sum);
  }
};

struct SoftmaxCrossEntropy {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const RowGeometry rows = ops::RowsOf(in[0].shape, 1);
    const Labels labels = {In<double>(in[1]), rows.n};
    RETURN_IF_ERROR(CheckLabels<D>(labels, rows.rows()));
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(C * loss, Space<C>(ctx, rows.rows()));
      RETURN_IF_ERROR(ForEachGroup<D>(ctx, rows.rows(), rows.n, RowLoss<C>{rows, labels, In<C>(in[0]), loss}));
      return ForEachGroup<D>(ctx, 1, rows.rows(), SumOf<C>{rows.rows(), loss, Out<C>(out[0], req[0])});
    });
  }
};

// dx = (softmax(x) - onehot(label)) dy.
template <class C>
struct CrossEntropyGradient {
  RowGeometry rows;
  Labels labels;
  In<C> dy, x;
  Out<C> dx;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t label = labels[row], begin = rows.begin(row);
    const C factor = label < 0 ? std::numeric_limits<C>::quiet_NaN() : dy[0];
    const C max = g.Max(rows.n, [&](int64_t j) { return x[begin + j]; });
    const C sum = g.Sum(rows.n, [&](int64_t j) { return math::Exp(x[begin + j] - max); });
    g.ForEach(rows.n,
              [&](int64_t j) { dx.Set(begin + j, factor * (math::Exp(x[begin + j] - max) / sum - (j == label ? C(1) : C(0)))); });
  }
};

struct BackwardSoftmaxCrossEntropy {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const RowGeometry rows = ops::RowsOf(in[1].shape, 1);
    const Labels labels = {In<double>(in[2]), rows.n};
    RETURN_IF_ERROR(CheckLabels<D>(labels, rows.rows()));
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                             CrossEntropyGradient<C>{rows, labels, In<C>(in[0]), In<C>(in[1]), Out<C>(out[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(softmax_cross_entropy)
    .describe(
        "The sum over the rows of log(sum_j exp(x[j])) - x[label]. A label that is no class is an error on a CPU; on "
        "a GPU the loss is NaN.")
    .add_argument("data", "NDArray", "x: (batch, classes).")
    .add_argument("label", "NDArray", "The class of each row, of any type.")
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(2));
                             SHAPE_ASSIGN_CHECK(in, 1, Shape({(*in)[0][0]}));
                             SHAPE_ASSIGN_CHECK(in, 0, Shape({(*in)[1][0], Shape::kUnknown}));
                             SHAPE_ASSIGN_CHECK(out, 0, Shape({1}));
                             return AllKnown(*in);
                           })
    .set_attr<FInferType>("FInferType", LabelledType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_softmax_cross_entropy", {dy[0], node->inputs[0], node->inputs[1]}), {}};
                         })
    .compute<SoftmaxCrossEntropy>();

GLUOND_REGISTER_OP(_backward_softmax_cross_entropy)
    .describe("dx = dy (softmax(x) - onehot(label)).")
    .add_argument("out_grad", "NDArray", "dL/dy: (1).")
    .add_argument("data", "NDArray", "x.")
    .add_argument("label", "NDArray", "The class of each row.")
    .set_num_inputs(3)
    .infer(ShapesOfInputs<1>, TypesOfInputs<1>)
    .compute<BackwardSoftmaxCrossEntropy>();

}  // namespace
}  // namespace gluond::ops
