// Batch and layer normalization.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

struct BatchNormParam : Param<BatchNormParam> {
  int axis;
  double momentum, epsilon;
  bool center, scale, use_global_stats;
  std::string beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer;
  int64_t in_channels;
  static void Fields(Schema<BatchNormParam>& s) {
    using P = BatchNormParam;
    s.Field("axis", &P::axis).Default(1).Describe("The channels' axis.");
    s.Field("momentum", &P::momentum).Default(0.9).Describe("Share of the old value in a running one.");
    s.Field("epsilon", &P::epsilon).Default(1e-5).AtLeast(0).Describe("Added to the variance.");
    s.Field("center", &P::center).Default(true).Describe("Trains beta; otherwise it stays as initialized.");
    s.Field("scale", &P::scale).Default(true).Describe("Trains gamma; otherwise it is 1.");
    s.Field("use_global_stats", &P::use_global_stats).Default(false)
        .Describe("Normalizes with the running values in training, too.");
    s.Field("beta_initializer", &P::beta_initializer).Default("zeros").Describe("Of beta.");
    s.Field("gamma_initializer", &P::gamma_initializer).Default("ones").Describe("Of gamma.");
    s.Field("running_mean_initializer", &P::running_mean_initializer).Default("zeros").Describe("Of running_mean.");
    s.Field("running_variance_initializer", &P::running_variance_initializer).Default("ones")
        .Describe("Of running_var.");
    s.Field("in_channels", &P::in_channels).Default(int64_t{0}).AtLeast(0).Describe("0: from the first batch.");
  }
};

absl::StatusOr<NodeEntry> BatchNorm(const BatchNormParam& p, const BlockScope& scope, NodeEntry x) {
  const Shape shape = {SizeOrUnknown(p.in_channels)};
  const DType f32 = DType::kFloat32;
  ASSIGN_OR_RETURN(NodeEntry gamma, LayerParameter(scope, "gamma", shape, f32, p.gamma_initializer, p.scale));
  ASSIGN_OR_RETURN(NodeEntry beta, LayerParameter(scope, "beta", shape, f32, p.beta_initializer, p.center));
  ASSIGN_OR_RETURN(NodeEntry mean,
                   LayerParameter(scope, "running_mean", shape, f32, p.running_mean_initializer, false));
  ASSIGN_OR_RETURN(NodeEntry var,
                   LayerParameter(scope, "running_var", shape, f32, p.running_variance_initializer, false));
  return scope.Call("BatchNorm", "fwd",
                    {std::move(x), std::move(gamma), std::move(beta), std::move(mean), std::move(var)},
                    {{"axis", Text(p.axis)}, {"momentum", Text(p.momentum)}, {"eps", Text(p.epsilon)},
                     {"fix_gamma", Text(!p.scale)}, {"use_global_stats", Text(p.use_global_stats)}});
}

struct LayerNormParam : Param<LayerNormParam> {
  int axis;
  double epsilon;
  bool center, scale;
  std::string beta_initializer, gamma_initializer;
  int64_t in_channels;
  static void Fields(Schema<LayerNormParam>& s) {
    using P = LayerNormParam;
    s.Field("axis", &P::axis).Default(-1).Describe("The axis that is normalized.");
    s.Field("epsilon", &P::epsilon).Default(1e-5).AtLeast(0).Describe("Added to the variance.");
    s.Field("center", &P::center).Default(true).Describe("Trains beta; otherwise it stays as initialized.");
    s.Field("scale", &P::scale).Default(true).Describe("Trains gamma; otherwise it stays as initialized.");
    s.Field("beta_initializer", &P::beta_initializer).Default("zeros").Describe("Of beta.");
    s.Field("gamma_initializer", &P::gamma_initializer).Default("ones").Describe("Of gamma.");
    s.Field("in_channels", &P::in_channels).Default(int64_t{0}).AtLeast(0).Describe("0: from the first batch.");
  }
};

absl::StatusOr<NodeEntry> LayerNorm(const LayerNormParam& p, const BlockScope& scope, NodeEntry x) {
  const Shape shape = {SizeOrUnknown(p.in_channels)};
  ASSIGN_OR_RETURN(NodeEntry gamma,
                   LayerParameter(scope, "gamma", shape, DType::kFloat32, p.gamma_initializer, p.scale));
  ASSIGN_OR_RETURN(NodeEntry beta,
                   LayerParameter(scope, "beta", shape, DType::kFloat32, p.beta_initializer, p.center));
  return scope.Call("LayerNorm", "fwd", {std::move(x), std::move(gamma), std::move(beta)},
                    {{"axis", Text(p.axis)}, {"eps", Text(p.epsilon)}});
}

}  // namespace

std::vector<BlockCatalog::Entry> NormalizationBlocks() {
  return {
      Layer<BatchNormParam>("BatchNorm", "Normalizes each channel over the batch; keeps running means.", &BatchNorm),
      Layer<LayerNormParam>("LayerNorm", "Normalizes each sample along an axis.", &LayerNorm),
  };
}

}  // namespace gluond
