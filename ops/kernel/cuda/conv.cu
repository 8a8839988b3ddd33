// Convolution by cuDNN. Algorithms are chosen once for each geometry: the fastest, by cuDNN's own model, that GpuMath
// allows and that finds memory. Kernels of our own add biases, as cuDNN does not do it for every type.

#include "ops/kernel/conv.h"

#include <limits>
#include <memory>
#include <tuple>

#include "engine/core/gpu_math.h"
#include "engine/core/kernel_cache.h"
#include "ops/kernel/cuda/cudnn.h"

namespace gluond::ops {
namespace {

// The algorithm chosen for y or a gradient. Its workspace is enough in its math only.
template <class A>
struct Choice {
  bool made = false, found = false;
  size_t most_workspace = size_t{1} << 30;
  A algorithm = {};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  size_t workspace = 0;
};

struct Plan : DnnPlan {
  DType dtype;
  bool has_large_windows;  // Windows of more than 3 x 3.
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
  plan->has_large_windows = s.kernel[1] > 3 || s.kernel[2] > 3;
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.in_channels, s.in[1], s.in[2]}, &plan->x));
  RETURN_IF_ERROR(Describe(dtype, {s.batch, s.out_channels, s.out[1], s.out[2]}, &plan->y));
  RETURN_IF_ERROR(plan->w.Create());
  RETURN_IF_ERROR(plan->conv.Create());
  RETURN_IF_ERROR(CudaStatus(cudnnSetFilter4dDescriptor(plan->w, DnnType(dtype), CUDNN_TENSOR_NCHW, i(s.out_channels),
                                                        i(s.in_channels / s.groups), i(s.kernel[1]), i(s.kernel[2])),
                             kWhat));
  RETURN_IF_ERROR(CudaStatus(cudnnSetConvolution2dDescriptor(plan->conv, i(s.pad[1]), i(s.pad[2]), i(s.stride[1]), i(s.stride[2]),
                                                             i(s.dilate[1]), i(s.dilate[2]), CUDNN_CROSS_CORRELATION,
                                                             dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
                             kWhat));
  return CudaStatus(cudnnSetConvolutionGroupCount(plan->conv, i(s.groups)), kWhat);
}

// The math that cuDNN may use. For float32, tensor cores mean TF32.
cudnnMathType_t MostMath(DType dtype) {
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  const bool tf32 = dtype == DType::kFloat32 && TheGpuMath().tf32 != GpuMath::Tf32::kNone;
  return half || tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
}

absl::StatusOr<std::shared_ptr<Plan>> PlanOf(const OpContext& ctx, DType dtype, const ConvSize& size) {
  return Prepared<Plan>(ctx.kernels, std::tuple(size, dtype, ctx.device.id), [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
    auto plan = std::make_unique<Plan>();
    RETURN_IF_ERROR(Fill(size, dtype, plan.get()));
    return plan;
  });
}

// True of Winograd's algorithm with large tiles, as cuDNN takes it for windows of 5 x 5: in float32 its results are a few
// thousandths off, more than by TF32.
bool IsRough(cudnnConvolutionFwdAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED; }
bool IsRough(cudnnConvolutionBwdDataAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED; }
bool IsRough(cudnnConvolutionBwdFilterAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED; }

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
      if (plan.has_large_windows && IsRough(perf.algo)) continue;
      // A ranking holds for its own math. Where the math must be exact, it says nothing of the workspace.
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

// Chooses an algorithm and gets its workspace. Where memory is refused, one that wants less is taken from then on.
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

// Computes y or a gradient through cuDNN's functions for it: each takes the plan's members `a` and `b`, the
// convolution and the plan's member `out`, in this order.
template <class Perf, class Way, class Rank, class Workspace, class Run, class A, class B, class Result>
absl::Status Compute(const OpContext& ctx, DType dtype, const ConvSize& size, absl::string_view what, Way Plan::*way, Rank* rank,
                     Workspace* workspace, Run* run, A Plan::*a, const void* a_data, B Plan::*b, const void* b_data,
                     Result Plan::*out, ConvOut result) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, PlanOf(ctx, dtype, size));
  Plan* const p = plan.get();
  const auto ranking = [&](int most, int* count, Perf* ranked) {
    return rank(handle, p->*a, p->*b, p->conv, p->*out, most, count, ranked);
  };
  const auto bytes = [&](auto algorithm, size_t* needed) {
    return workspace(handle, p->*a, p->*b, p->conv, p->*out, algorithm, needed);
  };
  ASSIGN_OR_RETURN(void* space, (ChooseWithSpace<Perf>(ctx, *p, &(p->*way), ranking, bytes)));
  const Scalar one(dtype, 1), beta(dtype, result.req == kAddTo ? 1 : 0);
  return CudaStatus(run(handle, one.get(), p->*a, a_data, p->*b, b_data, p->conv, (p->*way).algorithm, space, (p->*way).workspace,
                        beta.get(), p->*out, result.data),
                    what);
}

}  // namespace

absl::StatusOr<bool> ConvForwardByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x, const void* w,
                                      OpReqType req, void* y) {
  return Done(Compute<cudnnConvolutionFwdAlgoPerf_t>(
      ctx, dtype, size, "Convolution", &Plan::forward, cudnnGetConvolutionForwardAlgorithm_v7,
      cudnnGetConvolutionForwardWorkspaceSize, cudnnConvolutionForward, &Plan::x, x, &Plan::w, w, &Plan::y, {y, req}));
}
absl::StatusOr<bool> ConvDataGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* w,
                                           ConvOut dx) {
  return Done(Compute<cudnnConvolutionBwdDataAlgoPerf_t>(
      ctx, dtype, size, "Convolution's data gradient", &Plan::backward_x, cudnnGetConvolutionBackwardDataAlgorithm_v7,
      cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnConvolutionBackwardData, &Plan::w, w, &Plan::y, dy, &Plan::x, dx));
}
absl::StatusOr<bool> ConvFilterGradientByDnn(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* x,
                                             ConvOut dw) {
  return Done(Compute<cudnnConvolutionBwdFilterAlgoPerf_t>(
      ctx, dtype, size, "Convolution's weight gradient", &Plan::backward_w, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
      cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnConvolutionBackwardFilter, &Plan::x, x, &Plan::y, dy, &Plan::w, dw));
}

}  // namespace gluond::ops
