// The windows of Convolution, Deconvolution and Pooling: their parameters, with one number for each spatial axis, of
// which there are one to three. The sizes of a convolution follow from these parameters.

#ifndef OPS_WINDOW_H_
#define OPS_WINDOW_H_

#include <any>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/param.h"
#include "ops/kernel/conv_volume.h"

namespace gluond::ops {

inline constexpr int64_t kMaxSpatial = 1 << 20;  // The largest kernel, stride and padding: products of two fit easily.

// OK for kernels over one, two or three axes.
inline absl::Status CheckKernelRank(size_t axes) {
  if (axes >= 1 && axes <= 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameter 'kernel' has ", axes, " elements, expected 1, 2 or 3: one for each spatial axis"));
}

// Makes `v` one number for each of `axes` axes: `otherwise` where nothing was given.
inline absl::Status FillAxes(absl::string_view name, size_t axes, int64_t otherwise, std::vector<int64_t>* v) {
  if (v->empty()) v->assign(axes, otherwise);
  if (v->size() == axes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", name, "' has ", v->size(), " elements, expected one for each of the ", axes, " axes of kernel"));
}

// The parameters of Convolution and Deconvolution.
struct WindowParam {
  std::vector<int64_t> kernel, stride, dilate, pad;
  int64_t num_filter, num_group, workspace;
  bool no_bias, cudnn_off;
  std::optional<std::string> cudnn_tune;
  std::optional<int> layout;
};

// Their fields, in MXNet's order, with the operator's own between the two parts.
template <class P>
void WindowFields(Schema<P>& s, const char* stride, const char* pad) {
  using Dims = std::vector<int64_t>;
  s.template Field<Dims>("kernel", &P::kernel)
      .template Elements<int64_t>(1, kMaxSpatial)
      .Describe("Size of the window: (w), (h, w) or (d, h, w).");
  s.template Field<Dims>("stride", &P::stride).Default(Dims{}).template Elements<int64_t>(1, kMaxSpatial).Describe(stride);
  s.template Field<Dims>("dilate", &P::dilate)
      .Default(Dims{})
      .template Elements<int64_t>(1, kMaxSpatial)
      .Describe("Distance of the window's elements. Default: 1 for each axis.");
  s.template Field<Dims>("pad", &P::pad).Default(Dims{}).template Elements<int64_t>(0, kMaxSpatial).Describe(pad);
}
template <class P>
void FilterFields(Schema<P>& s, const char* num_group, int64_t workspace, bool no_bias) {
  s.template Field<int64_t>("num_filter", &P::num_filter).Range(1, int64_t{1} << 31).Describe("Channels of the output.");
  s.template Field<int64_t>("num_group", &P::num_group).Default(1).Range(1, int64_t{1} << 31).Describe(num_group);
  s.template Field<int64_t>("workspace", &P::workspace)
      .Default(workspace)
      .Describe("Accepted for MXNet's sake; temporary space is as needed.");
  s.template Field<bool>("no_bias", &P::no_bias).Decides().Default(no_bias).Describe("Leave the bias out.");
  s.template Field<std::optional<std::string>>("cudnn_tune", &P::cudnn_tune)
      .Default("None")
      .Describe("Accepted for MXNet's sake, not used.");
  s.template Field<bool>("cudnn_off", &P::cudnn_off).Default(false).Describe("Accepted for MXNet's sake, not used.");
  s.template Field<std::optional<int>>("layout", &P::layout)
      .Enum({{"NCW", 1}, {"NCHW", 2}, {"NCDHW", 3}})
      .Default("None")
      .Describe("Channels come first.");
}

// FAttrParser: empty tuples become one number for each axis.
template <class P>
absl::Status ParseWindow(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<P>(attrs));
  P& p = *std::any_cast<P>(&attrs->parsed);
  const size_t axes = p.kernel.size();
  RETURN_IF_ERROR(CheckKernelRank(axes));
  if (p.num_filter % p.num_group != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter 'num_filter' is ", p.num_filter, ", expected a multiple of num_group, ", p.num_group));
  }
  RETURN_IF_ERROR(FillAxes("stride", axes, 1, &p.stride));
  RETURN_IF_ERROR(FillAxes("dilate", axes, 1, &p.dilate));
  return FillAxes("pad", axes, 0, &p.pad);
}

// INVALID_ARGUMENT: the channels of input 0 do not split into the groups.
inline absl::Status CheckChannels(const Shape& x, int64_t groups) {
  if (x[1] < 0 || (x[1] > 0 && x[1] % groups == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has ", x[1], " channels, expected a positive multiple of num_group, ", groups));
}

// `p` has kernel, stride, dilate and num_group; `pad` is apart, as it may be derived. x: (batch, in channels, in...),
// y: (batch, out channels, out...).
template <class P>
ConvSize VolumeOf(const P& p, const std::vector<int64_t>& pad, const Shape& x, const Shape& y) {
  ConvSize size;
  size.batch = x[0];
  size.groups = p.num_group;
  size.in_channels = x[1];
  size.out_channels = y[1];
  const int missing = 3 - static_cast<int>(p.kernel.size());
  for (int axis = 0; axis < 3; ++axis) {
    const int i = axis - missing;
    size.in[axis] = i < 0 ? 1 : x[2 + i];
    size.out[axis] = i < 0 ? 1 : y[2 + i];
    size.kernel[axis] = i < 0 ? 1 : p.kernel[i];
    size.stride[axis] = i < 0 ? 1 : p.stride[i];
    size.dilate[axis] = i < 0 ? 1 : p.dilate[i];
    size.pad[axis] = i < 0 ? 0 : pad[i];
  }
  return size;
}

}  // namespace gluond::ops

#endif  // OPS_WINDOW_H_
