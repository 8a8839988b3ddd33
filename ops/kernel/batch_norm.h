// BatchNorm by a library, where one computes what the operator defines: cuDNN on a GPU. ops/batch_norm.cc has the
// formulas, and the kernel for the rest:
//
//   ASSIGN_OR_RETURN(const bool done, BatchNormByLibrary<D>(ctx, call, in, req, out));
//   if (done) return absl::OkStatus();

#ifndef OPS_KERNEL_BATCH_NORM_H_
#define OPS_KERNEL_BATCH_NORM_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/device.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"
#include "ops/kernel/rows.h"

namespace gluond::ops {

struct BatchNormCall {
  RowGeometry shape;  // x's; its rows' axis is the channels'.
  double eps, momentum;
  bool from_batch;  // Mean and variance are the batch's, not the running ones.
  bool fix_gamma;
};

// in: x, gamma, beta, moving mean, moving variance; out: y, mean, 1 / sqrt(var + eps). True: all is written as `req`
// says, and the running statistics are moved. False: nothing is.
template <class D>
absl::StatusOr<bool> BatchNormByLibrary(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in,
                                        absl::Span<const OpReqType> req, absl::Span<const TBlob> out);

// The same for the gradients. in: dy, x, gamma, and the forward pass's mean and 1 / sqrt(var + eps); out: dx, dgamma,
// dbeta.
template <class D>
absl::StatusOr<bool> BatchNormGradientByLibrary(const OpContext& ctx, const BatchNormCall& call, absl::Span<const TBlob> in,
                                                absl::Span<const OpReqType> req, absl::Span<const TBlob> out);

template <>
inline absl::StatusOr<bool> BatchNormByLibrary<cpu>(const OpContext&, const BatchNormCall&, absl::Span<const TBlob>,
                                                    absl::Span<const OpReqType>, absl::Span<const TBlob>) {
  return false;
}
template <>
inline absl::StatusOr<bool> BatchNormGradientByLibrary<cpu>(const OpContext&, const BatchNormCall&, absl::Span<const TBlob>,
                                                            absl::Span<const OpReqType>, absl::Span<const TBlob>) {
  return false;
}

template <>
absl::StatusOr<bool> BatchNormByLibrary<gpu>(const OpContext&, const BatchNormCall&, absl::Span<const TBlob>,
                                             absl::Span<const OpReqType>, absl::Span<const TBlob>);
template <>
absl::StatusOr<bool> BatchNormGradientByLibrary<gpu>(const OpContext&, const BatchNormCall&, absl::Span<const TBlob>,
                                                     absl::Span<const OpReqType>, absl::Span<const TBlob>);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BATCH_NORM_H_
