#include "engine/nn/loss.h"

#include <optional>
#include <string>
#include <utility>

namespace gluond {
namespace {

std::string Text(double value) { return param_internal::FormatValue(value); }
std::string Text(int value) { return param_internal::FormatValue(value); }

// The attributes that all losses have.
struct Common {
  std::optional<double> weight;
  int batch_axis;
};
template <class P>
void CommonFields(Schema<P>& s, std::optional<double> weight = std::nullopt) {
  s.template Field<std::optional<double>>("weight", &P::weight).Default(weight).Describe("Multiplies the loss.");
  s.template Field<int>("batch_axis", &P::batch_axis).Default(0).Describe("The axis of the samples.");
}

// A Formula turns operators of C++ into calls of engine operators; it keeps the first error until Finish.
class Formula {
 public:
  NodeEntry operator()(absl::string_view op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) {
    for (const NodeEntry& input : inputs) {
      if (!input) return {};  // An operand has failed.
    }
    absl::StatusOr<NodePtr> node =
        TryMakeNode(op, absl::StrCat("__loss_", count_++, "_", op), std::move(inputs), std::move(attrs));
    if (!node.ok()) {
      if (status_.ok()) status_ = node.status();
      return {};
    }
    return {*std::move(node), 0};
  }
  NodeEntry Scalar(absl::string_view op, NodeEntry x, double scalar) {
    return (*this)(op, {std::move(x)}, {{"scalar", Text(scalar)}});
  }

  NodeEntry Add(NodeEntry a, NodeEntry b) { return (*this)("elemwise_add", {std::move(a), std::move(b)}); }
  NodeEntry Sub(NodeEntry a, NodeEntry b) { return (*this)("elemwise_sub", {std::move(a), std::move(b)}); }
  NodeEntry Mul(NodeEntry a, NodeEntry b) { return (*this)("elemwise_mul", {std::move(a), std::move(b)}); }
  NodeEntry SoftRelu(NodeEntry x) { return (*this)("Activation", {std::move(x)}, {{"act_type", "softrelu"}}); }
  NodeEntry LabelLike(const LossInputs& in) { return (*this)("reshape_like", {in.label, in.prediction}); }
  NodeEntry LogSoftmax(NodeEntry x, int axis) {
    return (*this)("log_softmax", {std::move(x)}, {{"axis", Text(axis)}});
  }

  // Weighs, then reduces ("mean" or "sum") all axes but the batch's.
  absl::StatusOr<NodeEntry> Finish(NodeEntry loss, const Common& common, const LossInputs& in,
                                   absl::string_view reduce = "mean") {
    if (in.sample_weight) loss = (*this)("broadcast_mul", {std::move(loss), in.sample_weight});
    if (common.weight.has_value()) loss = Scalar("_mul_scalar", std::move(loss), *common.weight);
    loss = (*this)(reduce, {std::move(loss)}, {{"axis", Text(common.batch_axis)}, {"exclude", "True"}});
    if (!status_.ok()) return status_;
    return loss;
  }

 private:
  int count_ = 0;
  absl::Status status_;
};

struct L1Param : Param<L1Param>, Common {
  static void Fields(Schema<L1Param>& s) { CommonFields(s); }
};
absl::StatusOr<NodeEntry> L1(const L1Param& p, const LossInputs& in) {
  Formula f;
  return f.Finish(f("abs", {f.Sub(f.LabelLike(in), in.prediction)}), p, in);
}

struct L2Param : Param<L2Param>, Common {
  static void Fields(Schema<L2Param>& s) { CommonFields(s, 1.0); }
};
absl::StatusOr<NodeEntry> L2(const L2Param& p, const LossInputs& in) {
  Formula f;
  Common half = p;
  half.weight = p.weight.value_or(1.0) / 2;
  return f.Finish(f("square", {f.Sub(f.LabelLike(in), in.prediction)}), half, in);
}

struct SoftmaxParam : Param<SoftmaxParam>, Common {
  int axis;
  bool sparse_label;
  bool from_logits;
  static void Fields(Schema<SoftmaxParam>& s) {
    s.Field("axis", &SoftmaxParam::axis).Default(-1).Describe("The classes' axis.");
    s.Field("sparse_label", &SoftmaxParam::sparse_label).Default(true)
        .Describe("Labels are class numbers; otherwise probabilities, shaped like the prediction.");
    s.Field("from_logits", &SoftmaxParam::from_logits).Default(false).Describe("Predictions are log probabilities.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> SoftmaxCrossEntropy(const SoftmaxParam& p, const LossInputs& in) {
  Formula f;
  const NodeEntry log_p = p.from_logits ? in.prediction : f.LogSoftmax(in.prediction, p.axis);
  const AttrDict keep = {{"axis", Text(p.axis)}, {"keepdims", "True"}};
  const NodeEntry likelihood = p.sparse_label ? f("pick", {log_p, in.label}, keep)
                                              : f("sum", {f.Mul(log_p, f("reshape_like", {in.label, log_p}))}, keep);
  return f.Finish(f("negative", {likelihood}), p, in);
}

struct SigmoidParam : Param<SigmoidParam>, Common {
  bool from_sigmoid;
  std::optional<double> pos_weight;
  static void Fields(Schema<SigmoidParam>& s) {
    s.Field("from_sigmoid", &SigmoidParam::from_sigmoid).Default(false).Describe("Predictions are probabilities.");
    s.Field("pos_weight", &SigmoidParam::pos_weight).Default(std::nullopt).Describe("Of positive labels.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> SigmoidBinaryCrossEntropy(const SigmoidParam& p, const LossInputs& in) {
  Formula f;
  const NodeEntry x = in.prediction, z = f.LabelLike(in);
  NodeEntry loss;
  if (p.from_sigmoid) {
    constexpr double kEpsilon = 1e-12;
    const auto log = [&f](NodeEntry y) { return f("log", {f.Scalar("_plus_scalar", std::move(y), kEpsilon)}); };
    NodeEntry positive = f.Mul(log(x), z);
    if (p.pos_weight.has_value()) positive = f.Scalar("_mul_scalar", positive, *p.pos_weight);
    const NodeEntry negative = f.Mul(log(f.Scalar("_rminus_scalar", x, 1)), f.Scalar("_rminus_scalar", z, 1));
    loss = f("negative", {f.Add(positive, negative)});
  } else {
    const NodeEntry soft = f.SoftRelu(f("negative", {f("abs", {x})}));
    if (!p.pos_weight.has_value()) {
      loss = f.Add(f.Sub(f("relu", {x}), f.Mul(x, z)), soft);
    } else {
      const NodeEntry log_weight = f.Scalar("_plus_scalar", f.Scalar("_mul_scalar", z, *p.pos_weight - 1), 1);
      loss = f.Add(f.Sub(x, f.Mul(x, z)), f.Mul(log_weight, f.Add(soft, f("relu", {f("negative", {x})}))));
    }
  }
  return f.Finish(loss, p, in);
}

struct HuberParam : Param<HuberParam>, Common {
  double rho;
  static void Fields(Schema<HuberParam>& s) {
    s.Field("rho", &HuberParam::rho).Default(1.0).Above(0).Describe("Where the square becomes a line.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> Huber(const HuberParam& p, const LossInputs& in) {
  Formula f;
  const NodeEntry d = f("abs", {f.Sub(f.LabelLike(in), in.prediction)});
  return f.Finish(f("where", {f.Scalar("_greater_scalar", d, p.rho), f.Scalar("_plus_scalar", d, -0.5 * p.rho),
                              f.Scalar("_mul_scalar", f("square", {d}), 0.5 / p.rho)}),
                  p, in);
}

struct HingeParam : Param<HingeParam>, Common {
  double margin;
  static void Fields(Schema<HingeParam>& s) {
    s.Field("margin", &HingeParam::margin).Default(1.0).Describe("Labels are -1 and 1.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> Hinge(const HingeParam& p, const LossInputs& in) {
  Formula f;
  return f.Finish(f("relu", {f.Scalar("_rminus_scalar", f.Mul(in.prediction, f.LabelLike(in)), p.margin)}), p, in);
}

struct KLDivParam : Param<KLDivParam>, Common {
  bool from_logits;
  int axis;
  static void Fields(Schema<KLDivParam>& s) {
    s.Field("from_logits", &KLDivParam::from_logits).Default(true).Describe("Predictions are log probabilities.");
    s.Field("axis", &KLDivParam::axis).Default(-1).Describe("The classes' axis, when from_logits is false.");
    CommonFields(s);
  }
};
absl::StatusOr<NodeEntry> KLDiv(const KLDivParam& p, const LossInputs& in) {
  Formula f;
  const NodeEntry log_p = p.from_logits ? in.prediction : f.LogSoftmax(in.prediction, p.axis);
  const NodeEntry log_label = f("log", {f.Scalar("_plus_scalar", in.label, 1e-12)});
  return f.Finish(f.Mul(in.label, f.Sub(log_label, log_p)), p, in, "sum");
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
  static const LossCatalog& catalog = *new LossCatalog("loss", {
      Entry("L1Loss", "|label - prediction|, the mean over a sample.", &L1),
      Entry("L2Loss", "(label - prediction)^2 / 2, the mean over a sample.", &L2),
      Entry("SoftmaxCrossEntropyLoss", "-log softmax(prediction)[label].", &SoftmaxCrossEntropy),
      Entry("SigmoidBinaryCrossEntropyLoss", "Cross entropy of independent labels, 0 to 1.",
            &SigmoidBinaryCrossEntropy),
      Entry("HuberLoss", "Square below rho, line above.", &Huber),
      Entry("HingeLoss", "max(0, margin - prediction * label).", &Hinge),
      Entry("KLDivLoss", "label * (log label - prediction), the sum over a sample.", &KLDiv),
  });
  return catalog;
}

}  // namespace gluond
