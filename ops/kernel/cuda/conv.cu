// Convolution by cuDNN. Algorithms are chosen once for each geometry: the fastest, by cuDNN's own model, that GpuMath
// allows and that finds memory. Biases are for our own kernels: cuDNN does not add up those of every type.

#include "ops/kernel/conv.h"

#include <limits>
#include <memory>
#include <tuple>

#include "engine/core/gpu_math.h"
#include "ops/kernel/cuda/cudnn.h"
#include "ops/kernel/primitive_cache.h"

namespace gluond::ops {
namespace {

// The way that was chosen to compute one of the three. Its workspace is enough in its math only.
template <class A>
struct Choice {
  bool made = false, found = false;
  size_t most_workspace = size_t{1} << 30;
  A algorithm = {};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  size_t workspace = 0;
};

struct Plan {
  DType dtype;
  DnnTensor x, y;
  DnnFilter w;
  DnnConvolution conv;
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_x;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_w;
};

absl::Status Fill(const ConvSize& s, DType dtype, Plan* plan) {
  for (int64_t n : {s.batch, s.groups, s.in_channels, s.out_channels, s.in[1], s.in[2], s.out[1], s.out[2]}) {
    if (n > std::numeric_limits<int>::max()) {
      return absl::UnimplementedError(absl::StrCat("Convolution: a dimension is ", n, ", and cuDNN counts to 2^31"));
    }
  }
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  constexpr absl::string_view kWhat = "Convolution";
  plan->dtype = dtype;
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.in_channels, s.in[1], s.in[2]}, &plan->x));
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.out_channels, s.out[1], s.out[2]}, &plan->y));
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
  return CudaStatus(cudnnSetConvolutionGroupCount(plan->conv, i(s.groups)), kWhat);
}

// What cuDNN may take. For float32, tensor cores mean TF32.
cudnnMathType_t MostMath(DType dtype) {
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  const bool tf32 = dtype == DType::kFloat32 && TheGpuMath().tf32 != GpuMath::Tf32::kNone;
  return half || tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
}

absl::StatusOr<Plan*> PlanOf(const OpContext& ctx, DType dtype, const ConvSize& size) {
  thread_local PrimitiveCache<std::tuple<ConvSize, DType, int>, Plan> cache;
  return cache.Get({size, dtype, ctx.device.id}, [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
    auto plan = std::make_unique<Plan>();
    RETURN_IF_ERROR(Fill(size, dtype, plan.get()));
    return plan;
  });
}

// Asks `rank(most, &count, ranking)` for cuDNN's ranking, takes the first algorithm that GpuMath allows and whose
// `workspace(algorithm, &bytes)` is small enough, and sets the descriptor to its math. UNIMPLEMENTED: there is none.
template <class Perf, class A, class Rank, class Workspace>
absl::Status Choose(const Plan& plan, Choice<A>* choice, const Rank& rank, const Workspace& workspace) {
  constexpr int kMost = 16;
  if (!choice->made) {
    RETURN_IF_ERROR(CudaStatus(cudnnSetConvolutionMathType(plan.conv, MostMath(plan.dtype)), "Convolution"));
    Perf ranking[kMost];
    int count = 0;
    RETURN_IF_ERROR(CudaStatus(rank(kMost, &count, ranking), "Convolution"));
    choice->made = true;
    for (int i = 0; i < count && !choice->found; ++i) {
      const Perf& perf = ranking[i];
      if (perf.status != CUDNN_STATUS_SUCCESS) continue;
      if (TheGpuMath().deterministic && perf.determinism != CUDNN_DETERMINISTIC) continue;
      // What the ranking says holds for its own math. Where that must be exact, the workspace is asked for anew.
      const cudnnMathType_t math = MostMath(plan.dtype) == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : perf.mathType;
      RETURN_IF_ERROR(CudaStatus(cudnnSetConvolutionMathType(plan.conv, math), "Convolution"));
      size_t bytes = 0;
      ASSIGN_OR_RETURN(const bool taken, Done(CudaStatus(workspace(perf.algo, &bytes), "Convolution")));
      if (!taken || bytes > choice->most_workspace) continue;
      choice->found = true;
      choice->algorithm = perf.algo;
      choice->math = math;
      choice->workspace = bytes;
    }
  }
  if (!choice->found) return absl::UnimplementedError("Convolution: cuDNN has no algorithm for it that is allowed");
  return CudaStatus(cudnnSetConvolutionMathType(plan.conv, choice->math), "Convolution");
}

// Chooses, and gets the workspace. Where memory for that is refused, from now on an algorithm that wants less is taken.
template <class Perf, class A, class Rank, class Workspace>
absl::StatusOr<void*> ChooseWithSpace(const OpContext& ctx, const Plan& plan, Choice<A>* choice, const Rank& rank,
                                      const Workspace& workspace) {
  while (true) {
    RETURN_IF_ERROR(Choose<Perf>(plan, choice, rank, workspace));
    if (choice->workspace == 0) return nullptr;
    absl::StatusOr<void*> space = ctx.scratch->Get(choice->workspace);
    if (!absl::IsResourceExhausted(space.status())) return space;
    choice->made = choice->found = false;
    choice->most_workspace = choice->workspace - 1;
  }
}

absl::Status Forward(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x, const void* w,
                     OpReqType req, void* y) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(Plan* p, PlanOf(ctx, dtype, size));
  Choice<cudnnConvolutionFwdAlgo_t>& way = p->forward;
  const auto rank = [&](int most, int* count, auto* ranking) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->w, p->conv, p->y, most, count, ranking);
  };
  const auto workspace = [&](auto algorithm, size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, p->x, p->w, p->conv, p->y, algorithm, bytes);
  };
  ASSIGN_OR_RETURN(void* space, (ChooseWithSpace<cudnnConvolutionFwdAlgoPerf_t>(ctx, *p, &way, rank, workspace)));
  const Scalar one(dtype, 1), beta(dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnConvolutionForward(handle, one.get(), p->x, x, p->w, w, p->conv, way.algorithm, space,
                                            way.workspace, beta.get(), p->y, y), "Convolution");
}

absl::Status DataGradient(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* w,
                          ConvOut dx) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(Plan* p, PlanOf(ctx, dtype, size));
  Choice<cudnnConvolutionBwdDataAlgo_t>& way = p->backward_x;
  const auto rank = [&](int most, int* count, auto* ranking) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->w, p->y, p->conv, p->x, most, count, ranking);
  };
  const auto workspace = [&](auto algorithm, size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p->w, p->y, p->conv, p->x, algorithm, bytes);
  };
  ASSIGN_OR_RETURN(void* space, (ChooseWithSpace<cudnnConvolutionBwdDataAlgoPerf_t>(ctx, *p, &way, rank, workspace)));
  const Scalar one(dtype, 1), beta(dtype, dx.req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnConvolutionBackwardData(handle, one.get(), p->w, w, p->y, dy, p->conv, way.algorithm, space,
                                                 way.workspace, beta.get(), p->x, dx.data),
                    "Convolution's data gradient");
}

absl::Status FilterGradient(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* x,
                            ConvOut dw) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(Plan* p, PlanOf(ctx, dtype, size));
  Choice<cudnnConvolutionBwdFilterAlgo_t>& way = p->backward_w;
  const auto rank = [&](int most, int* count, auto* ranking) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->conv, p->w, most, count, ranking);
  };
  const auto workspace = [&](auto algorithm, size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, p->x, p->y, p->conv, p->w, algorithm, bytes);
  };
  ASSIGN_OR_RETURN(void* space, (ChooseWithSpace<cudnnConvolutionBwdFilterAlgoPerf_t>(ctx, *p, &way, rank, workspace)));
  const Scalar one(dtype, 1), beta(dtype, dw.req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnConvolutionBackwardFilter(handle, one.get(), p->x, x, p->y, dy, p->conv, way.algorithm, space,
                                                   way.workspace, beta.get(), p->w, dw.data),
                    "Convolution's weight gradient");
}

}  // namespace

absl::StatusOr<bool> ConvForwardByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x,
                                      const void* w, OpReqType req, void* y) {
  return Done(Forward(ctx, dtype, size, x, w, req, y));
}
absl::StatusOr<bool> ConvDataGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy,
                                           const void* w, ConvOut dx) {
  return Done(DataGradient(ctx, dtype, size, dy, w, dx));
}
absl::StatusOr<bool> ConvFilterGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy,
                                             const void* x, ConvOut dw) {
  return Done(FilterGradient(ctx, dtype, size, dy, x, dw));
}

}  // namespace gluond::ops
