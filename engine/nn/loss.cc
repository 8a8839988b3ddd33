#include "engine/nn/loss.h"

#include <optional>
#include <string>
#include <utility>

#include "engine/nn/formula.h"

namespace gluond {
namespace {

std::string Text(int value) { return param_internal::FormatValue(value); }

// The attributes that all losses have.
struct LossAttributes {
  std::optional<double> weight;
  int batch_axis;
};
template <class P>
void CommonFields(Schema<P>& s, std::optional<double> weight = std::nullopt) {
  s.template Field<std::optional<double>>("weight", &P::weight).Default(weight).Describe("Multiplies the loss.");
  s.template Field<int>("batch_axis", &P::batch_axis).Default(0).Describe("The axis of the samples.");
}

class LossFormula : public Formula {
 public:
  LossFormula()
      : Formula([](absl::string_view op, const std::string& suffix, std::vector<NodeEntry> inputs,
                   AttrDict attrs) -> absl::StatusOr<NodeEntry> {
          ASSIGN_OR_RETURN(NodePtr node, TryMakeNode(op, absl::StrCat("__loss_", suffix), std::move(inputs), std::move(attrs)));
          return NodeEntry{std::move(node), 0};
        }) {}

  NodeEntry SoftRelu(NodeEntry x) { return Activation(std::move(x), "softrelu"); }
  NodeEntry LabelLike(const LossInputs& in) { return (*this)("reshape_like", {in.label, in.prediction}); }
  NodeEntry LogSoftmax(NodeEntry x, int axis) { return (*this)("log_softmax", {std::move(x)}, {{"axis", Text(axis)}}); }
  // log(x + epsilon).
  NodeEntry LogOf(NodeEntry x, double epsilon) { return (*this)("log", {Scalar("_plus_scalar", std::move(x), epsilon)}); }
  // relu(x) - x z + log(1 + exp(-|x|)): the cross entropy of sigmoid(x) and z.
  NodeEntry SigmoidCrossEntropy(const NodeEntry& x, const NodeEntry& z) {
    const NodeEntry soft = SoftRelu((*this)("negative", {(*this)("abs", {x})}));
    return Add(Sub((*this)("relu", {x}), Mul(x, z)), soft);
  }

  NodeEntry Weigh(NodeEntry loss, const std::optional<double>& weight, const LossInputs& in) {
    if (in.sample_weight) loss = (*this)("broadcast_mul", {std::move(loss), in.sample_weight});
    return weight.has_value() ? Scalar("_mul_scalar", std::move(loss), *weight) : loss;
  }
  // Weighs, then reduces ("mean" or "sum") all axes but the batch's.
  absl::StatusOr<NodeEntry> Finish(NodeEntry loss, const LossAttributes& common, const LossInputs& in,
                                   absl::string_view reduce = "mean") {
    return Result(
        (*this)(reduce, {Weigh(std::move(loss), common.weight, in)}, {{"axis", Text(common.batch_axis)}, {"exclude", "True"}}));
  }
};

struct L1Param : Param<L1Param>, LossAttributes {
  static void Fields(Schema<L1Param>& s) { CommonFields(s); }
};
absl::StatusOr<NodeEntry> L1(const L1Param& p, const LossInputs& in) {
  LossFormula f;
  return f.Finish(f("abs", {f.Sub(f.LabelLike(in), in.prediction)}), p, in);
}

struct L2Param : Param<L2Param>, LossAttributes {
  static void Fields(Schema<L2Param>& s) { CommonFields(s, 1.0); }
};
absl::StatusOr<NodeEntry> L2(const L2Param& p, const LossInputs& in) {
  LossFormula f;
  LossAttributes half = p;
  if (half.weight.has_value()) *half.weight /= 2;
  return f.Finish(f("square", {f.Sub(f.LabelLike(in), in.prediction)}), half, in);
}

struct SoftmaxParam : Param<SoftmaxParam>, LossAttributes {
  int axis;
  bool sparse_label;
  bool from_logits;
  static void Fields(Schema<SoftmaxParam>& s) {
    s.Field("axis", &SoftmaxParam::axis).Default(-1).Describe("The classes' axis.");
    s.Field("sparse_label", &SoftmaxParam::sparse_label)
        .Default(true)
        .Describe("Labels are class numbers; otherwise probabilities, shaped like the prediction.");
    s.Field("from_logits", &SoftmaxParam::from_logits).Default(false).Describe("Predictions are log probabilities.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> SoftmaxCrossEntropy(const SoftmaxParam& p, const LossInputs& in) {
  LossFormula f;
  const NodeEntry log_p = p.from_logits ? in.prediction : f.LogSoftmax(in.prediction, p.axis);
  const AttrDict keep = {{"axis", Text(p.axis)}, {"keepdims", "True"}};
  // Gluon takes the nearest class for a label that is none. Programs use that for samples that do not count: label -1,
  // weight 0. Without weights such a label is a mistake.
  AttrDict pick = keep;
  if (!in.sample_weight) pick["mode"] = "raise";
  const NodeEntry likelihood =
      p.sparse_label ? f("pick", {log_p, in.label}, pick) : f("sum", {f.Mul(log_p, f("reshape_like", {in.label, log_p}))}, keep);
  return f.Finish(f("negative", {likelihood}), p, in);
}

struct SigmoidParam : Param<SigmoidParam>, LossAttributes {
  bool from_sigmoid;
  std::optional<double> pos_weight;
  static void Fields(Schema<SigmoidParam>& s) {
    s.Field("from_sigmoid", &SigmoidParam::from_sigmoid).Default(false).Describe("Predictions are probabilities.");
    s.Field("pos_weight", &SigmoidParam::pos_weight).Default(std::nullopt).Describe("Of positive labels.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> SigmoidBinaryCrossEntropy(const SigmoidParam& p, const LossInputs& in) {
  LossFormula f;
  const NodeEntry x = in.prediction, z = f.LabelLike(in);
  NodeEntry loss;
  if (p.from_sigmoid) {
    constexpr double kEpsilon = 1e-12;
    NodeEntry positive = f.Mul(f.LogOf(x, kEpsilon), z);
    if (p.pos_weight.has_value()) positive = f.Scalar("_mul_scalar", positive, *p.pos_weight);
    const NodeEntry negative = f.Mul(f.LogOf(f.Scalar("_rminus_scalar", x, 1), kEpsilon), f.Scalar("_rminus_scalar", z, 1));
    loss = f("negative", {f.Add(positive, negative)});
  } else if (!p.pos_weight.has_value()) {
    loss = f.SigmoidCrossEntropy(x, z);
  } else {
    const NodeEntry soft = f.SoftRelu(f("negative", {f("abs", {x})}));
    // Rounded as the float32 array that Gluon takes: its bits are these.
    const double more = static_cast<float>(*p.pos_weight) - 1.0f;
    const NodeEntry log_weight = f.Scalar("_plus_scalar", f.Scalar("_mul_scalar", z, more), 1);
    loss = f.Add(f.Sub(x, f.Mul(x, z)), f.Mul(log_weight, f.Add(soft, f("relu", {f("negative", {x})}))));
  }
  return f.Finish(loss, p, in);
}

struct HuberParam : Param<HuberParam>, LossAttributes {
  double rho;
  static void Fields(Schema<HuberParam>& s) {
    s.Field("rho", &HuberParam::rho).Default(1.0).Above(0).Describe("Where the square becomes a line.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> Huber(const HuberParam& p, const LossInputs& in) {
  LossFormula f;
  const NodeEntry d = f("abs", {f.Sub(f.LabelLike(in), in.prediction)});
  return f.Finish(f("where", {f.Scalar("_greater_scalar", d, p.rho), f.Scalar("_plus_scalar", d, -0.5 * p.rho),
                              f.Scalar("_mul_scalar", f("square", {d}), 0.5 / p.rho)}),
                  p, in);
}

struct HingeParam : Param<HingeParam>, LossAttributes {
  double margin;
  static void Fields(Schema<HingeParam>& s) {
    s.Field("margin", &HingeParam::margin).Default(1.0).Describe("Labels are -1 and 1.");
    CommonFields(s);
  }
};
NodeEntry HingeOf(LossFormula& f, const HingeParam& p, const LossInputs& in) {
  return f("relu", {f.Scalar("_rminus_scalar", f.Mul(in.prediction, f.LabelLike(in)), p.margin)});
}
absl::StatusOr<NodeEntry> Hinge(const HingeParam& p, const LossInputs& in) {
  LossFormula f;
  return f.Finish(HingeOf(f, p, in), p, in);
}
absl::StatusOr<NodeEntry> SquaredHinge(const HingeParam& p, const LossInputs& in) {
  LossFormula f;
  return f.Finish(f("square", {HingeOf(f, p, in)}), p, in);
}

enum LabelFormat { kSigned, kBinary };

struct LogisticParam : Param<LogisticParam>, LossAttributes {
  int label_format;
  static void Fields(Schema<LogisticParam>& s) {
    CommonFields(s);
    s.Field("label_format", &LogisticParam::label_format)
        .Enum({{"signed", kSigned}, {"binary", kBinary}})
        .Default("signed")
        .Describe("Labels are -1 and 1, or 0 and 1.");
  }
};
absl::StatusOr<NodeEntry> Logistic(const LogisticParam& p, const LossInputs& in) {
  LossFormula f;
  NodeEntry z = f.LabelLike(in);
  if (p.label_format == kSigned) z = f.Scalar("_div_scalar", f.Scalar("_plus_scalar", z, 1), 2);
  return f.Finish(f.SigmoidCrossEntropy(in.prediction, z), p, in);
}

struct KLDivParam : Param<KLDivParam>, LossAttributes {
  bool from_logits;
  int axis;
  static void Fields(Schema<KLDivParam>& s) {
    s.Field("from_logits", &KLDivParam::from_logits).Default(true).Describe("Predictions are log probabilities.");
    s.Field("axis", &KLDivParam::axis).Default(-1).Describe("The classes' axis, when from_logits is false.");
    CommonFields(s);
  }
};
NodeEntry KLDivOf(LossFormula& f, const NodeEntry& log_p, const NodeEntry& label) {
  return f.Mul(label, f.Sub(f.LogOf(label, 1e-12), log_p));
}
absl::StatusOr<NodeEntry> KLDiv(const KLDivParam& p, const LossInputs& in) {
  LossFormula f;
  const NodeEntry log_p = p.from_logits ? in.prediction : f.LogSoftmax(in.prediction, p.axis);
  return f.Finish(KLDivOf(f, log_p, in.label), p, in, "sum");
}

enum CtcLayout { kCtcNTC, kCtcTNC, kCtcNT, kCtcTN };

struct CtcParam : Param<CtcParam> {
  int layout, label_layout;
  std::optional<double> weight;
  static void Fields(Schema<CtcParam>& s) {
    s.Field("layout", &CtcParam::layout)
        .Enum({{"NTC", kCtcNTC}, {"TNC", kCtcTNC}})
        .Default("NTC")
        .Describe("Axes of the prediction: N samples, T steps, C classes, of which the last is the blank.");
    s.Field("label_layout", &CtcParam::label_layout)
        .Enum({{"NT", kCtcNT}, {"TN", kCtcTN}})
        .Default("NT")
        .Describe("Axes of the label; short ones are padded with -1.");
    s.Field("weight", &CtcParam::weight).Default(std::nullopt).Describe("Multiplies the loss.");
  }
};
absl::StatusOr<NodeEntry> Ctc(const CtcParam& p, const LossInputs& in) {
  LossFormula f;
  const AttrDict swap = {{"dim1", "0"}, {"dim2", "1"}};
  const NodeEntry prediction = p.layout == kCtcNTC ? f("SwapAxis", {in.prediction}, swap) : in.prediction;
  const NodeEntry label = p.label_layout == kCtcTN ? f("SwapAxis", {in.label}, swap) : in.label;
  return f.Result(f.Weigh(f("CTCLoss", {prediction, label}, {{"blank_label", "last"}}), p.weight, in));
}

struct PoissonParam : Param<PoissonParam>, LossAttributes {
  bool from_logits, compute_full;
  double epsilon;
  static void Fields(Schema<PoissonParam>& s) {
    s.Field<std::optional<double>>("weight", &PoissonParam::weight).Default(std::nullopt).Describe("Multiplies the loss.");
    s.Field("from_logits", &PoissonParam::from_logits).Default(true).Describe("Predictions are logarithms of the expected counts.");
    s.Field<int>("batch_axis", &PoissonParam::batch_axis)
        .Default(0)
        .Describe("Not used: the loss is the mean of everything, as in Gluon.");
    s.Field("compute_full", &PoissonParam::compute_full)
        .Default(false)
        .Describe("Adds Stirling's approximation of log(label!) to labels over 1.");
    s.Field("epsilon", &PoissonParam::epsilon)
        .Default(1e-8)
        .Describe("Added to predictions that are no logarithms, before theirs are taken.");
  }
};
absl::StatusOr<NodeEntry> PoissonNLL(const PoissonParam& p, const LossInputs& in) {
  constexpr double kTwoPi = 6.283185307179586;
  LossFormula f;
  const NodeEntry x = in.prediction, z = f.LabelLike(in);
  NodeEntry loss = p.from_logits ? f.Sub(f("exp", {x}), f.Mul(z, x)) : f.Sub(x, f.Mul(z, f.LogOf(x, p.epsilon)));
  if (p.compute_full) {
    const NodeEntry log_size = f("log", {f.Scalar("_mul_scalar", f.Scalar("_plus_scalar", z, 1e-12), kTwoPi)});
    const NodeEntry stirling = f.Add(f.Sub(f.Mul(z, f.LogOf(z, 1e-12)), z), f.Scalar("_mul_scalar", log_size, 0.5));
    loss = f.Add(loss, f.Mul(stirling, f.Scalar("_greater_scalar", z, 1)));
  }
  return f.Result(f("mean", {f.Weigh(loss, p.weight, in)}));
}

struct SdmlParam : Param<SdmlParam>, LossAttributes {
  double smoothing_parameter;
  static void Fields(Schema<SdmlParam>& s) {
    s.Field("smoothing_parameter", &SdmlParam::smoothing_parameter)
        .Default(0.3)
        .Range(0, 1)
        .Describe("Share of the label that the rows have which do not belong together.");
    s.Field<std::optional<double>>("weight", &SdmlParam::weight).Default(1.0).Describe("Not used, as in Gluon.");
    s.Field<int>("batch_axis", &SdmlParam::batch_axis).Default(0).Describe("Only 0.").Range(0, 0);
  }
};
// Row i of prediction and label belong together: labels are the identity matrix, smoothed.
absl::StatusOr<NodeEntry> Sdml(const SdmlParam& p, const LossInputs& in) {
  LossFormula f;
  const NodeEntry apart =
      f("broadcast_sub", {f("expand_dims", {in.prediction}, {{"axis", "1"}}), f("expand_dims", {in.label}, {{"axis", "0"}})});
  const NodeEntry distances = f("sum", {f("square", {apart})}, {{"axis", "2"}});
  const NodeEntry log_p = f.LogSoftmax(f("negative", {distances}), 1);
  const NodeEntry column = f("slice_axis", {log_p}, {{"axis", "1"}, {"begin", "0"}, {"end", "1"}});
  const NodeEntry count = f("sum", {f("ones_like", {column})});
  const NodeEntry ones = f("ones_like", {log_p});
  const NodeEntry same = f("_equal", {f("cumsum", {ones}, {{"axis", "0"}}), f("cumsum", {ones}, {{"axis", "1"}})});
  const NodeEntry others = f("broadcast_div", {f.Scalar("_mul_scalar", f.Scalar("_rminus_scalar", same, 1), p.smoothing_parameter),
                                               f.Scalar("_minus_scalar", count, 1)});
  const NodeEntry label = f.Add(f.Scalar("_mul_scalar", same, 1 - p.smoothing_parameter), others);
  return f.Finish(KLDivOf(f, log_p, label), {std::nullopt, 0}, in, "sum");
}

template <class P>
LossCatalog::Entry Entry(const char* name, const char* description,
                         absl::StatusOr<NodeEntry> (*build)(const P&, const LossInputs&)) {
  return {name, description, P::__FIELDS__(),
          [build](const AttrDict& attrs, const LossInputs& inputs) -> absl::StatusOr<NodeEntry> {
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(attrs));
            return build(p, inputs);
          }};
}

}  // namespace

const LossCatalog& Losses() {
  static const LossCatalog& catalog = *new LossCatalog(
      "loss",
      {
          Entry("L1Loss", "|label - prediction|, the mean over a sample.", &L1),
          Entry("L2Loss", "(label - prediction)^2 / 2, the mean over a sample.", &L2),
          Entry("SoftmaxCrossEntropyLoss", "-log softmax(prediction)[label].", &SoftmaxCrossEntropy),
          Entry("SoftmaxCELoss", "The same as SoftmaxCrossEntropyLoss.", &SoftmaxCrossEntropy),
          Entry("SigmoidBinaryCrossEntropyLoss", "Cross entropy of independent labels, 0 to 1.", &SigmoidBinaryCrossEntropy),
          Entry("SigmoidBCELoss", "The same as SigmoidBinaryCrossEntropyLoss.", &SigmoidBinaryCrossEntropy),
          Entry("HuberLoss", "Square below rho, line above.", &Huber),
          Entry("HingeLoss", "max(0, margin - prediction * label).", &Hinge),
          Entry("SquaredHingeLoss", "max(0, margin - prediction * label)^2.", &SquaredHinge),
          Entry("LogisticLoss", "log(1 + exp(-prediction * label)).", &Logistic),
          Entry("KLDivLoss", "label * (log label - prediction), the sum over a sample.", &KLDiv),
          Entry("CTCLoss", "-log of the probability of a label sequence (Graves et al., 2006).", &Ctc),
          Entry("PoissonNLLLoss", "exp(prediction) - label * prediction, of counts; one number, the mean of everything.",
                &PoissonNLL),
          Entry("SDMLLoss",
                "Smoothed deep metric learning (Bonadiman et al., 2019) of two batches of vectors, prediction "
                "and label, in which equal rows belong together.",
                &Sdml),
      });
  return catalog;
}

}  // namespace gluond
