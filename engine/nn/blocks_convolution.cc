// Convolution and pooling of images, layout (batch, channels, height, width).

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

using Pair = std::vector<int64_t>;

// "3" means (3, 3).
absl::StatusOr<Pair> TwoSizes(absl::string_view name, Pair sizes, int64_t low) {
  if (sizes.size() == 1) sizes.push_back(sizes[0]);
  if (sizes.size() == 2 && sizes[0] >= low && sizes[1] >= low) return sizes;
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", Text(sizes),
                                                 "; want one or two numbers of ", low, " or more"));
}

struct ConvParam : Param<ConvParam> {
  int64_t channels;
  Pair kernel_size, strides, padding, dilation;
  int64_t groups;
  std::string layout, activation;
  bool use_bias;
  std::string weight_initializer, bias_initializer;
  int64_t in_channels;
  static void Fields(Schema<ConvParam>& s) {
    s.Field("channels", &ConvParam::channels).AtLeast(1).Describe("Outputs.");
    s.Field("kernel_size", &ConvParam::kernel_size).Describe("Of the window: one number, or (height, width).");
    s.Field("strides", &ConvParam::strides).Default(Pair{1, 1}).Describe("Between windows.");
    s.Field("padding", &ConvParam::padding).Default(Pair{0, 0}).Describe("Zeros on both sides.");
    s.Field("dilation", &ConvParam::dilation).Default(Pair{1, 1}).Describe("Between the elements of a window.");
    s.Field("groups", &ConvParam::groups).Default(int64_t{1}).AtLeast(1)
        .Describe("Channels are split into as many parts.");
    s.Field("layout", &ConvParam::layout).Default("NCHW").Check([](const std::string& v) { return v == "NCHW"; },
                                                                "want NCHW").Describe("Only NCHW.");
    s.Field("activation", &ConvParam::activation).Default("").Describe("relu, sigmoid, tanh, softrelu, softsign.");
    s.Field("use_bias", &ConvParam::use_bias).Default(true).Describe("Adds a bias to each channel.");
    s.Field("weight_initializer", &ConvParam::weight_initializer).Default("").Describe("As 'Xavier(magnitude=2)'.");
    s.Field("bias_initializer", &ConvParam::bias_initializer).Default("zeros").Describe("As weight_initializer.");
    s.Field("in_channels", &ConvParam::in_channels).Default(int64_t{0}).AtLeast(0)
        .Describe("Inputs; 0: from the first batch.");
  }
};

absl::StatusOr<NodeEntry> Conv2D(const ConvParam& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(const Pair kernel, TwoSizes("kernel_size", p.kernel_size, 1));
  ASSIGN_OR_RETURN(const Pair stride, TwoSizes("strides", p.strides, 1));
  ASSIGN_OR_RETURN(const Pair pad, TwoSizes("padding", p.padding, 0));
  ASSIGN_OR_RETURN(const Pair dilate, TwoSizes("dilation", p.dilation, 1));
  if (p.channels % p.groups != 0 || p.in_channels % p.groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat("channels ", p.channels, " and in_channels ", p.in_channels,
                                                   " must be multiples of groups ", p.groups));
  }
  const Shape shape = {p.channels, SizeOrUnknown(p.in_channels / p.groups), kernel[0], kernel[1]};
  ASSIGN_OR_RETURN(NodeEntry weight, LayerParameter(scope, "weight", shape, DType::kFloat32, p.weight_initializer));
  std::vector<NodeEntry> inputs = {std::move(x), std::move(weight)};
  if (p.use_bias) {
    ASSIGN_OR_RETURN(NodeEntry bias, LayerParameter(scope, "bias", {p.channels}, DType::kFloat32, p.bias_initializer));
    inputs.push_back(std::move(bias));
  }
  ASSIGN_OR_RETURN(NodeEntry y, scope.Call("Convolution", "fwd", std::move(inputs),
                                           {{"kernel", Text(kernel)}, {"stride", Text(stride)}, {"pad", Text(pad)},
                                            {"dilate", Text(dilate)}, {"num_filter", Text(p.channels)},
                                            {"num_group", Text(p.groups)}, {"no_bias", Text(!p.use_bias)}}));
  return Activate(scope, p.activation, std::move(y));
}

struct PoolParam : Param<PoolParam> {
  Pair pool_size;
  std::optional<Pair> strides;
  Pair padding;
  bool ceil_mode;
  static void Fields(Schema<PoolParam>& s) {
    s.Field("pool_size", &PoolParam::pool_size).Default(Pair{2, 2}).Describe("One number, or (height, width).");
    s.Field("strides", &PoolParam::strides).Default(std::nullopt).Describe("Between windows; None: pool_size.");
    s.Field("padding", &PoolParam::padding).Default(Pair{0, 0}).Describe("On both sides.");
    s.Field("ceil_mode", &PoolParam::ceil_mode).Default(false).Describe("A last, partial window counts.");
  }
};

struct AvgPoolParam : Param<AvgPoolParam>, PoolParam {
  bool count_include_pad;
  using Param<AvgPoolParam>::GetSchema;
  using Param<AvgPoolParam>::__FIELDS__;
  static void Fields(Schema<AvgPoolParam>& s) {
    s.Field<Pair>("pool_size", &AvgPoolParam::pool_size).Default(Pair{2, 2})
        .Describe("One number, or (height, width).");
    s.Field<std::optional<Pair>>("strides", &AvgPoolParam::strides).Default(std::nullopt)
        .Describe("Between windows; None: pool_size.");
    s.Field<Pair>("padding", &AvgPoolParam::padding).Default(Pair{0, 0}).Describe("On both sides.");
    s.Field<bool>("ceil_mode", &AvgPoolParam::ceil_mode).Default(false).Describe("A last, partial window counts.");
    s.Field("count_include_pad", &AvgPoolParam::count_include_pad).Default(true)
        .Describe("Padding counts in the divisor.");
  }
};

absl::StatusOr<NodeEntry> Pool(const PoolParam& p, const BlockScope& scope, NodeEntry x, AttrDict attrs) {
  ASSIGN_OR_RETURN(const Pair kernel, TwoSizes("pool_size", p.pool_size, 1));
  ASSIGN_OR_RETURN(const Pair stride, TwoSizes("strides", p.strides.value_or(kernel), 1));
  ASSIGN_OR_RETURN(const Pair pad, TwoSizes("padding", p.padding, 0));
  attrs["kernel"] = Text(kernel);
  attrs["stride"] = Text(stride);
  attrs["pad"] = Text(pad);
  attrs["pooling_convention"] = p.ceil_mode ? "full" : "valid";
  return scope.Call("Pooling", "fwd", {std::move(x)}, std::move(attrs));
}

BlockCatalog::Entry GlobalPool(const char* name, const char* description, const char* type) {
  return Layer<NoParam>(name, description, [type](const NoParam&, const BlockScope& scope, NodeEntry x) {
    return scope.Call("Pooling", "fwd", {std::move(x)},
                      {{"kernel", "(1, 1)"}, {"global_pool", "True"}, {"pool_type", type}});
  });
}

}  // namespace

std::vector<BlockCatalog::Entry> ConvolutionBlocks() {
  return {
      Layer<ConvParam>("Conv2D", "Convolution of (batch, channels, height, width), with bias and activation.", &Conv2D),
      Layer<PoolParam>("MaxPool2D", "The largest value of each window.",
                       [](const PoolParam& p, const BlockScope& scope, NodeEntry x) {
                         return Pool(p, scope, std::move(x), {{"pool_type", "max"}});
                       }),
      Layer<AvgPoolParam>("AvgPool2D", "The mean of each window.",
                          [](const AvgPoolParam& p, const BlockScope& scope, NodeEntry x) {
                            return Pool(p, scope, std::move(x),
                                        {{"pool_type", "avg"}, {"count_include_pad", Text(p.count_include_pad)}});
                          }),
      GlobalPool("GlobalAvgPool2D", "The mean of each channel, shape (batch, channels, 1, 1).", "avg"),
      GlobalPool("GlobalMaxPool2D", "The largest value of each channel, shape (batch, channels, 1, 1).", "max"),
  };
}

}  // namespace gluond
