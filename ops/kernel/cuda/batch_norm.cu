// BatchNorm by cuDNN, on x seen as images of one column: (outer, channels, inner, 1), so that every axis can be the
// channels'. cuDNN's running variance is not ours: it moves by the unbiased one. It is given fresh statistics to
// overwrite, from which a kernel of our own moves the model's.

#include "ops/kernel/batch_norm.h"

#include <initializer_list>
#include <limits>
#include <memory>
#include <tuple>

#include "engine/core/kernel_cache.h"
#include "ops/kernel/cuda/cudnn.h"
#include "ops/kernel/fill.h"

namespace gluond::ops {
namespace {

constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;  // A mean and a variance for each channel.

struct Plan : DnnPlan {
  DnnTensor x, channels;
};

// The type of tensors that have one value for each channel.
DType ChannelType(DType x) { return x == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// cuDNN counts elements in 32 bits.
bool IsForDnn(const BatchNormCall& call, const TBlob& x, DType other, std::initializer_list<DType> channels) {
  if (!IsFloating(x.dtype) || other != x.dtype || call.eps < CUDNN_BN_MIN_EPSILON) return false;
  if (x.Size() == 0 || x.Size() > std::numeric_limits<int>::max()) return false;
  for (const DType type : channels) {
    if (type != ChannelType(x.dtype)) return false;
  }
  // One element has no unbiased variance.
  return !call.from_batch || call.shape.rows() > 1;
}

absl::StatusOr<std::shared_ptr<Plan>> PlanOf(const OpContext& ctx, const RowGeometry& s, DType dtype) {
  return Prepared<Plan>(ctx.kernels, std::tuple(s.outer, s.n, s.inner, dtype, ctx.device.id),
                        [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
                          auto plan = std::make_unique<Plan>();
                          RETURN_IF_ERROR(Describe(dtype, {s.outer, s.n, s.inner, 1}, &plan->x));
                          RETURN_IF_ERROR(Describe(ChannelType(dtype), {1, s.n, 1, 1}, &plan->channels));
                          return plan;
                        });
}

// Temporary space of one value for each channel.
absl::StatusOr<TBlob> PerChannel(const OpContext& ctx, const RowGeometry& s, DType x) {
  TBlob blob = {nullptr, {s.n}, ChannelType(x), ctx.device};
  ASSIGN_OR_RETURN(blob.data, ctx.scratch->Get(blob.bytes()));
  return blob;
}

// The factor of each channel: gamma, or ones.
absl::StatusOr<TBlob> ScaleOf(const OpContext& ctx, const BatchNormCall& call, DType x, const TBlob& gamma) {
  if (!call.fix_gamma) return gamma;
  ASSIGN_OR_RETURN(const TBlob ones, PerChannel(ctx, call.shape, x));
  RETURN_IF_ERROR(Fill<gpu>(ctx, 1, kWriteTo, ones));
  return ones;
}

// moving = momentum moving + (1 - momentum) batch, where `var` is the batch's unbiased variance.
template <class C>
struct MoveStatistics {
  const C *mean, *var;
  C *moving_mean, *moving_var;
  C biased, keep, take;

  HOST_DEVICE void operator()(int64_t c) const {
    moving_mean[c] = keep * moving_mean[c] + take * mean[c];
    moving_var[c] = keep * moving_var[c] + take * (biased * var[c]);
  }
};

absl::Status Train(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in, OpReqType req, const TBlob& y,
                   void* mean, void* inverse_std) {
  const TBlob &x = in[0], &gamma = in[1], &beta = in[2], &moving_mean = in[3], &moving_var = in[4];
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> p, PlanOf(ctx, call.shape, x.dtype));
  ASSIGN_OR_RETURN(const TBlob scale, ScaleOf(ctx, call, x.dtype, gamma));
  // cuDNN computes 1 new + 0 old. The old values are zeros, as 0 times NaN would be NaN.
  TBlob new_mean = {nullptr, {call.shape.n}, ChannelType(x.dtype), ctx.device}, new_var = new_mean;
  ASSIGN_OR_RETURN(new_mean.data, ctx.scratch->Get(2 * new_mean.bytes()));
  RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(new_mean.data, 0, 2 * new_mean.bytes(), Stream(ctx)), "BatchNorm"));
  new_var.data = static_cast<char*>(new_mean.data) + new_mean.bytes();
  const Scalar one(x.dtype, 1), keep_y(x.dtype, req == kAddTo ? 1 : 0);
  RETURN_IF_ERROR(CudaStatus(
      cudnnBatchNormalizationForwardTraining(handle, kMode, one.get(), keep_y.get(), p->x, x.data, p->x, y.data, p->channels,
                                             scale.data, beta.data, 1, new_mean.data, new_var.data, call.eps, mean, inverse_std),
      "BatchNorm"));
  return DispatchReal(x.dtype, [&](auto c) {
    using C = decltype(c);
    const double count = static_cast<double>(call.shape.rows());
    return ForEach<gpu>(
        ctx, call.shape.n,
        MoveStatistics<C>{new_mean.dptr<C>(), new_var.dptr<C>(), moving_mean.dptr<C>(), moving_var.dptr<C>(),
                          static_cast<C>((count - 1) / count), static_cast<C>(call.momentum), static_cast<C>(1 - call.momentum)});
  });
}

absl::Status Predict(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in, OpReqType req, const TBlob& y) {
  const TBlob &x = in[0], &gamma = in[1], &beta = in[2], &moving_mean = in[3], &moving_var = in[4];
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> p, PlanOf(ctx, call.shape, x.dtype));
  ASSIGN_OR_RETURN(const TBlob scale, ScaleOf(ctx, call, x.dtype, gamma));
  const Scalar one(x.dtype, 1), keep_y(x.dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(
      cudnnBatchNormalizationForwardInference(handle, kMode, one.get(), keep_y.get(), p->x, x.data, p->x, y.data, p->channels,
                                              scale.data, beta.data, moving_mean.data, moving_var.data, call.eps),
      "BatchNorm");
}

// Writes the gradients that cuDNN has computed, as the requests say.
template <class C>
struct GiveGradients {
  const C *from_gamma, *from_beta;
  Out<C> dgamma, dbeta;
  bool fix_gamma, set_dgamma, set_dbeta;

  HOST_DEVICE void operator()(int64_t c) const {
    if (set_dgamma) dgamma.Set(c, fix_gamma ? C(0) : from_gamma[c]);
    if (set_dbeta) dbeta.Set(c, from_beta[c]);
  }
};

absl::Status Backward(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                      absl::Span<const TBlob> out) {
  const TBlob &dy = in[0], &x = in[1], &gamma = in[2], &mean = in[3], &inverse_std = in[4];
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> p, PlanOf(ctx, call.shape, x.dtype));
  ASSIGN_OR_RETURN(const TBlob scale, ScaleOf(ctx, call, x.dtype, gamma));
  ASSIGN_OR_RETURN(const TBlob dgamma, PerChannel(ctx, call.shape, x.dtype));
  ASSIGN_OR_RETURN(const TBlob dbeta, PerChannel(ctx, call.shape, x.dtype));
  const Scalar one(x.dtype, 1), zero(x.dtype, 0), keep_dx(x.dtype, req[0] == kAddTo ? 1 : 0);
  RETURN_IF_ERROR(CudaStatus(cudnnBatchNormalizationBackward(handle, kMode, one.get(), keep_dx.get(), one.get(), zero.get(), p->x,
                                                             x.data, p->x, dy.data, p->x, out[0].data, p->channels, scale.data,
                                                             dgamma.data, dbeta.data, call.eps, mean.data, inverse_std.data),
                             "BatchNorm's gradient"));
  return DispatchReal(x.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, call.shape.n,
                        GiveGradients<C>{dgamma.dptr<C>(), dbeta.dptr<C>(), Out<C>(out[1], req[1]), Out<C>(out[2], req[2]),
                                         call.fix_gamma, req[1] != kNullOp, req[2] != kNullOp});
  });
}

}  // namespace

template <>
absl::StatusOr<bool> BatchNormByLibrary<gpu>(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in,
                                             absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  const TBlob& x = in[0];
  if (req[0] == kNullOp ||
      !IsForDnn(call, x, out[0].dtype, {in[1].dtype, in[2].dtype, in[3].dtype, in[4].dtype, out[1].dtype, out[2].dtype})) {
    return false;
  }
  // The batch's mean and 1 / sqrt(var + eps): cuDNN writes both or none, and adds to neither.
  if (req[1] == kNullOp && req[2] == kNullOp) {
    return Done(call.from_batch ? Train(ctx, call, in, req[0], out[0], nullptr, nullptr) : Predict(ctx, call, in, req[0], out[0]));
  }
  const auto written = [&](int i) { return req[i] == kWriteTo || req[i] == kWriteInplace; };
  if (!call.from_batch || !written(1) || !written(2)) return false;
  return Done(Train(ctx, call, in, req[0], out[0], out[1].data, out[2].data));
}

template <>
absl::StatusOr<bool> BatchNormGradientByLibrary<gpu>(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in,
                                                     absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  const TBlob &dy = in[0], &x = in[1];
  if (!call.from_batch || req[0] == kNullOp || out[0].dtype != x.dtype ||
      !IsForDnn(call, x, dy.dtype, {in[2].dtype, in[3].dtype, in[4].dtype})) {
    return false;
  }
  return Done(Backward(ctx, call, in, req, out));
}

}  // namespace gluond::ops
