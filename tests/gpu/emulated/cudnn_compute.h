// The computations of the stand-in of cuDNN, whose functions are in cudnn.cc: convolutions, pooling and BatchNorm by
// their definitions, in double, and the checks of their operands.

#ifndef TESTS_GPU_EMULATED_CUDNN_COMPUTE_H_
#define TESTS_GPU_EMULATED_CUDNN_COMPUTE_H_

#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

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
inline bool operator==(const Planes& a, const Planes& b) {
  return a.dtype == b.dtype && a.n == b.n && a.c == b.c && a.h == b.h && a.w == b.w;
}

// A window that moves along an axis.
struct Axis {
  int64_t pad = 0, stride = 1, dilation = 1;
  int64_t Outputs(int64_t in, int64_t window) const { return (in + 2 * pad - ((window - 1) * dilation + 1)) / stride + 1; }
  int64_t Input(int64_t out, int64_t tap) const { return out * stride - pad + tap * dilation; }
};

}  // namespace gluond::emulated

struct cudnnContext : gluond::emulated::Handle {};
struct cudnnTensorStruct : gluond::emulated::Planes {};
struct cudnnFilterStruct : gluond::emulated::Planes {};
struct cudnnConvolutionStruct {
  gluond::emulated::Axis y, x;
  cudnnDataType_t compute;
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode;
  int64_t h = 0, w = 0;
  gluond::emulated::Axis y, x;
};

namespace gluond::emulated {

inline bool IsRefused(const Planes& p) { return p.dtype == CUDNN_DATA_BFLOAT16 && !TheOptions().bfloat16_in_dnn; }

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
inline std::vector<double> LoadForConvolution(const cudnnConvolutionStruct& conv, const Planes& shape, const void* data) {
  std::vector<double> values = Load(shape.type(), data, shape.size());
  if (shape.dtype == CUDNN_DATA_FLOAT && conv.math != CUDNN_FMA_MATH) {
    std::transform(values.begin(), values.end(), values.begin(), ToTf32);
  }
  return values;
}

// Algorithm 0 is not deterministic and needs no workspace; algorithm 1 needs some, by its math; algorithm 2 needs much. With
// windows of more than 3 x 3, NVIDIA's Winograd algorithm is so far off that nobody may take it.
inline constexpr int kGreedy = 2;
inline int WinogradOf(cudnnConvolutionFwdAlgo_t) { return CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED; }
inline int WinogradOf(cudnnConvolutionBwdDataAlgo_t) { return CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED; }
inline int WinogradOf(cudnnConvolutionBwdFilterAlgo_t) { return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED; }
inline size_t WorkspaceOf(int algorithm, cudnnMathType_t math) {
  if (algorithm == kGreedy) return TheOptions().workspace;
  return algorithm == 0 ? 0 : math == CUDNN_FMA_MATH ? 3000 : 5000;
}

inline cudnnStatus_t CheckConvolution(const Planes& x, const Planes& w, const cudnnConvolutionStruct& conv, const Planes& y) {
  if (x.dtype != w.dtype || x.dtype != y.dtype) return CUDNN_STATUS_BAD_PARAM;
  if ((conv.compute == CUDNN_DATA_DOUBLE) != (x.dtype == CUDNN_DATA_DOUBLE)) return CUDNN_STATUS_BAD_PARAM;
  if (x.c != w.c * conv.groups || w.n % conv.groups != 0 || y.n != x.n || y.c != w.n) return CUDNN_STATUS_BAD_PARAM;
  if (y.h != conv.y.Outputs(x.h, w.h) || y.w != conv.x.Outputs(x.w, w.w)) return CUDNN_STATUS_BAD_PARAM;
  return IsRefused(x) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

// Ranks first the algorithm that gives other bits each time, then one that rounds float32 even if the descriptor says
// FMA, and then the others. A 16-bit convolution has another math than its descriptor asked for.
template <class Perf>
cudnnStatus_t Rank(const Planes& x, const Planes& w, const cudnnConvolutionStruct& conv, const Planes& y, int most, int* count,
                   Perf* ranking) {
  if (const cudnnStatus_t status = CheckConvolution(x, w, conv, y); status != CUDNN_STATUS_SUCCESS) return status;
  *count = 0;
  const auto add = [&](int algorithm, cudnnDeterminism_t determinism, cudnnMathType_t math) {
    if (*count == most) return;
    ranking[(*count)++] = {
        static_cast<decltype(Perf::algo)>(algorithm), CUDNN_STATUS_SUCCESS, 0, WorkspaceOf(algorithm, math), determinism, math, {}};
  };
  add(0, CUDNN_NON_DETERMINISTIC, CUDNN_DEFAULT_MATH);
  if (!TheOptions().deterministic_algorithms) return CUDNN_STATUS_SUCCESS;
  if (w.h > 3 || w.w > 3) add(WinogradOf(decltype(Perf::algo){}), CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
  if (TheOptions().workspace > 0) add(kGreedy, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
  if (x.dtype == CUDNN_DATA_FLOAT) add(1, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH);
  add(1, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
  return CUDNN_STATUS_SUCCESS;
}

// Checks all operands and the workspace, and puts `compute` on the handle's stream.
inline cudnnStatus_t Convolve(cudnnHandle_t handle, const Planes& x, const void* x_data, const Planes& w, const void* w_data,
                              const cudnnConvolutionStruct& conv, const Planes& y, const void* y_data, int algorithm,
                              void* workspace, size_t workspace_bytes, const std::function<void()>& compute) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "a convolution");
  if (FaultOf(handle->device) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  if (const cudnnStatus_t status = CheckConvolution(x, w, conv, y); status != CUDNN_STATUS_SUCCESS) return status;
  if (algorithm > kGreedy) Fail("a convolution by Winograd's algorithm with windows of %ld x %ld", w.h, w.w);
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

inline cudnnStatus_t CheckPooling(const cudnnPoolingStruct& pool, const Planes& x, const Planes& y) {
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
inline double DivisorOf(const cudnnPoolingStruct& pool, size_t inputs) {
  return pool.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING ? static_cast<double>(inputs)
                                                                  : static_cast<double>(pool.h * pool.w);
}

inline cudnnStatus_t CheckNormalization(const Planes& x, const Planes& y, const Planes& channels, double epsilon) {
  if (!(x == y)) return CUDNN_STATUS_BAD_PARAM;
  const bool wide = x.dtype == CUDNN_DATA_DOUBLE;
  if (!(channels == Planes{wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, 1, x.c, 1, 1})) return CUDNN_STATUS_BAD_PARAM;
  if (epsilon < CUDNN_BN_MIN_EPSILON) return CUDNN_STATUS_BAD_PARAM;
  return IsRefused(x) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}
inline void CheckChannels(const Planes& channels, int device, std::initializer_list<const void*> operands) {
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

}  // namespace gluond::emulated

#endif  // TESTS_GPU_EMULATED_CUDNN_COMPUTE_H_
