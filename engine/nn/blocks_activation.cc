// Elementwise nonlinearities.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

struct ActivationParam : Param<ActivationParam> {
  std::string activation;
  static void Fields(Schema<ActivationParam>& s) {
    s.Field("activation", &ActivationParam::activation).Describe("relu, sigmoid, tanh, softrelu, softsign.");
  }
};

struct LeakyReluParam : Param<LeakyReluParam> {
  double alpha;
  static void Fields(Schema<LeakyReluParam>& s) {
    s.Field("alpha", &LeakyReluParam::alpha).AtLeast(0).Describe("Slope of the negative side.");
  }
};

struct EluParam : Param<EluParam> {
  double alpha;
  static void Fields(Schema<EluParam>& s) {
    s.Field("alpha", &EluParam::alpha).Default(1.0).Describe("The negative side goes to -alpha.");
  }
};

struct PReluParam : Param<PReluParam> {
  std::optional<std::string> alpha_initializer;
  int64_t in_channels;
  static void Fields(Schema<PReluParam>& s) {
    s.Field("alpha_initializer", &PReluParam::alpha_initializer)
        .Default(std::nullopt)
        .Describe("Of the slopes; None: Constant(value=0.25).");
    s.Field("in_channels", &PReluParam::in_channels)
        .Default(int64_t{1})
        .AtLeast(1)
        .Describe("Slopes: one for all, or one for each channel of axis 1.");
  }
};

struct SwishParam : Param<SwishParam> {
  double beta;
  static void Fields(Schema<SwishParam>& s) {
    s.Field("beta", &SwishParam::beta).Default(1.0).Describe("x is multiplied by it within the sigmoid.");
  }
};

absl::StatusOr<NodeEntry> LeakyRelu(const BlockScope& scope, std::vector<NodeEntry> inputs, const char* type, AttrDict attrs = {}) {
  attrs["act_type"] = type;
  return scope.Call("LeakyReLU", "fwd", std::move(inputs), std::move(attrs));
}

absl::StatusOr<NodeEntry> PRelu(const PReluParam& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(NodeEntry alpha, LayerParameter(scope, "alpha", {p.in_channels}, DType::kFloat32,
                                                   p.alpha_initializer.value_or("Constant(value=0.25)")));
  return LeakyRelu(scope, {std::move(x), std::move(alpha)}, "prelu");
}

// The entry of a layer without attributes.
BlockCatalog::Entry Plain(const char* name, const char* description, const char* type) {
  return Layer<NoParam>(name, description, [type](const NoParam&, const BlockScope& scope, NodeEntry x) {
    return LeakyRelu(scope, {std::move(x)}, type);
  });
}

}  // namespace

std::vector<BlockCatalog::Entry> ActivationBlocks() {
  return {
      Layer<ActivationParam>("Activation", "An activation by name.",
                             [](const ActivationParam& p, const BlockScope& scope, NodeEntry x) {
                               return Activate(scope, p.activation, std::move(x));
                             }),
      Layer<LeakyReluParam>("LeakyReLU", "x where it is positive, alpha x elsewhere.",
                            [](const LeakyReluParam& p, const BlockScope& scope, NodeEntry x) {
                              return LeakyRelu(scope, {std::move(x)}, "leaky", {{"slope", Text(p.alpha)}});
                            }),
      Layer<PReluParam>("PReLU", "LeakyReLU with slopes that are trained.", &PRelu),
      Layer<EluParam>("ELU", "x where it is positive, alpha (exp(x) - 1) elsewhere.",
                      [](const EluParam& p, const BlockScope& scope, NodeEntry x) {
                        return LeakyRelu(scope, {std::move(x)}, "elu", {{"slope", Text(p.alpha)}});
                      }),
      Plain("SELU", "The self-normalizing ELU (Klambauer et al., 2017).", "selu"),
      Plain("GELU", "x times the normal distribution's share below x.", "gelu"),
      Layer<SwishParam>("Swish", "x sigmoid(beta x).",
                        [](const SwishParam& p, const BlockScope& scope, NodeEntry x) {
                          Formula f = scope.NewFormula();
                          return f.Result(f.Mul(x, f("sigmoid", {f.Scalar("_mul_scalar", x, p.beta)})));
                        }),
  };
}

}  // namespace gluond
