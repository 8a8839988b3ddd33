// Convolution and its gradients on tensors, over one to three spatial axes, by conv.h's functions. For volumes on a
// GPU, and for convolutions that cuDNN refuses, the windows of one image become the columns of a matrix for Gemm. The
// columns need temporary space: kernel size times input channels times the elements of an output plane.

#ifndef OPS_KERNEL_CONV_VOLUME_H_
#define OPS_KERNEL_CONV_VOLUME_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {

// `bias` may be null. Requires: one floating type, and sizes that fit each other, none of them 0.
template <class D>
absl::Status VolumeForward(const OpContext& ctx, const ConvSize& size, const TBlob& x, const TBlob& w, const TBlob* bias,
                           const Target& y);
// When only dx is wanted the elements of x are not used, but must be readable.
template <class D>
absl::Status VolumeBackward(const OpContext& ctx, const ConvSize& size, const TBlob& dy, const TBlob& x, const TBlob& w,
                            const Target& dx, const Target& dw, const Target& dbias);

// RESOURCE_EXHAUSTED where the columns of one image would have more elements than can be counted.
inline absl::Status CheckColumns(const ConvSize& s) {
  const double columns = static_cast<double>(s.in_channels) * static_cast<double>(s.taps());
  if (columns * static_cast<double>(s.outputs()) <= 0x1p48) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a convolution of ", s.in_channels, " channels with windows of ", s.taps(),
                                                   " elements at ", s.outputs(),
                                                   " positions needs more than 2^48 elements of temporary space"));
}

// y[n, c, ...] += bias[c]. Requires: y is not empty.
template <class D>
absl::Status AddToChannels(const OpContext& ctx, const TBlob& bias, const TBlob& y);
// dbias[c] = the sum of dy[n, c, ...].
template <class D>
absl::Status SumChannels(const OpContext& ctx, const TBlob& dy, const Target& dbias);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CONV_VOLUME_H_
