// multi_sgd_update and its like: the step of sgd_update, sgd_mom_update or their mp_* forms on several weights at once.
// The inputs are those of the one step, weight after weight.

#include "ops/sgd.h"

namespace gluond::ops {
namespace {

struct MultiParam : Param<MultiParam> {
  std::vector<double> lrs, wds;
  double rescale_grad, clip_gradient;
  int64_t num_weights;
  static void Fields(Schema<MultiParam>& s) {
    s.Field("lrs", &MultiParam::lrs).Describe("The learning rate of each weight.");
    s.Field("wds", &MultiParam::wds).Describe("The weight decay of each weight.");
    s.Field("rescale_grad", &MultiParam::rescale_grad).Default(1.0).Describe("Multiplies the gradients.");
    s.Field("clip_gradient", &MultiParam::clip_gradient).Default(-1.0)
        .Describe("Limit of the gradients' magnitude; negative: none.");
    s.Field("num_weights", &MultiParam::num_weights).Default(int64_t{1}).Range(1, 1 << 16)
        .Describe("The number of weights.");
  }
};
struct MultiMomentumParam : Param<MultiMomentumParam> {
  std::vector<double> lrs, wds;
  double momentum, rescale_grad, clip_gradient;
  int64_t num_weights;
  static void Fields(Schema<MultiMomentumParam>& s) {
    using P = MultiMomentumParam;
    s.Field("lrs", &P::lrs).Describe("The learning rate of each weight.");
    s.Field("wds", &P::wds).Describe("The weight decay of each weight.");
    s.Field("momentum", &P::momentum).Default(0.0).Describe("Decay of the moving step.");
    s.Field("rescale_grad", &P::rescale_grad).Default(1.0).Describe("Multiplies the gradients.");
    s.Field("clip_gradient", &P::clip_gradient).Default(-1.0)
        .Describe("Limit of the gradients' magnitude; negative: none.");
    s.Field("num_weights", &P::num_weights).Default(int64_t{1}).Range(1, 1 << 16).Describe("The number of weights.");
  }
};

template <class P>
absl::Status Parse(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<P>(attrs));
  const P& p = attrs->param<P>();
  const size_t n = static_cast<size_t>(p.num_weights);
  if (p.lrs.size() == n && p.wds.size() == n) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("parameters 'lrs' and 'wds' have ", p.lrs.size(), " and ",
                                                 p.wds.size(), " elements; want num_weights, ", n));
}

template <class F, class P>
struct MultiStep {
  static constexpr int kInputs = 2 + F::kStates;  // For each weight.

  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const P& p = attrs.param<P>();
    for (size_t k = 0; k < out.size(); ++k) {
      typename F::P one{};
      static_cast<Common&>(one) = {p.lrs[k], p.wds[k], p.rescale_grad, p.clip_gradient};
      if constexpr (requires { one.momentum; }) one.momentum = p.momentum;
      const TBlob* const x = in.data() + k * kInputs;
      RETURN_IF_ERROR((Update<D, F::kStates>(ctx, MakeStep<F>(one, x[0].dtype), x[0], x[1], x + 2, req[k], out[k])));
    }
    return absl::OkStatus();
  }

  // Calls infer(inputs, outputs) for each weight with what belongs to it, and keeps what it finds.
  template <class Vector, class Infer>
  static absl::StatusOr<bool> ForEachWeight(Vector* in, Vector* out, const Infer& infer) {
    bool known = true;
    for (size_t k = 0; k < out->size(); ++k) {
      const auto first = in->begin() + k * kInputs;
      Vector x(first, first + kInputs), y = {(*out)[k]};
      ASSIGN_OR_RETURN(const bool all, infer(&x, &y));
      std::copy(x.begin(), x.end(), first);
      (*out)[k] = y[0];
      known = known && all;
    }
    return known;
  }
  static absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
    return ForEachWeight(in, out, [&](ShapeVector* x, ShapeVector* y) { return SameShape(attrs, x, y); });
  }
  static absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
    return ForEachWeight(in, out, [&](TypeVector* x, TypeVector* y) {
      return UpdateType<F::kMultiPrecision>(attrs, x, y);
    });
  }
  static uint32_t Weights(const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<P>().num_weights); }
  static uint32_t Inputs(const NodeAttrs& attrs) { return Weights(attrs) * kInputs; }
  static std::vector<uint32_t> States(const NodeAttrs& attrs) {
    std::vector<uint32_t> states;
    for (uint32_t i = 0; i < Inputs(attrs); ++i) if (i % kInputs >= 2) states.push_back(i);
    return states;
  }
  static std::vector<std::pair<int, int>> Inplace(const NodeAttrs& attrs) {
    std::vector<std::pair<int, int>> pairs;
    for (int k = 0; k < static_cast<int>(Weights(attrs)); ++k) pairs.push_back({k * kInputs, k});
    return pairs;
  }
};

#define MULTI(name, F, P, one, inputs)                                                \
  GLUOND_REGISTER_OP(name)                                                            \
      .describe(one " on several weights at once.")                                   \
      .add_argument("data", "NDArray[]", inputs " of each weight in turn.")           \
      .add_arguments(P::__FIELDS__())                                                 \
      .set_attr_parser(Parse<P>)                                                      \
      .set_num_inputs(MultiStep<F, P>::Inputs)                                        \
      .set_num_outputs(MultiStep<F, P>::Weights)                                      \
      .set_attr<FMutateInputs>("FMutateInputs", MultiStep<F, P>::States)              \
      .set_attr<FInferShape>("FInferShape", MultiStep<F, P>::InferShape)              \
      .set_attr<FInferType>("FInferType", MultiStep<F, P>::InferType)                 \
      .set_attr<FInplaceOption>("FInplaceOption", MultiStep<F, P>::Inplace)           \
      .compute<MultiStep<F, P>>()

MULTI(multi_sgd_update, Sgd, MultiParam, "sgd_update", "weight and grad");
MULTI(multi_sgd_mom_update, SgdMomentum, MultiMomentumParam, "sgd_mom_update", "weight, grad and mom");
MULTI(multi_mp_sgd_update, MultiPrecision<Sgd>, MultiParam, "mp_sgd_update", "weight, grad and weight32");
MULTI(multi_mp_sgd_mom_update, MultiPrecision<SgdMomentum>, MultiMomentumParam, "mp_sgd_mom_update",
      "weight, grad, mom and weight32");

}  // namespace
}  // namespace gluond::ops
