// MakeLoss: y = x, as a loss: dx = grad_scale / normalization, whatever head gradient comes in.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/rows.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

enum Normalization { kNull, kBatch, kValid };

struct MakeLossParam : Param<MakeLossParam> {
  double grad_scale, valid_thresh;
  int normalization;
  static void Fields(Schema<MakeLossParam>& s) {
    s.Field("grad_scale", &MakeLossParam::grad_scale).Default(1.0).Describe("The gradient.");
    s.Field("valid_thresh", &MakeLossParam::valid_thresh).Default(0.0)
        .Describe("With normalization valid, elements above it count.");
    s.Field("normalization", &MakeLossParam::normalization)
        .Enum({{"null", kNull}, {"batch", kBatch}, {"valid", kValid}})
        .Default("null")
        .Describe("Divide the gradient by nothing, by the size of axis 0 (batch), or by the number of elements above "
                  "valid_thresh, 1 at least (valid).");
  }
};

template <class C>
struct CountValid {
  int64_t n;
  In<C> x;
  C threshold;
  C* count;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const C valid = g.Sum(n, [&](int64_t i) { return x[i] > threshold ? C(1) : C(0); });
    if (g.first()) *count = valid > 1 ? valid : C(1);
  }
};
template <class C>
struct Quotient {
  C scale;
  const C* count;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const { dx.Set(i, scale / *count); }
};

struct BackwardMakeLoss {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& p = attrs.param<MakeLossParam>();
    const TBlob& dx = out[0];
    if (req[0] == kNullOp || dx.Size() == 0) return absl::OkStatus();
    if (p.normalization != kValid) {
      const bool divide = p.normalization == kBatch && dx.shape.ndim() > 0;
      return Fill<D>(ctx, divide ? p.grad_scale / static_cast<double>(dx.shape[0]) : p.grad_scale, req[0], dx);
    }
    // In double, so that large counts are exact.
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(sizeof(double)));
    double* count = static_cast<double*>(space);
    RETURN_IF_ERROR(
        ForEachGroup<D>(ctx, 1, dx.Size(), CountValid<double>{dx.Size(), In<double>(in[0]), p.valid_thresh, count}));
    return ForEach<D>(ctx, dx.Size(), Quotient<double>{p.grad_scale, count, Out<double>(dx, req[0])});
  }
};

GLUOND_REGISTER_OP(MakeLoss)
    .describe("y = x, as a loss: the gradient of x is grad_scale / normalization, whatever that of y is.")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(MakeLossParam::__FIELDS__())
    .set_attr_parser(ParamParser<MakeLossParam>)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients&) -> Gradients {
                           return {Call("_backward_MakeLoss", {node->inputs[0]}, node->attrs.dict)};
                         })
    .compute<CopyFirst>();

GLUOND_REGISTER_OP(_backward_MakeLoss)
    .describe("The gradient of MakeLoss' data.")
    .add_argument("data", "NDArray", "x.")
    .add_arguments(MakeLossParam::__FIELDS__())
    .set_attr_parser(ParamParser<MakeLossParam>)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BackwardMakeLoss>();

}  // namespace
}  // namespace gluond::ops
