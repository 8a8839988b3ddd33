// Normalizations: over the batch, each sample, its channels, or groups of them.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

using Initializer = std::optional<std::string>;

// The attributes that all of them have.
struct NormFields {
  double epsilon;
  bool center, scale;
  Initializer beta_initializer, gamma_initializer;
  int64_t in_channels;
};
template <class P>
void SwitchFields(Schema<P>& s, bool scale = true) {
  s.template Field<double>("epsilon", &P::epsilon).Default(1e-5).AtLeast(0).Describe("Added to the variance.");
  s.template Field<bool>("center", &P::center).Default(true).Describe("Trains beta; otherwise it stays as initialized.");
  s.template Field<bool>("scale", &P::scale)
      .Default(scale)
      .Describe("Trains gamma; otherwise it stays as initialized, and is 1 in a BatchNorm.");
}
template <class P>
void InitializerFields(Schema<P>& s) {
  s.template Field<Initializer>("beta_initializer", &P::beta_initializer).Default("zeros").Describe("Of beta.");
  s.template Field<Initializer>("gamma_initializer", &P::gamma_initializer).Default("ones").Describe("Of gamma.");
}
template <class P>
void ChannelsField(Schema<P>& s) {
  s.template Field<int64_t>("in_channels", &P::in_channels).Default(int64_t{0}).AtLeast(0).Describe("0: from the first batch.");
}

// `op` on x, gamma, beta and `more`, which are (in_channels).
absl::StatusOr<NodeEntry> Normalize(const NormFields& p, const BlockScope& scope, const char* op, NodeEntry x, AttrDict attrs,
                                    std::vector<std::pair<const char*, Initializer>> more = {}) {
  const Shape shape = {SizeOrUnknown(p.in_channels)};
  const DType f32 = DType::kFloat32;
  ASSIGN_OR_RETURN(NodeEntry gamma, LayerParameter(scope, "gamma", shape, f32, p.gamma_initializer, p.scale));
  ASSIGN_OR_RETURN(NodeEntry beta, LayerParameter(scope, "beta", shape, f32, p.beta_initializer, p.center));
  std::vector<NodeEntry> inputs = {std::move(x), std::move(gamma), std::move(beta)};
  for (const auto& [name, initializer] : more) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), LayerParameter(scope, name, shape, f32, initializer, false));
  }
  attrs["eps"] = Text(p.epsilon);
  return scope.Call(op, "fwd", std::move(inputs), std::move(attrs));
}

struct BatchNormFields : NormFields {
  int axis = 1;
  double momentum;
  bool use_global_stats;
  Initializer running_mean_initializer, running_variance_initializer;
};
template <class P>
void MomentumField(Schema<P>& s) {
  s.template Field<double>("momentum", &P::momentum).Default(0.9).Describe("Share of the old value in a running one.");
}
template <class P>
void StatisticsFields(Schema<P>& s) {
  s.template Field<bool>("use_global_stats", &P::use_global_stats)
      .Default(false)
      .Describe("Normalizes with the running values in training, too.");
  InitializerFields(s);
  s.template Field<Initializer>("running_mean_initializer", &P::running_mean_initializer)
      .Default("zeros")
      .Describe("Of running_mean.");
  s.template Field<Initializer>("running_variance_initializer", &P::running_variance_initializer)
      .Default("ones")
      .Describe("Of running_var.");
}

struct BatchNormParam : Param<BatchNormParam>, BatchNormFields {
  static void Fields(Schema<BatchNormParam>& s) {
    s.Field<int>("axis", &BatchNormParam::axis).Default(1).Describe("The channels' axis.");
    MomentumField(s);
    SwitchFields(s);
    StatisticsFields(s);
    ChannelsField(s);
  }
};

struct SyncBatchNormParam : Param<SyncBatchNormParam>, BatchNormFields {
  std::optional<int> num_devices;
  static void Fields(Schema<SyncBatchNormParam>& s) {
    ChannelsField(s);
    s.Field("num_devices", &SyncBatchNormParam::num_devices)
        .Default(std::nullopt)
        .Range(1, 1)
        .Describe("1 or None: a model is on one device.");
    MomentumField(s);
    SwitchFields(s);
    StatisticsFields(s);
  }
};

absl::StatusOr<NodeEntry> BatchNorm(const BatchNormFields& p, const BlockScope& scope, NodeEntry x) {
  return Normalize(p, scope, "BatchNorm", std::move(x),
                   {{"axis", Text(p.axis)},
                    {"momentum", Text(p.momentum)},
                    {"fix_gamma", Text(!p.scale)},
                    {"use_global_stats", Text(p.use_global_stats)}},
                   {{"running_mean", p.running_mean_initializer}, {"running_var", p.running_variance_initializer}});
}

absl::StatusOr<NodeEntry> BatchNormRelu(const BatchNormFields& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(NodeEntry y, BatchNorm(p, scope, std::move(x)));
  return scope.Call("relu", "relu", {std::move(y)});
}

struct AxisNormFields : NormFields {
  int axis;
};
template <class P>
void AxisNormFieldsOf(Schema<P>& s, int axis, const char* description, bool scale) {
  s.template Field<int>("axis", &P::axis).Default(axis).Describe(description);
  SwitchFields(s, scale);
  InitializerFields(s);
  ChannelsField(s);
}

struct LayerNormParam : Param<LayerNormParam>, AxisNormFields {
  static void Fields(Schema<LayerNormParam>& s) { AxisNormFieldsOf(s, -1, "The axis that is normalized.", true); }
};
struct InstanceNormParam : Param<InstanceNormParam>, AxisNormFields {
  static void Fields(Schema<InstanceNormParam>& s) { AxisNormFieldsOf(s, 1, "The channels' axis.", false); }
};

absl::StatusOr<NodeEntry> InstanceNorm(const InstanceNormParam& p, const BlockScope& scope, NodeEntry x) {
  if (p.axis == 1) return Normalize(p, scope, "InstanceNorm", std::move(x), {});
  const AttrDict swap = {{"dim1", "1"}, {"dim2", Text(p.axis)}};
  ASSIGN_OR_RETURN(x, scope.Call("SwapAxis", "first", {std::move(x)}, swap));
  ASSIGN_OR_RETURN(NodeEntry y, Normalize(p, scope, "InstanceNorm", std::move(x), {}));
  return scope.Call("SwapAxis", "back", {std::move(y)}, swap);
}

struct GroupNormParam : Param<GroupNormParam>, NormFields {
  int64_t num_groups;
  static void Fields(Schema<GroupNormParam>& s) {
    s.Field("num_groups", &GroupNormParam::num_groups)
        .Default(int64_t{1})
        .AtLeast(1)
        .Describe("Parts that the channels are split into.");
    SwitchFields(s);
    InitializerFields(s);
    s.Field<int64_t>("in_channels", &GroupNormParam::in_channels)
        .Default(int64_t{0})
        .AtLeast(0)
        .Describe("Numbers in gamma and beta, which is num_groups; 0: from the first batch.");
  }
};

}  // namespace

std::vector<BlockCatalog::Entry> NormalizationBlocks() {
  return {
      Layer<BatchNormParam>("BatchNorm", "Normalizes each channel over the batch; keeps running means.", &BatchNorm),
      Layer<BatchNormParam>("BatchNormReLU", "BatchNorm, then relu.", &BatchNormRelu),
      Layer<SyncBatchNormParam>("SyncBatchNorm", "BatchNorm: a model is on one device.", &BatchNorm),
      Layer<LayerNormParam>("LayerNorm", "Normalizes each sample along an axis.",
                            [](const LayerNormParam& p, const BlockScope& scope, NodeEntry x) {
                              return Normalize(p, scope, "LayerNorm", std::move(x), {{"axis", Text(p.axis)}});
                            }),
      Layer<InstanceNormParam>("InstanceNorm", "Normalizes each channel of each sample.", &InstanceNorm),
      Layer<GroupNormParam>("GroupNorm", "Normalizes each group of channels of each sample.",
                            [](const GroupNormParam& p, const BlockScope& scope, NodeEntry x) {
                              return Normalize(p, scope, "GroupNorm", std::move(x), {{"num_groups", Text(p.num_groups)}});
                            }),
  };
}

}  // namespace gluond
