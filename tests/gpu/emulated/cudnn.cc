// cuDNN's functions on the emulated GPU. cudnn_compute.h has their computations.

#include <cudnn.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/gpu/emulated/cudnn_compute.h"

using namespace gluond::emulated;

namespace {

template <class T>
cudnnStatus_t New(T** descriptor) {
  *descriptor = new T;
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t Delete(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

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

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) { return New(tensor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) { return Delete(tensor); }
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t, cudnnDataType_t type, int n, int c,
                                         int h, int w) {
  return tensor->Set(type, n, c, h, w);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) { return New(filter); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) { return Delete(filter); }
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t, int k, int c,
                                         int h, int w) {
  return filter->Set(type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) { return New(convolution); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) { return Delete(convolution); }
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t,
                                              cudnnDataType_t compute_type) {
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

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int most,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* ranking) {
  return Rank(*x, *w, *convolution, *y, most, count, ranking);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx,
                                                          int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* ranking) {
  return Rank(*dx, *w, *convolution, *dy, most, count, ranking);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw,
                                                            int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* ranking) {
  return Rank(*x, *dw, *convolution, *dy, most, count, ranking);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
                                                           cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
                                                             cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  *bytes = WorkspaceOf(algorithm, convolution->math);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_shape, const void* x,
                                      cudnnFilterDescriptor_t w_shape, const void* w, cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
                                      const void* beta, cudnnTensorDescriptor_t y_shape, void* y) {
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
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_shape, const void* w,
                                           cudnnTensorDescriptor_t dy_shape, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* workspace, size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_shape, void* dx) {
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
                                             cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_shape, void* dw) {
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

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) { return New(pooling); }
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) { return Delete(pooling); }
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode, cudnnNanPropagation_t,
                                          int window_h, int window_w, int pad_h, int pad_w, int stride_h, int stride_w) {
  if (window_h < 1 || window_w < 1 || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *pooling = {mode, window_h, window_w, {pad_h, stride_h, 1}, {pad_w, stride_w, 1}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                  cudnnTensorDescriptor_t x_shape, const void* x, const void* beta, cudnnTensorDescriptor_t y_shape,
                                  void* y) {
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
      double sum = 0;
      for (const int64_t i : inputs) sum += xv[i];
      Store(ys.type(), y, o, sum / DivisorOf(pool, inputs.size()), blend);
    });
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                   cudnnTensorDescriptor_t y_shape, const void* y, cudnnTensorDescriptor_t dy_shape, const void* dy,
                                   cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                   cudnnTensorDescriptor_t dx_shape, void* dx) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "pooling");
  const Planes xs = *dx_shape, ys = *dy_shape;
  const cudnnPoolingStruct pool = *pooling;
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

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha,
                                                     const void* beta, cudnnTensorDescriptor_t x_shape, const void* x,
                                                     cudnnTensorDescriptor_t y_shape, void* y, cudnnTensorDescriptor_t channels,
                                                     const void* scale, const void* bias, double factor, void* running_mean,
                                                     void* running_var, double epsilon, void* saved_mean, void* saved_inverse_std) {
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
      ForChannel(xs, c, [&](int64_t i) { Store(xs.type(), y, i, (xv[i] - mean) * inverse_std * gamma[c] + shift[c], blend); });
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

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha,
                                                      const void* beta, cudnnTensorDescriptor_t x_shape, const void* x,
                                                      cudnnTensorDescriptor_t y_shape, void* y, cudnnTensorDescriptor_t channels,
                                                      const void* scale, const void* bias, const void* mean, const void* var,
                                                      double epsilon) {
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
    const std::vector<double> xv = Load(xs.type(), x, xs.size()), gamma = load(scale), shift = load(bias), means = load(mean),
                              vars = load(var);
    for (int64_t c = 0; c < xs.c; ++c) {
      ForChannel(xs, c, [&](int64_t i) {
        Store(xs.type(), y, i, (xv[i] - means[c]) / std::sqrt(vars[c] + epsilon) * gamma[c] + shift[c], blend);
      });
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha_data,
                                              const void* beta_data, const void* alpha_parameters, const void* beta_parameters,
                                              cudnnTensorDescriptor_t x_shape, const void* x, cudnnTensorDescriptor_t dy_shape,
                                              const void* dy, cudnnTensorDescriptor_t dx_shape, void* dx,
                                              cudnnTensorDescriptor_t channels, const void* scale, void* dscale, void* dbias,
                                              double epsilon, const void* saved_mean, const void* saved_inverse_std) {
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
    const std::vector<double> xv = Load(xs.type(), x, xs.size()), yv = Load(xs.type(), dy, xs.size()), gamma = load(scale),
                              mean = load(saved_mean), inverse_std = load(saved_inverse_std);
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
