// Convolution over one to three spatial axes, and its gradients. Over one or two it is conv.h's. Over three the windows
// of one image become the columns of a matrix for Gemm, which needs temporary space for them: kernel size times input
// channels times the elements of an output plane.

#ifndef OPS_KERNEL_CONV_VOLUME_H_
#define OPS_KERNEL_CONV_VOLUME_H_

#include <array>
#include <cstdint>

#include "ops/kernel/conv.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {

// Three spatial axes; one or two are the last ones, and the first are of size 1.
struct VolumeSize {
  int64_t batch, groups, in_channels, out_channels;
  std::array<int64_t, 3> in, out, kernel, stride, dilate, pad;

  bool flat() const { return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && pad[0] == 0; }
  ConvSize Flat() const {
    const auto plane = [](const std::array<int64_t, 3>& v) { return std::array<int64_t, 2>{v[1], v[2]}; };
    return {batch,       groups,        in_channels,   out_channels, plane(in),
            plane(out),  plane(kernel), plane(stride), plane(dilate), plane(pad)};
  }
  HOST_DEVICE int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  HOST_DEVICE int64_t inputs() const { return in[0] * in[1] * in[2]; }     // Of a channel.
  HOST_DEVICE int64_t outputs() const { return out[0] * out[1] * out[2]; }
};

// `bias` may be null. Requires: one floating type, and sizes that fit each other, none of them 0.
template <class D>
absl::Status VolumeForward(const OpContext& ctx, const VolumeSize& size, const TBlob& x, const TBlob& w,
                           const TBlob* bias, const Target& y);
// When only dx is wanted the elements of x are not used, but must be readable.
template <class D>
absl::Status VolumeBackward(const OpContext& ctx, const VolumeSize& size, const TBlob& dy, const TBlob& x,
                            const TBlob& w, const Target& dx, const Target& dw, const Target& dbias);

// y[n, c, ...] += bias[c]. Requires: y has channels.
template <class D>
absl::Status AddToChannels(const OpContext& ctx, const TBlob& bias, const TBlob& y);
// dbias[c] = the sum of dy[n, c, ...].
template <class D>
absl::Status SumChannels(const OpContext& ctx, const TBlob& dy, const Target& dbias);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CONV_VOLUME_H_
