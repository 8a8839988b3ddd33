// CTCLoss, connectionist temporal classification (Graves et al., 2006): -log of the probability that a network's
// outputs, softmax(x) at each step, spell the label. The label's classes may be spread over the steps, repeated, and
// separated by blanks. The paths' states are s = 0 .. 2 L: the label's classes (odd s) with blanks around them (even).
//   alpha[t][s]: log of the probability of all ways to be in s at step t, having passed the states before,
//   beta[t][s]: log of the probability of all ways to finish from there,
//   dL/dx[t][k] = softmax(x[t])[k] - sum over the states s of class k of exp(alpha[t][s] + beta[t][s] + L).

#include <limits>

#include "ops/elements.h"
#include "ops/kernel/length.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum Blank { kFirst, kLast };

struct CTCLossParam : Param<CTCLossParam> {
  bool use_data_lengths, use_label_lengths;
  int blank_label;
  static void Fields(Schema<CTCLossParam>& s) {
    s.Field("use_data_lengths", &CTCLossParam::use_data_lengths).Decides().Default(false).Describe("Heed data_lengths.");
    s.Field("use_label_lengths", &CTCLossParam::use_label_lengths)
        .Decides()
        .Default(false)
        .Describe("Heed label_lengths; otherwise a label ends before its first padding.");
    s.Field("blank_label", &CTCLossParam::blank_label)
        .Enum({{"first", kFirst}, {"last", kLast}})
        .Default("first")
        .Describe("The blank is class 0 and padding is 0 (first), or it is the last class and padding is -1 (last).");
  }
};

// Inputs: data, label, then the lengths, as the parameters say.
struct Sequences {
  int64_t steps, batch, classes, label_size;
  bool blank_first, has_data_lengths, has_label_lengths;
  In<double> label, data_length, label_length;

  Sequences(const CTCLossParam& p, Blobs in)
      : steps(in[0].shape[0]),
        batch(in[0].shape[1]),
        classes(in[0].shape[2]),
        label_size(in[1].shape[1]),
        blank_first(p.blank_label == kFirst),
        has_data_lengths(p.use_data_lengths),
        has_label_lengths(p.use_label_lengths),
        label(in[1]) {
    if (has_data_lengths) data_length = In<double>(in[2]);
    if (has_label_lengths) label_length = In<double>(in[has_data_lengths ? 3 : 2]);
  }

  HOST_DEVICE int64_t blank() const { return blank_first ? 0 : classes - 1; }
  HOST_DEVICE int64_t Steps(int64_t n) const { return has_data_lengths ? ToLength(data_length[n], steps) : steps; }
  HOST_DEVICE int64_t LabelSize(int64_t n) const {
    if (has_label_lengths) return ToLength(label_length[n], label_size);
    const double padding = blank_first ? 0 : -1;
    int64_t size = 0;
    while (size < label_size && label[n * label_size + size] != padding) ++size;
    return size;
  }
  // The class of element i of label n, or -1 for a number that is no class.
  HOST_DEVICE int64_t Class(int64_t n, int64_t i) const {
    const double v = label[n * label_size + i], low = blank_first ? 1 : 0;
    return v >= low && v < low + static_cast<double>(classes - 1) ? static_cast<int64_t>(v) : -1;
  }
};

// A CPU names the wrong length or class; on a GPU a bad class makes its sequence's loss NaN, and lengths are cut.
template <class D>
absl::Status Check(const Sequences& q) {
  if constexpr (std::is_same_v<D, cpu>) {
    const auto length = [](const char* what, int64_t n, double v, int64_t most) {
      if (v >= 0 && v <= static_cast<double>(most)) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(what, " of sequence ", n, " is ", v, ", expected 0 to ", most));
    };
    for (int64_t n = 0; n < q.batch; ++n) {
      if (q.has_data_lengths) RETURN_IF_ERROR(length("data_lengths", n, q.data_length[n], q.steps));
      if (q.has_label_lengths) RETURN_IF_ERROR(length("label_lengths", n, q.label_length[n], q.label_size));
      for (int64_t i = 0; i < q.LabelSize(n); ++i) {
        if (q.Class(n, i) >= 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("label ", i, " of sequence ", n, " is ", q.label[n * q.label_size + i],
                                                       ", expected a class from ", q.blank_first ? 1 : 0, " to ",
                                                       q.classes - (q.blank_first ? 1 : 2), "; the blank is class ", q.blank()));
      }
    }
  }
  return absl::OkStatus();
}

// log(e^a + e^b).
template <class C>
HOST_DEVICE C LogAdd(C a, C b) {
  const C high = a > b ? a : b, low = a > b ? b : a;
  return low == -std::numeric_limits<C>::infinity() ? high : high + math::Log1p(math::Exp(low - high));
}

// One sequence, by one group. Every ForEach is a barrier: all threads may read its results afterwards.
template <class C>
struct SequenceLoss {
  Sequences q;
  In<C> x;
  Out<C> loss, dx;
  bool set_loss, set_dx;
  C *norm, *alpha, *beta, *part;  // By sequence: (steps), (steps, states), (2, states), (states).
  int32_t* classes;               // (label_size): its label's.
  static constexpr C kNever = -std::numeric_limits<C>::infinity();

  HOST_DEVICE int64_t states() const { return 2 * q.label_size + 1; }
  HOST_DEVICE int64_t At(int64_t t, int64_t n) const { return (t * q.batch + n) * q.classes; }

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t n) const {
    const int64_t steps = q.Steps(n), size = q.LabelSize(n), last = 2 * size;
    int32_t* const label = classes + n * q.label_size;
    g.ForEach(size, [&](int64_t i) { label[i] = static_cast<int32_t>(q.Class(n, i)); });
    const bool bad = g.Sum(size, [&](int64_t i) { return label[i] < 0 ? C(1) : C(0); }) > 0;
    if (bad) return Finish(g, n, 0, std::numeric_limits<C>::quiet_NaN());

    C* const log_sum = norm + n * q.steps;
    for (int64_t t = 0; t < steps; ++t) {
      const C max = g.Max(q.classes, [&](int64_t k) { return x[At(t, n) + k]; });
      const C sum = g.Sum(q.classes, [&](int64_t k) { return math::Exp(x[At(t, n) + k] - max); });
      g.ForEach(1, [&](int64_t) { log_sum[t] = max + math::Log(sum); });
    }
    // log softmax of state s' class, and whether a path may come to s from s - 2: over a blank between two different
    // classes.
    const auto log_y = [&](int64_t t, int64_t s) { return x[At(t, n) + (s % 2 == 0 ? q.blank() : label[s / 2])] - log_sum[t]; };
    const auto skips = [&](int64_t s) { return s % 2 == 1 && s >= 3 && label[s / 2] != label[s / 2 - 1]; };

    C* const a = alpha + n * q.steps * states();
    for (int64_t t = 0; t < steps; ++t) {
      const C* before = a + (t - 1) * states();
      g.ForEach(last + 1, [&](int64_t s) {
        C ways = kNever;
        if (t == 0) {
          ways = s < 2 ? C(0) : kNever;
        } else {
          ways = before[s];
          if (s > 0) ways = LogAdd(ways, before[s - 1]);
          if (skips(s)) ways = LogAdd(ways, before[s - 2]);
        }
        a[t * states() + s] = ways + log_y(t, s);
      });
    }
    C total = kNever;
    if (steps > 0) {
      const C* end = a + (steps - 1) * states();
      total = last > 0 ? LogAdd(end[last], end[last - 1]) : end[0];
    }
    if (total == kNever) return Finish(g, n, 0, C(0));  // Too few steps for the label: as MXNet, no loss.
    if (set_dx) Backward(g, n, steps, size, a, total, label, log_y, skips);
    Finish(g, n, steps, -total);
  }

  template <class Group, class LogY, class Skips>
  HOST_DEVICE void Backward(Group g, int64_t n, int64_t steps, int64_t size, const C* a, C total, const int32_t* label,
                            const LogY& log_y, const Skips& skips) const {
    const int64_t last = 2 * size;
    C* const state_part = part + n * states();
    for (int64_t t = steps - 1; t >= 0; --t) {
      C* const b = beta + (2 * n + t % 2) * states();
      const C* const after = beta + (2 * n + (t + 1) % 2) * states();
      g.ForEach(last + 1, [&](int64_t s) {
        C ways = kNever;
        if (t == steps - 1) {
          ways = s >= last - 1 ? C(0) : kNever;
        } else {
          ways = after[s] + log_y(t + 1, s);
          if (s < last) ways = LogAdd(ways, after[s + 1] + log_y(t + 1, s + 1));
          if (s + 2 <= last && skips(s + 2)) ways = LogAdd(ways, after[s + 2] + log_y(t + 1, s + 2));
        }
        b[s] = ways;
        state_part[s] = math::Exp(a[t * states() + s] + ways - total);
      });
      const C blank_part = g.Sum(size + 1, [&](int64_t i) { return state_part[2 * i]; });
      const C normal = norm[n * q.steps + t];
      g.ForEach(q.classes, [&](int64_t k) {
        C spelled = 0;
        if (k == q.blank()) {
          spelled = blank_part;
        } else {
          for (int64_t i = 0; i < size; ++i) spelled += label[i] == k ? state_part[2 * i + 1] : C(0);
        }
        dx.Set(At(t, n) + k, math::Exp(x[At(t, n) + k] - normal) - spelled);
      });
    }
  }

  // Sets the loss, and the gradient of the steps from `steps` on, which do not count: 0, or NaN with the loss.
  template <class Group>
  HOST_DEVICE void Finish(Group g, int64_t n, int64_t steps, C value) const {
    if (set_loss && g.first()) loss.Set(n, value);
    const C rest = value == value ? C(0) : value;
    for (int64_t t = steps; set_dx && t < q.steps; ++t) {
      g.ForEach(q.classes, [&](int64_t k) { dx.Set(At(t, n) + k, rest); });
    }
  }
};

struct CTCLoss {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Sequences q(attrs.param<CTCLossParam>(), in);
    RETURN_IF_ERROR(Check<D>(q));
    if (q.batch == 0) return absl::OkStatus();
    return DispatchReal(in[0].dtype, [&]<class C>(C) -> absl::Status {
      const int64_t states = 2 * q.label_size + 1;
      SequenceLoss<C> each = {q,
                              In<C>(in[0]),
                              Out<C>(out[0], req[0]),
                              Out<C>(out[1], req[1]),
                              req[0] != kNullOp,
                              req[1] != kNullOp,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr};
      ASSIGN_OR_RETURN(each.norm, Space<C>(ctx, q.batch * q.steps));
      ASSIGN_OR_RETURN(each.alpha, Space<C>(ctx, q.batch * q.steps * states));
      ASSIGN_OR_RETURN(each.beta, Space<C>(ctx, q.batch * 2 * states));
      ASSIGN_OR_RETURN(each.part, Space<C>(ctx, q.batch * states));
      ASSIGN_OR_RETURN(each.classes, Space<int32_t>(ctx, q.batch * q.label_size));
      return ForEachGroup<D>(ctx, q.batch, q.steps * (states + q.classes), each);
    });
  }
};

// dx[t, n, k] = dy[n] grad[t, n, k].
template <class C>
struct ScaleSequence {
  int64_t batch, classes;
  In<C> dy, grad;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const { dx.Set(i, dy[i / classes % batch] * grad[i]); }
};
struct BackwardCTCLoss {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Shape& x = out[0].shape;
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> dx) {
      return ScaleSequence<C>{x[1], x[2], In<C>(in[0]), In<C>(in[1]), dx};
    });
  }
};

std::vector<std::string> InputNames(const NodeAttrs& attrs) {
  const auto& p = attrs.param<CTCLossParam>();
  std::vector<std::string> names = {"data", "label"};
  if (p.use_data_lengths) names.push_back("data_lengths");
  if (p.use_label_lengths) names.push_back("label_lengths");
  return names;
}

absl::StatusOr<bool> CtcLossShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(3));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({(*in)[0][1], Shape::kUnknown}));
  const Shape x = (*in)[0];
  for (size_t i = 2; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, Shape({x[1]}));
  if (x[2] >= 0 && (x[2] < 2 || x[2] > std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has ", x[2], " classes, expected 2 to 2^31 - 1: the blank and others"));
  }
  if (x.known() && (*in)[1].known()) {
    ASSIGN_OR_RETURN(const int64_t labels, ElementsOf("the labels with their blanks", {2, (*in)[1][1]}));
    RETURN_IF_ERROR(ElementsOf("the states of all steps", {x[0], x[1], labels + 1}).status());
  }
  SHAPE_ASSIGN_CHECK(out, 0, Shape({x[1]}));
  SHAPE_ASSIGN_CHECK(out, 1, x);
  return AllKnown(*in) && AllKnown(*out);
}

// Labels and lengths may have any type; where nothing is said, they have x's.
absl::StatusOr<bool> CtcLossType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  for (int i = 0; i < 2; ++i) {
    TYPE_ASSIGN_CHECK(out, i, (*in)[0]);
    TYPE_ASSIGN_CHECK(in, 0, (*out)[i]);
  }
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  for (size_t i = 1; i < in->size(); ++i) {
    if ((*in)[i] == DType::kUnknown) (*in)[i] = (*in)[0];
  }
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(CTCLoss)
    .describe(
        "-log of the probability that softmax(x) spells the label, its classes repeated and separated by blanks "
        "in any way. A label that has no way through the steps has loss and gradient 0. A class that is none is "
        "an error on a CPU; on a GPU its loss is NaN. A second derivative is not offered.")
    .add_alias("ctc_loss")
    .add_alias("_contrib_CTCLoss")
    .add_alias("_contrib_ctc_loss")
    .add_argument("data", "NDArray", "x: (steps, batch, classes), before any softmax.")
    .add_argument("label", "NDArray", "(batch, size): classes, of any type, with padding behind them.")
    .add_argument("data_lengths", "NDArray", "(batch): how many steps count; with use_data_lengths.")
    .add_argument("label_lengths", "NDArray", "(batch): how many classes a label has; with use_label_lengths.")
    .params<CTCLossParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(InputNames(attrs).size()); })
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListInputNames>("FListInputNames", InputNames)
    .infer(CtcLossShape, CtcLossType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           Gradients dx(node->num_inputs());
                           dx[0] = Call("_backward_CTCLoss", {dy[0], Output(node, 1)});
                           return dx;
                         })
    .compute<CTCLoss>();

GLUOND_REGISTER_OP(_backward_CTCLoss)
    .describe("The gradient of CTCLoss' data: each sequence's, times that of its loss.")
    .add_argument("out_grad", "NDArray", "dL/d(loss): (batch).")
    .add_argument("grad", "NDArray", "CTCLoss' hidden output: (steps, batch, classes).")
    .set_num_inputs(2)
    .infer(ShapesOfInputs<1>, SameFloatType)
    .compute<BackwardCTCLoss>();

}  // namespace
}  // namespace gluond::ops
