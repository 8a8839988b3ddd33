// Convolutions and transposed convolutions over one, two and three axes, channels first.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

using Sizes = std::vector<int64_t>;

constexpr const char* kConvolutionLayouts[] = {"", "NCW", "NCHW", "NCDHW"};

template <int kAxes, bool kTransposed>
struct ConvParam : Param<ConvParam<kAxes, kTransposed>> {
  int64_t channels;
  Sizes kernel_size, strides, padding, output_padding, dilation;
  int64_t groups;
  std::string layout;
  std::optional<std::string> activation;
  bool use_bias;
  std::optional<std::string> weight_initializer, bias_initializer;
  int64_t in_channels;
  static void Fields(Schema<ConvParam>& s) {
    using P = ConvParam;
    const Sizes zeros(kAxes, 0), ones(kAxes, 1);
    const std::string layout = kConvolutionLayouts[kAxes];
    s.Field("channels", &P::channels).AtLeast(1).Describe("Outputs.");
    s.Field("kernel_size", &P::kernel_size).Describe("Of the window: one number, or one for each axis.");
    s.Field("strides", &P::strides).Default(ones).Describe("Between windows.");
    s.Field("padding", &P::padding)
        .Default(zeros)
        .Describe(kTransposed ? "Cut off on both sides of the output." : "Zeros on both sides.");
    if (kTransposed) {
      s.Field("output_padding", &P::output_padding)
          .Default(zeros)
          .Describe("Added to the output's size, at its end; less than the stride.");
    }
    s.Field("dilation", &P::dilation).Default(ones).Describe("Between the elements of a window.");
    s.Field("groups", &P::groups).Default(int64_t{1}).AtLeast(1).Describe("Channels are split into as many parts.");
    s.Field("layout", &P::layout)
        .Default(layout.c_str())
        .Check([layout](const std::string& v) { return v == layout; }, absl::StrCat("want ", layout))
        .Describe(absl::StrCat("Only ", layout, "."));
    s.Field("activation", &P::activation).Default(std::nullopt).Describe("relu, sigmoid, tanh, softrelu, softsign.");
    s.Field("use_bias", &P::use_bias).Default(true).Describe("Adds a bias to each channel.");
    s.Field("weight_initializer", &P::weight_initializer)
        .Default(std::nullopt)
        .Describe("As 'Xavier(magnitude=2)'; None: the model's.");
    s.Field("bias_initializer", &P::bias_initializer).Default("zeros").Describe("As weight_initializer.");
    s.Field("in_channels", &P::in_channels).Default(int64_t{0}).AtLeast(0).Describe("Inputs; 0: from the first batch.");
  }
};

// The weight is (channels, in_channels / groups, kernel), transposed (in_channels, channels / groups, kernel).
template <int kAxes, bool kTransposed>
absl::StatusOr<NodeEntry> Convolution(const ConvParam<kAxes, kTransposed>& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(const Sizes kernel, SizesOfAxes("kernel_size", p.kernel_size, kAxes, 1));
  ASSIGN_OR_RETURN(const Sizes stride, SizesOfAxes("strides", p.strides, kAxes, 1));
  ASSIGN_OR_RETURN(const Sizes pad, SizesOfAxes("padding", p.padding, kAxes, 0));
  ASSIGN_OR_RETURN(const Sizes dilate, SizesOfAxes("dilation", p.dilation, kAxes, 1));
  if (p.channels % p.groups != 0 || p.in_channels % p.groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels ", p.channels, " and in_channels ", p.in_channels, " must be multiples of groups ", p.groups));
  }
  AttrDict attrs = {{"kernel", Text(kernel)},      {"stride", Text(stride)},         {"pad", Text(pad)},
                    {"dilate", Text(dilate)},      {"num_filter", Text(p.channels)}, {"num_group", Text(p.groups)},
                    {"no_bias", Text(!p.use_bias)}};
  if (kTransposed) {
    ASSIGN_OR_RETURN(const Sizes adj, SizesOfAxes("output_padding", p.output_padding, kAxes, 0));
    attrs["adj"] = Text(adj);
  }
  Sizes dims = kTransposed ? Sizes{SizeOrUnknown(p.in_channels), p.channels / p.groups}
                           : Sizes{p.channels, SizeOrUnknown(p.in_channels / p.groups)};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  ASSIGN_OR_RETURN(NodeEntry weight, LayerParameter(scope, "weight", shape, DType::kFloat32, p.weight_initializer));
  std::vector<NodeEntry> inputs = {std::move(x), std::move(weight)};
  if (p.use_bias) {
    ASSIGN_OR_RETURN(NodeEntry bias, LayerParameter(scope, "bias", {p.channels}, DType::kFloat32, p.bias_initializer));
    inputs.push_back(std::move(bias));
  }
  ASSIGN_OR_RETURN(NodeEntry y,
                   scope.Call(kTransposed ? "Deconvolution" : "Convolution", "fwd", std::move(inputs), std::move(attrs)));
  return Activate(scope, p.activation, std::move(y));
}

template <int kAxes, bool kTransposed>
BlockCatalog::Entry Entry(const char* name) {
  const std::string description = absl::StrCat(kTransposed ? "The gradient of a convolution, as a layer," : "Convolution", " of ",
                                               kConvolutionLayouts[kAxes], ", with bias and activation.");
  return Layer<ConvParam<kAxes, kTransposed>>(name, description.c_str(), &Convolution<kAxes, kTransposed>);
}

}  // namespace

std::vector<BlockCatalog::Entry> ConvolutionBlocks() {
  return {
      Entry<1, false>("Conv1D"),         Entry<2, false>("Conv2D"),         Entry<3, false>("Conv3D"),
      Entry<1, true>("Conv1DTranspose"), Entry<2, true>("Conv2DTranspose"), Entry<3, true>("Conv3DTranspose"),
  };
}

}  // namespace gluond
