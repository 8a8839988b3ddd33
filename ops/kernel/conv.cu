// Convolution by cuDNN. Algorithms are chosen once for each geometry: the fastest, by cuDNN's own model, that gives the
// same bits each time. float32 is computed in float32 (no TF32), so that a GPU agrees with a CPU.

#include "ops/kernel/conv.h"

#include <limits>
#include <memory>
#include <tuple>

#include "ops/kernel/cudnn.h"
#include "ops/kernel/primitive_cache.h"

namespace gluond::ops {
namespace {

// One way to compute, and the temporary space that it takes.
template <class A>
struct Choice {
  bool made = false;
  A algorithm = {};
  size_t workspace = 0;
};

struct Plan {
  DnnTensor x, y, bias;
  DnnFilter w;
  DnnConvolution conv;
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_x;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_w;
};

absl::Status Fill(const ConvSize& s, DType dtype, Plan* plan) {
  for (int64_t n : {s.batch, s.groups, s.in_channels, s.out_channels, s.in[1], s.in[2], s.out[1], s.out[2]}) {
    if (n > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("Convolution: a dimension is ", n, ", expected less than 2^31"));
    }
  }
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  constexpr absl::string_view kWhat = "Convolution";
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.in_channels, s.in[1], s.in[2]}, &plan->x));
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.out_channels, s.out[1], s.out[2]}, &plan->y));
  RETURN_IF_ERROR(Describe(dtype, {1, s.out_channels, 1, 1}, &plan->bias));
  RETURN_IF_ERROR(plan->w.Create());
  RETURN_IF_ERROR(plan->conv.Create());
  RETURN_IF_ERROR(CudaStatus(cudnnSetFilter4dDescriptor(plan->w, DnnType(dtype), CUDNN_TENSOR_NCHW, i(s.out_channels),
                                                        i(s.in_channels / s.groups), i(s.kernel[1]), i(s.kernel[2])),
                             kWhat));
  RETURN_IF_ERROR(CudaStatus(
      cudnnSetConvolution2dDescriptor(plan->conv, i(s.pad[1]), i(s.pad[2]), i(s.stride[1]), i(s.stride[2]),
                                      i(s.dilate[1]), i(s.dilate[2]), CUDNN_CROSS_CORRELATION,
                                      dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
      kWhat));
  RETURN_IF_ERROR(CudaStatus(cudnnSetConvolutionGroupCount(plan->conv, i(s.groups)), kWhat));
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  return CudaStatus(cudnnSetConvolutionMathType(plan->conv, half ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH), kWhat);
}

absl::StatusOr<Plan*> PlanOf(const OpContext& ctx, DType dtype, const ConvSize& size) {
  thread_local PrimitiveCache<std::tuple<ConvSize, DType, int>, Plan> cache;
  return cache.Get({size, dtype, ctx.device.id}, [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
    auto plan = std::make_unique<Plan>();
    RETURN_IF_ERROR(Fill(size, dtype, plan.get()));
    return plan;
  });
}

// Asks `get(count, &returned, perf)` for cuDNN's ranking, and takes the first that is deterministic and small enough.
template <class Perf, class A, class Get>
absl::Status Choose(Choice<A>* choice, Get get) {
  if (choice->made) return absl::OkStatus();
  constexpr int kMost = 16;
  constexpr size_t kMostWorkspace = size_t{1} << 30;
  Perf ranking[kMost];
  int count = 0;
  RETURN_IF_ERROR(CudaStatus(get(kMost, &count, ranking), "Convolution"));
  for (int i = 0; i < count; ++i) {
    const Perf& perf = ranking[i];
    if (perf.status != CUDNN_STATUS_SUCCESS || perf.determinism != CUDNN_DETERMINISTIC) continue;
    if (perf.memory > kMostWorkspace) continue;
    *choice = {true, perf.algo, perf.memory};
    return absl::OkStatus();
  }
  return absl::UnimplementedError("Convolution: cuDNN has no deterministic algorithm for this geometry; use the CPU");
}

absl::StatusOr<void*> Workspace(const OpContext& ctx, size_t bytes) {
  if (bytes == 0) return nullptr;
  return ctx.scratch->Get(bytes);
}

}  // namespace

template <>
absl::Status ConvForward<gpu>(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x, const void* w,
                              const void* bias, OpReqType req, void* y) {
  if (req == kNullOp) return absl::OkStatus();
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(Plan* p, PlanOf(ctx, dtype, size));
  RETURN_IF_ERROR(Choose<cudnnConvolutionFwdAlgoPerf_t>(&p->forward, [&](int most, int* count, auto* ranking) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->w, p->conv, p->y, most, count, ranking);
  }));
  ASSIGN_OR_RETURN(void* space, Workspace(ctx, p->forward.workspace));
  const Scalar one(dtype, 1), beta(dtype, req == kAddTo ? 1 : 0);
  RETURN_IF_ERROR(CudaStatus(cudnnConvolutionForward(handle, one.get(), p->x, x, p->w, w, p->conv, p->forward.algorithm,
                                                     space, p->forward.workspace, beta.get(), p->y, y), "Convolution"));
  if (bias == nullptr) return absl::OkStatus();
  return CudaStatus(cudnnAddTensor(handle, one.get(), p->bias, bias, one.get(), p->y, y), "Convolution's bias");
}

template <>
absl::Status ConvBackward<gpu>(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* x,
                               const void* w, ConvOut dx, ConvOut dw, ConvOut dbias) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(Plan* p, PlanOf(ctx, dtype, size));
  const Scalar one(dtype, 1);
  const auto beta = [&](const ConvOut& out) { return Scalar(dtype, out.req == kAddTo ? 1 : 0); };
  if (dx.req != kNullOp) {
    RETURN_IF_ERROR(Choose<cudnnConvolutionBwdDataAlgoPerf_t>(&p->backward_x, [&](int most, int* count, auto* ranking) {
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->w, p->y, p->conv, p->x, most, count, ranking);
    }));
    ASSIGN_OR_RETURN(void* space, Workspace(ctx, p->backward_x.workspace));
    RETURN_IF_ERROR(CudaStatus(
        cudnnConvolutionBackwardData(handle, one.get(), p->w, w, p->y, dy, p->conv, p->backward_x.algorithm, space,
                                     p->backward_x.workspace, beta(dx).get(), p->x, dx.data),
        "Convolution's data gradient"));
  }
  if (dw.req != kNullOp) {
    RETURN_IF_ERROR(Choose<cudnnConvolutionBwdFilterAlgoPerf_t>(&p->backward_w, [&](int most, int* count,
                                                                                    auto* ranking) {
      return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->conv, p->w, most, count, ranking);
    }));
    ASSIGN_OR_RETURN(void* space, Workspace(ctx, p->backward_w.workspace));
    RETURN_IF_ERROR(CudaStatus(
        cudnnConvolutionBackwardFilter(handle, one.get(), p->x, x, p->y, dy, p->conv, p->backward_w.algorithm, space,
                                       p->backward_w.workspace, beta(dw).get(), p->w, dw.data),
        "Convolution's weight gradient"));
  }
  if (dbias.req == kNullOp) return absl::OkStatus();
  return CudaStatus(cudnnConvolutionBackwardBias(handle, one.get(), p->y, dy, beta(dbias).get(), p->bias, dbias.data),
                    "Convolution's bias gradient");
}

}  // namespace gluond::ops
