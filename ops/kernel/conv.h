// Convolution over one to three spatial axes, and its gradients: y[n,o] = bias[o] + the sum of x[n,i] * w[o,i] over the
// inputs i of o's group. x and y have the layout NCDHW, w has OIDHW. oneDNN on a CPU (for float64: columns of windows,
// multiplied by OpenBLAS), cuDNN on a GPU, for flat sizes and without a bias: see conv_volume.h. The 16-bit types add
// up in float32.

#ifndef OPS_KERNEL_CONV_H_
#define OPS_KERNEL_CONV_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/core/host_device.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"

namespace gluond::ops {

// Three spatial axes; one or two are the last ones, and the first are of size 1.
struct ConvSize {
  int64_t batch, groups, in_channels, out_channels;
  std::array<int64_t, 3> in, out, kernel, stride, dilate, pad;
  // Channels of x, and of y, that lie together: images in blocks of channels. 1: each channel is a plane.
  int64_t x_block = 1, y_block = 1;

  // True where nothing happens along the first axis.
  bool flat() const { return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && pad[0] == 0; }
  HOST_DEVICE int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  HOST_DEVICE int64_t inputs() const { return in[0] * in[1] * in[2]; }  // Elements of a channel.
  HOST_DEVICE int64_t outputs() const { return out[0] * out[1] * out[2]; }
  int64_t x_size() const { return batch * in_channels * inputs(); }
  int64_t w_size() const { return out_channels * (in_channels / groups) * taps(); }
  int64_t y_size() const { return batch * out_channels * outputs(); }

  friend bool operator==(const ConvSize&, const ConvSize&) = default;
  template <class H>
  friend H AbslHashValue(H h, const ConvSize& s) {
    return H::combine(std::move(h), s.batch, s.groups, s.in_channels, s.out_channels, s.in, s.out, s.kernel, s.stride, s.dilate,
                      s.pad, s.x_block, s.y_block);
  }
};

// Where one gradient goes. kNullOp: it is not computed.
struct ConvOut {
  void* data = nullptr;
  OpReqType req = kNullOp;
};

// On a GPU. False where cuDNN has no deterministic way, and then nothing is written. Requires: a floating dtype, sizes
// that are flat and fit each other, none of them 0, and outputs that are wanted.
absl::StatusOr<bool> ConvForwardByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x, const void* w,
                                      OpReqType req, void* y);
absl::StatusOr<bool> ConvDataGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* w,
                                           ConvOut dx);
absl::StatusOr<bool> ConvFilterGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* x,
                                             ConvOut dw);

// On a CPU. `bias` may be null; with `add`, y is added to. Requires: sizes that fit each other, none of them 0. Images in
// blocks of channels are float32, flat and in whole blocks, and each has one group or one input channel.
absl::Status ConvForward(const OpContext& ctx, const ConvSize& size, const float* x, const float* w, const float* bias, bool add,
                         float* y);
absl::Status ConvForward(const OpContext& ctx, const ConvSize& size, const double* x, const double* w, const double* bias, bool add,
                         double* y);
absl::Status ConvBackward(const OpContext& ctx, const ConvSize& size, const float* dy, const float* x, const float* w, ConvOut dx,
                          ConvOut dw, ConvOut dbias);
absl::Status ConvBackward(const OpContext& ctx, const ConvSize& size, const double* dy, const double* x, const double* w,
                          ConvOut dx, ConvOut dw, ConvOut dbias);
// Preparations make what these functions will look for in ctx.kernels: see FPrepare.
absl::Status PrepareConvForward(const OpContext& ctx, DType dtype, const ConvSize& size, bool with_bias);
absl::Status PrepareConvBackward(const OpContext& ctx, DType dtype, const ConvSize& size, bool wants_x, bool wants_w,
                                 bool wants_bias);
// The block of channels that float32 convolutions compute in.
int64_t ConvBlock();
// True of a volume in groups of one input channel that is not mostly padding: ConvForwardDepthwise is the faster way.
bool IsDepthwiseVolume(const ConvSize& size);
absl::Status ConvForwardDepthwise(const OpContext& ctx, const ConvSize& size, const float* x, const float* w, const float* bias,
                                  bool add, float* y);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CONV_H_
