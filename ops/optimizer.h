// The optimizers' steps share the fields that all have, the clip of the gradient, and the registration.
//
//   struct Sgd : Step<SgdParam, 0> {
//     using Step::Step;
//     template <class C> HOST_DEVICE void operator()(C& w, C g, C* states) const;
//   };
//   UPDATE(sgd_update, Sgd).describe("...");

#ifndef OPS_OPTIMIZER_H_
#define OPS_OPTIMIZER_H_

#include <initializer_list>
#include <vector>

#include "ops/kernel/update.h"
#include "ops/operator.h"

namespace gluond::ops {

// v within +-limit; a negative limit is none.
template <class C>
HOST_DEVICE C ClipTo(double most, C v) {
  const C limit = static_cast<C>(most);
  if (!(limit >= 0)) return v;
  const C low = v < -limit ? -limit : v;  // NaN stays.
  return low > limit ? limit : low;
}

// Every optimizer has these parameters; parameter structs begin with them.
struct Common {
  double lr, wd, rescale_grad, clip_gradient;

  template <class C>
  HOST_DEVICE C Clip(C v) const {
    return ClipTo(clip_gradient, v);
  }
  template <class C>
  HOST_DEVICE C Rescale(C g) const {
    return static_cast<C>(rescale_grad) * g;
  }
};

// A step with `states` states beside the weight.
template <class Parameters, int states>
struct Step {
  using P = Parameters;
  static constexpr int kStates = states;
  static constexpr bool kMultiPrecision = false;
  P p;
  explicit Step(const P& param) : p(param) {}
};

// The order is MXNet's, for calls with parameters by position: the rate, the optimizer's own, the common ones.
template <class P>
void RateField(Schema<P>& s) {
  s.template Field<double>("lr", &P::lr).Describe("Learning rate.");
}
template <class P>
void CommonFields(Schema<P>& s) {
  s.template Field<double>("wd", &P::wd).Default(0.0).Describe("Weight decay.");
  s.template Field<double>("rescale_grad", &P::rescale_grad)
      .Default(1.0)
      .Describe("Multiplies the gradient; 1 / batch size, usually.");
  s.template Field<double>("clip_gradient", &P::clip_gradient)
      .Default(-1.0)
      .Describe("Limit of the gradient's magnitude; negative: none.");
}
template <class P>
void LazyField(Schema<P>& s) {
  s.Field("lazy_update", &P::lazy_update).Default(true).Describe("Accepted for MXNet's sake: of sparse gradients only.");
}
template <class P>
void AverageFields(Schema<P>& s, double epsilon) {
  s.Field("beta1", &P::beta1).Default(0.9).Describe("Decay of the gradient's average.");
  s.Field("beta2", &P::beta2).Default(0.999).Describe("Decay of the squared gradient's average.");
  s.Field("epsilon", &P::epsilon).Default(epsilon).Describe("Keeps the quotient finite.");
}

// v, rounded as elements of `type` are.
template <class C>
HOST_DEVICE C Stored(DType type, C v) {
  switch (type) {
    case DType::kFloat16: return Convert<C>(Convert<Half>(v));
    case DType::kBfloat16: return Convert<C>(Convert<BFloat16>(v));
    case DType::kFloat32: return Convert<C>(Convert<float>(v));
    default: return v;
  }
}

// The same step on a float32 weight, the last state; the other takes its value. A weight that differs from the
// float32 one, rounded to its type, has been set since the last step: the step begins from it.
template <class F>
struct MultiPrecision {
  static constexpr int kStates = F::kStates + 1;
  static constexpr bool kMultiPrecision = true;
  using P = typename F::P;
  F f;
  DType type;  // The weight's.
  MultiPrecision(const P& param, DType type) : f(param), type(type) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    C& weight32 = s[F::kStates];
    if (Stored(type, weight32) != w) weight32 = w;
    f(weight32, g, s);
    w = weight32;
  }
};

// The step F of a weight of that type.
template <class F>
F MakeStep(const typename F::P& param, DType type) {
  if constexpr (F::kMultiPrecision) {
    return F(param, type);
  } else {
    return F(param);
  }
}

template <class F>
struct OptimizerStep {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return Update<D, F::kStates>(ctx, MakeStep<F>(attrs.param<typename F::P>(), in[0].dtype), in[0], in[1], in.data() + 2, req[0],
                                 out[0]);
  }
};

template <int states>
std::vector<uint32_t> States(const NodeAttrs&) {
  std::vector<uint32_t> inputs(states);
  for (int i = 0; i < states; ++i) inputs[i] = 2 + i;
  return inputs;
}

// Weight and gradient have y's type; states may have another. Types that are not known become y's, or, for mp_*,
// float32.
template <bool multi_precision>
absl::StatusOr<bool> UpdateType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TypeVector same(in->begin(), in->begin() + 2);
  ASSIGN_OR_RETURN(const bool known, SameFloatType(attrs, &same, out));
  std::copy(same.begin(), same.end(), in->begin());
  for (size_t i = 2; i < in->size(); ++i) {
    if ((*in)[i] == DType::kUnknown) (*in)[i] = multi_precision ? DType::kFloat32 : (*out)[0];
    RETURN_IF_ERROR(CheckFloat(absl::StrCat("input ", i), (*in)[i]));
  }
  return known;
}

inline std::vector<ArgumentDoc> StateArguments(std::initializer_list<const char*> names, const char* text = "A state; written.") {
  std::vector<ArgumentDoc> docs;
  for (const char* name : names) docs.push_back({name, "NDArray", true, "", text});
  return docs;
}

#define UPDATE(name, F, ...)                                                  \
  GLUOND_REGISTER_OP(name)                                                    \
      .add_argument("weight", "NDArray", "w; usually the output, too.")       \
      .add_argument("grad", "NDArray", "g.")                                  \
      .add_arguments(StateArguments({__VA_ARGS__}))                           \
      .params<F::P>()                                                         \
      .set_num_inputs(2 + F::kStates)                                         \
      .set_attr<FMutateInputs>("FMutateInputs", States<F::kStates>)           \
      .set_attr<FInferShape>("FInferShape", ElemwiseShape<2 + F::kStates, 1>) \
      .set_attr<FInferType>("FInferType", UpdateType<F::kMultiPrecision>)     \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)               \
      .compute<OptimizerStep<F>>()

}  // namespace gluond::ops

#endif  // OPS_OPTIMIZER_H_
