#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/gpu/emulated/library.h"

namespace gluond::emulated {

// Images or filters: n x c planes of h x w.
struct Planes {
  cudnnDataType_t dtype;
  int64_t n = 0, c = 0, h = 0, w = 0;

  int64_t size() const { return n * c * h * w; }
  int64_t plane() const { return h * w; }
  Element type() const {
    switch (dtype) {
      case CUDNN_DATA_FLOAT: return Element::kFloat;
      case CUDNN_DATA_DOUBLE: return Element::kDouble;
      case CUDNN_DATA_HALF: return Element::kHalf;
      case CUDNN_DATA_BFLOAT16: return Element::kBfloat16;
    }
    Fail("cuDNN: %d is no type", dtype);
  }
  size_t bytes() const { return static_cast<size_t>(size()) * BytesOf(type()); }

  cudnnStatus_t Set(cudnnDataType_t type, int n0, int c0, int h0, int w0) {
    if (n0 <= 0 || c0 <= 0 || h0 <= 0 || w0 <= 0) return CUDNN_STATUS_BAD_PARAM;
    dtype = type;
    n = n0, c = c0, h = h0, w = w0;
    // cuDNN counts elements in 32 bits.
    return size() > std::numeric_limits<int>::max() ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
  }
  void Check(const void* data, int device, const char* what) const {
    if (n == 0) Fail("cuDNN: the descriptor of %s was never set", what);
    CheckOperand(data, bytes(), device, what);
    CheckAlignment(data, type(), what);
  }
};
bool operator==(const Planes& a, const Planes& b) {
  return a.dtype == b.dtype && a.n == b.n && a.c == b.c && a.h == b.h && a.w == b.w;
}

// A window that moves along an axis.
struct Axis {
  int64_t pad = 0, stride = 1, dilation = 1;
  int64_t Outputs(int64_t in, int64_t window) const {
    return (in + 2 * pad - ((window - 1) * dilation + 1)) / stride + 1;
  }
  int64_t Input(int64_t out, int64_t tap) const { return out * stride - pad + tap * dilation; }
};

}  // namespace gluond::emulated

using namespace gluond::emulated;

struct cudnnContext : Handle {};
struct cudnnTensorStruct : Planes {};
struct cudnnFilterStruct : Planes {};
struct cudnnConvolutionStruct {
  Axis y, x;
  cudnnDataType_t compute;
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode;
  int64_t h = 0, w = 0;
  Axis y, x;
};

namespace gluond::emulated {
namespace {

bool IsRefused(const Planes& p) { return p.dtype == CUDNN_DATA_BFLOAT16 && !TheOptions().bfloat16_in_dnn; }

// Calls tap(i, f, o) for each element of x, of the filter and of y that are multiplied and added.
template <class Tap>
void ForTaps(const Planes& x, const Planes& w, const cudnnConvolutionStruct& conv, const Planes& y, const Tap& tap) {
  const int64_t out_of_group = w.n / conv.groups;
  for (int64_t n = 0; n < x.n; ++n) {
    for (int64_t o = 0; o < w.n; ++o) {
      for (int64_t c = 0; c < w.c; ++c) {
        const int64_t x_plane = (n * x.c + o / out_of_group * w.c + c) * x.plane();
        const int64_t w_plane = (o * w.c + c) * w.plane(), y_plane = (n * y.c + o) * y.plane();
        for (int64_t f = 0; f < w.plane(); ++f) {
          for (int64_t oy = 0; oy < y.h; ++oy) {
            const int64_t iy = conv.y.Input(oy, f / w.w);
            if (iy < 0 || iy >= x.h) continue;
            for (int64_t ox = 0; ox < y.w; ++ox) {
              const int64_t ix = conv.x.Input(ox, f % w.w);
              if (ix >= 0 && ix < x.w) tap(x_plane + iy * x.w + ix, w_plane + f, y_plane + oy * y.w + ox);
            }
          }
        }
      }
    }
  }
}

// float32 goes through tensor cores unless the descriptor says FMA.
std::vector<double> LoadForConvolution(const cudnnConvolutionStruct& conv, const Planes& shape, const void* data) {
  std::vector<double> values = Load(shape.type(), data, shape.size());
  if (shape.dtype == CUDNN_DATA_FLOAT && conv.math != CUDNN_FMA_MATH) {
    std::transform(values.begin(), values.end(), values.begin(), ToTf32);
  }
  return values;
}

// Algorithm 0 is not deterministic and wants no memory; algorithm 1 wants some, by its math; algorithm 2 wants much.
constexpr int kGreedy = 2;
size_t WorkspaceOf(int algorithm, cudnnMathType_t math) {
  if (algorithm == kGreedy) return TheOptions().workspace;
  return algorithm == 0 ? 0 : math == CUDNN_FMA_MATH ? 3000 : 5000;
}

cudnnStatus_t CheckConvolution(const Planes& x, const Planes& w, const cudnnConvolutionStruct& conv, const Planes& y) {
  if (x.dtype != w.dtype || x.dtype != y.dtype) return CUDNN_STATUS_BAD_PARAM;
  if ((conv.compute == CUDNN_DATA_DOUBLE) != (x.dtype == CUDNN_DATA_DOUBLE)) return CUDNN_STATUS_BAD_PARAM;
  if (x.c != w.c * conv.groups || w.n % conv.groups != 0 || y.n != x.n || y.c != w.n) return CUDNN_STATUS_BAD_PARAM;
  if (y.h != conv.y.Outputs(x.h, w.h) || y.w != conv.x.Outputs(x.w, w.w)) return CUDNN_STATUS_BAD_PARAM;
  return IsRefused(x) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

// The ranking: what gives other bits each time, what rounds float32 even where its descriptor says FMA, and what is left. The
// math of a 16-bit convolution is not the one that its descriptor asked for.
template <class Perf>
cudnnStatus_t Rank(const Planes& x, const Planes& w, const cudnnConvolutionStruct& conv, const Planes& y, int most,
                   int* count, Perf* ranking) {
  if (const cudnnStatus_t status = CheckConvolution(x, w, conv, y); status != CUDNN_STATUS_SUCCESS) return status;
  *count = 0;
  const auto add = [&](int algorithm, cudnnDeterminism_t determinism, cudnnMathType_t math) {
    if (*count == most) return;
    ranking[(*count)++] = {static_cast<decltype(Perf::algo)>(algorithm), CUDNN_STATUS_SUCCESS, 0,
                           WorkspaceOf(algorithm, math), determinism, math, {}};
  };
  add(0, CUDNN_NON_DETERMINISTIC, CUDNN_DEFAULT_MATH);
  if (!TheOptions().deterministic_algorithms) return CUDNN_STATUS_SUCCESS;
  if (TheOptions().workspace > 0) add(kGreedy, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
  if (x.dtype == CUDNN_DATA_FLOAT) add(1, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH);
  add(1, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
  return CUDNN_STATUS_SUCCESS;
}

// Checks all operands and the workspace, and has `compute` run on the handle's stream.
cudnnStatus_t Convolve(cudnnHandle_t handle, const Planes& x, const void* x_data, const Planes& w, const void* w_data,
                       const cudnnConvolutionStruct& conv, const Planes& y, const void* y_data, int algorithm,
                       void* workspace, size_t workspace_bytes, const std::function<void()>& compute) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "a convolution");
  if (FaultOf(handle->device) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  if (const cudnnStatus_t status = CheckConvolution(x, w, conv, y); status != CUDNN_STATUS_SUCCESS) return status;
  const size_t needed = WorkspaceOf(algorithm, conv.math);
  if (workspace_bytes < needed) return CUDNN_STATUS_BAD_PARAM;
  x.Check(x_data, handle->device, "a convolution's images");
  w.Check(w_data, handle->device, "a convolution's filter");
  y.Check(y_data, handle->device, "a convolution's outputs");
  CheckOperand(workspace, needed, handle->device, "a convolution's workspace");
  Enqueue(stream, [=] {
    if (needed > 0) std::memset(workspace, 0xff, needed);
    compute();
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CheckPooling(const cudnnPoolingStruct& pool, const Planes& x, const Planes& y) {
  if (x.dtype != y.dtype || x.n != y.n || x.c != y.c) return CUDNN_STATUS_BAD_PARAM;
  if (y.h != pool.y.Outputs(x.h, pool.h) || y.w != pool.x.Outputs(x.w, pool.w)) return CUDNN_STATUS_BAD_PARAM;
  return IsRefused(x) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

// Calls window(output, inputs) for each output, with the elements of its window that are not padding.
template <class Window>
void ForWindows(const cudnnPoolingStruct& pool, const Planes& x, const Planes& y, const Window& window) {
  std::vector<int64_t> inputs;
  for (int64_t o = 0; o < y.size(); ++o) {
    const int64_t plane = o / y.plane() * x.plane(), oy = o % y.plane() / y.w, ox = o % y.w;
    inputs.clear();
    for (int64_t f = 0; f < pool.h * pool.w; ++f) {
      const int64_t iy = pool.y.Input(oy, f / pool.w), ix = pool.x.Input(ox, f % pool.w);
      if (iy >= 0 && iy < x.h && ix >= 0 && ix < x.w) inputs.push_back(plane + iy * x.w + ix);
    }
    window(o, inputs);
  }
}
double DivisorOf(const cudnnPoolingStruct& pool, size_t inputs) {
  return pool.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING ? static_cast<double>(inputs)
                                                                  : static_cast<double>(pool.h * pool.w);
}

cudnnStatus_t CheckNormalization(const Planes& x, const Planes& y, const Planes& channels, double epsilon) {
  if (!(x == y)) return CUDNN_STATUS_BAD_PARAM;
  const bool wide = x.dtype == CUDNN_DATA_DOUBLE;
  if (!(channels == Planes{wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, 1, x.c, 1, 1})) return CUDNN_STATUS_BAD_PARAM;
  if (epsilon < CUDNN_BN_MIN_EPSILON) return CUDNN_STATUS_BAD_PARAM;
  return IsRefused(x) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}
void CheckChannels(const Planes& channels, int device, std::initializer_list<const void*> operands) {
  for (const void* operand : operands) {
    if (operand != nullptr) channels.Check(operand, device, "what BatchNorm has for each channel");
  }
}
// Calls element(i) for each element of a channel.
template <class F>
void ForChannel(const Planes& x, int64_t channel, const F& element) {
  for (int64_t n = 0; n < x.n; ++n) {
    for (int64_t i = 0; i < x.plane(); ++i) element((n * x.c + channel) * x.plane() + i);
  }
}

}  // namespace
}  // namespace gluond::emulated

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = NewHandle<cudnnContext>();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "CUDNN_UNKNOWN_STATUS";
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  return tensor->Set(type, n, c, h, w);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  *filter = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t,
                                         int k, int c, int h, int w) {
  return filter->Set(type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  *convolution = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  delete convolution;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t, cudnnDataType_t compute_type) {
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  convolution->y = {pad_h, stride_h, dilation_h};
  convolution->x = {pad_w, stride_w, dilation_w};
  convolution->compute = compute_type;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  convolution->groups = groups;
  return groups < 1 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int most, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* ranking) {
  return Rank(*x, *w, *convolution, *y, most, count, ranking);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int most, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* ranking) {
  return Rank(*dx, *w, *convolution, *dy, most, count, ranking);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int most, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* ranking) {
  return Rank(*x, *dw, *convolution, *dy, most, count, ranking);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t,
                                                             cudnnConvolutionDescriptor_t convolution,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_shape,
                                      const void* x, cudnnFilterDescriptor_t w_shape, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_shape, void* y) {
  const Planes xs = *x_shape, ws = *w_shape, ys = *y_shape;
  const cudnnConvolutionStruct conv = *convolution;
  const Blend blend(xs.type(), alpha, beta);
  return Convolve(handle, xs, x, ws, w, conv, ys, y, algorithm, workspace, workspace_bytes, [=] {
    const std::vector<double> xv = LoadForConvolution(conv, xs, x), wv = LoadForConvolution(conv, ws, w);
    std::vector<double> sums(ys.size());
    ForTaps(xs, ws, conv, ys, [&](int64_t i, int64_t f, int64_t o) { sums[o] += xv[i] * wv[f]; });
    Store(ys.type(), y, sums, blend);
  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_shape,
                                           const void* w, cudnnTensorDescriptor_t dy_shape, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t workspace_bytes, const void* beta, cudnnTensorDescriptor_t dx_shape,
                                           void* dx) {
  const Planes xs = *dx_shape, ws = *w_shape, ys = *dy_shape;
  const cudnnConvolutionStruct conv = *convolution;
  const Blend blend(xs.type(), alpha, beta);
  return Convolve(handle, xs, dx, ws, w, conv, ys, dy, algorithm, workspace, workspace_bytes, [=] {
    const std::vector<double> yv = LoadForConvolution(conv, ys, dy), wv = LoadForConvolution(conv, ws, w);
    std::vector<double> sums(xs.size());
    ForTaps(xs, ws, conv, ys, [&](int64_t i, int64_t f, int64_t o) { sums[i] += yv[o] * wv[f]; });
    Store(xs.type(), dx, sums, blend);
  });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_shape,
                                             const void* x, cudnnTensorDescriptor_t dy_shape, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             size_t workspace_bytes, const void* beta, cudnnFilterDescriptor_t dw_shape,
                                             void* dw) {
  const Planes xs = *x_shape, ws = *dw_shape, ys = *dy_shape;
  const cudnnConvolutionStruct conv = *convolution;
  const Blend blend(xs.type(), alpha, beta);
  return Convolve(handle, xs, x, ws, dw, conv, ys, dy, algorithm, workspace, workspace_bytes, [=] {
    const std::vector<double> xv = LoadForConvolution(conv, xs, x), yv = LoadForConvolution(conv, ys, dy);
    std::vector<double> sums(ws.size());
    ForTaps(xs, ws, conv, ys, [&](int64_t i, int64_t f, int64_t o) { sums[f] += xv[i] * yv[o]; });
    Store(ws.type(), dw, sums, blend);
  });
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  *pooling = new cudnnPoolingStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  delete pooling;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t, int window_h, int window_w, int pad_h, int pad_w,
                                          int stride_h, int stride_w) {
  if (window_h < 1 || window_w < 1 || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *pooling = {mode, window_h, window_w, {pad_h, stride_h, 1}, {pad_w, stride_w, 1}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                  cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                  cudnnTensorDescriptor_t y_shape, void* y) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "pooling");
  const Planes xs = *x_shape, ys = *y_shape;
  const cudnnPoolingStruct pool = *pooling;
  if (const cudnnStatus_t status = CheckPooling(pool, xs, ys); status != CUDNN_STATUS_SUCCESS) return status;
  xs.Check(x, handle->device, "pooling's x");
  ys.Check(y, handle->device, "pooling's y");
  Enqueue(stream, [=, blend = Blend(xs.type(), alpha, beta)] {
    const std::vector<double> xv = Load(xs.type(), x, xs.size());
    ForWindows(pool, xs, ys, [&](int64_t o, const std::vector<int64_t>& inputs) {
      double sum = 0, most = -std::numeric_limits<double>::infinity();
      for (const int64_t i : inputs) {
        sum += xv[i];
        if (xv[i] > most || std::isnan(xv[i])) most = xv[i];
      }
      if (std::isnan(sum)) most = sum;
      Store(ys.type(), y, o, pool.mode == CUDNN_POOLING_MAX ? most : sum / DivisorOf(pool, inputs.size()), blend);
    });
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                   cudnnTensorDescriptor_t y_shape, const void* y, cudnnTensorDescriptor_t dy_shape,
                                   const void* dy, cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                   cudnnTensorDescriptor_t dx_shape, void* dx) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "pooling");
  const Planes xs = *dx_shape, ys = *dy_shape;
  const cudnnPoolingStruct pool = *pooling;
  if (pool.mode == CUDNN_POOLING_MAX) Fail("the gradient of max pooling is not emulated");
  if (!(xs == *x_shape) || !(ys == *y_shape)) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = CheckPooling(pool, xs, ys); status != CUDNN_STATUS_SUCCESS) return status;
  xs.Check(x, handle->device, "pooling's x");
  ys.Check(y, handle->device, "pooling's y");
  xs.Check(dx, handle->device, "pooling's dx");
  ys.Check(dy, handle->device, "pooling's dy");
  Enqueue(stream, [=, blend = Blend(xs.type(), alpha, beta)] {
    const std::vector<double> yv = Load(ys.type(), dy, ys.size());
    std::vector<double> sums(xs.size());
    ForWindows(pool, xs, ys, [&](int64_t o, const std::vector<int64_t>& inputs) {
      for (const int64_t i : inputs) sums[i] += yv[o] / DivisorOf(pool, inputs.size());
    });
    Store(xs.type(), dx, sums, blend);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha, const void* beta, cudnnTensorDescriptor_t x_shape,
    const void* x, cudnnTensorDescriptor_t y_shape, void* y, cudnnTensorDescriptor_t channels, const void* scale,
    const void* bias, double factor, void* running_mean, void* running_var, double epsilon, void* saved_mean,
    void* saved_inverse_std) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "BatchNorm");
  const Planes xs = *x_shape, cs = *channels;
  if (const cudnnStatus_t status = CheckNormalization(xs, *y_shape, cs, epsilon); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if ((running_mean == nullptr) != (running_var == nullptr)) return CUDNN_STATUS_BAD_PARAM;
  if ((saved_mean == nullptr) != (saved_inverse_std == nullptr)) return CUDNN_STATUS_BAD_PARAM;
  xs.Check(x, handle->device, "BatchNorm's x");
  xs.Check(y, handle->device, "BatchNorm's y");
  CheckChannels(cs, handle->device, {scale, bias, running_mean, running_var, saved_mean, saved_inverse_std});
  Enqueue(stream, [=, blend = Blend(xs.type(), alpha, beta)] {
    const std::vector<double> xv = Load(xs.type(), x, xs.size());
    const std::vector<double> gamma = Load(cs.type(), scale, cs.size()), shift = Load(cs.type(), bias, cs.size());
    const double one = 1, zero = 0, moved = factor, kept = 1 - factor;
    const Blend set(Element::kDouble, &one, &zero), move(Element::kDouble, &moved, &kept);
    const auto count = static_cast<double>(xs.n * xs.plane());
    for (int64_t c = 0; c < xs.c; ++c) {
      double mean = 0, var = 0;
      ForChannel(xs, c, [&](int64_t i) { mean += xv[i] / count; });
      ForChannel(xs, c, [&](int64_t i) { var += (xv[i] - mean) * (xv[i] - mean) / count; });
      const double inverse_std = 1 / std::sqrt(var + epsilon);
      ForChannel(xs, c, [&](int64_t i) {
        Store(xs.type(), y, i, (xv[i] - mean) * inverse_std * gamma[c] + shift[c], blend);
      });
      if (running_mean != nullptr) {
        Store(cs.type(), running_mean, c, mean, move);
        Store(cs.type(), running_var, c, var * count / (count - 1), move);
      }
      if (saved_mean != nullptr) {
        Store(cs.type(), saved_mean, c, mean, set);
        Store(cs.type(), saved_inverse_std, c, inverse_std, set);
      }
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha, const void* beta, cudnnTensorDescriptor_t x_shape,
    const void* x, cudnnTensorDescriptor_t y_shape, void* y, cudnnTensorDescriptor_t channels, const void* scale,
    const void* bias, const void* mean, const void* var, double epsilon) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "BatchNorm");
  const Planes xs = *x_shape, cs = *channels;
  if (const cudnnStatus_t status = CheckNormalization(xs, *y_shape, cs, epsilon); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  xs.Check(x, handle->device, "BatchNorm's x");
  xs.Check(y, handle->device, "BatchNorm's y");
  CheckChannels(cs, handle->device, {scale, bias, mean, var});
  Enqueue(stream, [=, blend = Blend(xs.type(), alpha, beta)] {
    const auto load = [&](const void* data) { return Load(cs.type(), data, cs.size()); };
    const std::vector<double> xv = Load(xs.type(), x, xs.size()), gamma = load(scale), shift = load(bias),
                              means = load(mean), vars = load(var);
    for (int64_t c = 0; c < xs.c; ++c) {
      ForChannel(xs, c, [&](int64_t i) {
        Store(xs.type(), y, i, (xv[i] - means[c]) / std::sqrt(vars[c] + epsilon) * gamma[c] + shift[c], blend);
      });
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha_data, const void* beta_data,
    const void* alpha_parameters, const void* beta_parameters, cudnnTensorDescriptor_t x_shape, const void* x,
    cudnnTensorDescriptor_t dy_shape, const void* dy, cudnnTensorDescriptor_t dx_shape, void* dx,
    cudnnTensorDescriptor_t channels, const void* scale, void* dscale, void* dbias, double epsilon,
    const void* saved_mean, const void* saved_inverse_std) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "BatchNorm");
  const Planes xs = *x_shape, cs = *channels;
  if (!(xs == *dx_shape)) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = CheckNormalization(xs, *dy_shape, cs, epsilon); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (saved_mean == nullptr || saved_inverse_std == nullptr) Fail("BatchNorm's gradient without the batch's statistics");
  xs.Check(x, handle->device, "BatchNorm's x");
  xs.Check(dy, handle->device, "BatchNorm's dy");
  xs.Check(dx, handle->device, "BatchNorm's dx");
  CheckChannels(cs, handle->device, {scale, dscale, dbias, saved_mean, saved_inverse_std});
  const Blend blend(xs.type(), alpha_data, beta_data), blend_parameters(xs.type(), alpha_parameters, beta_parameters);
  Enqueue(stream, [=] {
    const auto load = [&](const void* data) { return Load(cs.type(), data, cs.size()); };
    const std::vector<double> xv = Load(xs.type(), x, xs.size()), yv = Load(xs.type(), dy, xs.size()),
                              gamma = load(scale), mean = load(saved_mean), inverse_std = load(saved_inverse_std);
    const auto count = static_cast<double>(xs.n * xs.plane());
    for (int64_t c = 0; c < xs.c; ++c) {
      const auto normalized = [&](int64_t i) { return (xv[i] - mean[c]) * inverse_std[c]; };
      double dgamma = 0, dbeta = 0;
      ForChannel(xs, c, [&](int64_t i) {
        dgamma += yv[i] * normalized(i);
        dbeta += yv[i];
      });
      ForChannel(xs, c, [&](int64_t i) {
        const double centred = yv[i] - dbeta / count - normalized(i) * dgamma / count;
        Store(xs.type(), dx, i, gamma[c] * inverse_std[c] * centred, blend);
      });
      Store(cs.type(), dscale, c, dgamma, blend_parameters);
      Store(cs.type(), dbias, c, dbeta, blend_parameters);
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
