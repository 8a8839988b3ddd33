// The two phases of LAMB (You et al., Large Batch Optimization for Deep Learning, 2019). Between them the caller takes
// the norms of the weight, r1, and of the direction, r2:
//
//   lamb_update_phase1   g = clip(rescale g);  m, v: moving averages of g, g^2;  m' = m / (1 - beta1^t),
//                        v' = v / (1 - beta2^t) with bias_correction;  direction = m' / (sqrt(v') + epsilon) + wd w
//   lamb_update_phase2   w -= lr r1' / r2 direction, with r1' = r1 in its bounds; w -= lr direction if r1' or r2 is 0
//
// mp_* keep a float32 weight beside one of 16 bits; the direction is float32.

#include <cmath>

#include "ops/kernel/math.h"
#include "ops/optimizer.h"

namespace gluond::ops {
namespace {

struct DirectionParam : Param<DirectionParam> {
  double beta1, beta2, epsilon, wd, rescale_grad, clip_gradient;
  int64_t t;
  bool bias_correction;
  static void Fields(auto& s) {
    AverageFields(s, 1e-6);
    s.Field("t", &DirectionParam::t).AtLeast(1).Describe("Which step this is, from 1.");
    s.Field("bias_correction", &DirectionParam::bias_correction)
        .Default(true)
        .Describe("Corrects the averages for their start at 0.");
    s.Field("wd", &DirectionParam::wd).Describe("Weight decay.");
    s.Field("rescale_grad", &DirectionParam::rescale_grad).Default(1.0).Describe("Multiplies the gradient.");
    s.Field("clip_gradient", &DirectionParam::clip_gradient)
        .Default(-1.0)
        .Describe("Limit of the gradient's magnitude; negative: none.");
  }
};

// The weight argument becomes the direction. The weight is input 0, or the float32 one behind the states.
template <bool multi_precision>
struct Direction : Step<DirectionParam, 2> {
  static constexpr int kInputs = multi_precision ? 5 : 4, kWeight = multi_precision ? 4 : 0;
  static constexpr bool kInPlace = false;
  double rest1, rest2;
  template <class X>
  HOST_DEVICE Direction(const DirectionParam& param, const X& x)
      : Step(param, x),
        rest1(p.bias_correction ? 1 - std::pow(p.beta1, static_cast<double>(p.t)) : 1),
        rest2(p.bias_correction ? 1 - std::pow(p.beta2, static_cast<double>(p.t)) : 1) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C clipped = ClipTo(p.clip_gradient, C(p.rescale_grad) * g);
    s[0] = C(p.beta1) * s[0] + C(1 - p.beta1) * clipped;
    s[1] = C(p.beta2) * s[1] + C(1 - p.beta2) * clipped * clipped;
    w = s[0] / C(rest1) / (math::Sqrt(s[1] / C(rest2)) + C(p.epsilon)) + C(p.wd) * w;
  }
};

struct StepParam : Param<StepParam> {
  double lr, lower_bound, upper_bound;
  static void Fields(auto& s) {
    s.Field("lr", &StepParam::lr).Describe("Learning rate.");
    s.Field("lower_bound", &StepParam::lower_bound).Default(-1.0).Describe("Least r1; negative: none.");
    s.Field("upper_bound", &StepParam::upper_bound).Default(-1.0).Describe("Largest r1; negative: none.");
  }
};

// The rate is lr r1' / r2, for all elements. With a state, the weight is that.
template <int states>
struct TrustedStep : Step<StepParam, states> {
  static constexpr int kInputs = 4 + states, kFirstState = 4;
  double rate;
  template <class X>
  HOST_DEVICE TrustedStep(const StepParam& p, const X& x) : Step<StepParam, states>(p, x) {
    double r1 = LoadAs<double>(x[2].dtype, x[2].data, 0);
    const double r2 = LoadAs<double>(x[3].dtype, x[3].data, 0);
    if (p.lower_bound >= 0 && r1 < p.lower_bound) r1 = p.lower_bound;
    if (p.upper_bound >= 0 && r1 > p.upper_bound) r1 = p.upper_bound;
    rate = r1 == 0 || r2 == 0 ? p.lr : p.lr * r1 / r2;
  }
  template <class C>
  HOST_DEVICE void operator()(C& w, C direction, C* s) const {
    C& weight = states == 0 ? w : s[0];
    weight -= C(rate) * direction;
    w = weight;
  }
};

absl::Status AllFloat(const TypeVector& types) {
  for (size_t i = 0; i < types.size(); ++i) RETURN_IF_ERROR(CheckFloat(absl::StrCat("input ", i), types[i]));
  return absl::OkStatus();
}

// Weight and gradient have one type. The direction has the type of the weight that it is made of.
template <bool multi_precision>
absl::StatusOr<bool> Phase1Type(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TypeVector same = {(*in)[0], (*in)[1]}, none;
  RETURN_IF_ERROR(SameType(attrs, &same, &none).status());
  std::copy(same.begin(), same.end(), in->begin());
  if (multi_precision) TYPE_ASSIGN_CHECK(in, 4, DType::kFloat32);
  TYPE_ASSIGN_CHECK(out, 0, multi_precision ? DType::kFloat32 : (*in)[0]);
  for (size_t i = 2; i < 4; ++i)
    if ((*in)[i] == DType::kUnknown) (*in)[i] = (*out)[0];
  RETURN_IF_ERROR(AllFloat(*in));
  return AllKnown(*in);
}
template <bool multi_precision>
absl::StatusOr<bool> Phase2Type(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  const DType type = multi_precision ? DType::kFloat32 : (*in)[0];
  for (size_t i = 1; i < in->size(); ++i)
    if ((*in)[i] == DType::kUnknown) (*in)[i] = type;
  RETURN_IF_ERROR(AllFloat(*in));
  return AllKnown(*in);
}

// The norms have one element; all other tensors have one shape.
absl::StatusOr<bool> Phase2Shape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ShapeVector same = {(*in)[0], (*in)[1]};
  if (in->size() == 5) same.push_back((*in)[4]);
  RETURN_IF_ERROR(SameShape(attrs, &same, out).status());
  (*in)[0] = (*in)[1] = same[0];
  if (in->size() == 5) (*in)[4] = same[0];
  for (size_t i : {2, 3}) SHAPE_ASSIGN_CHECK(in, i, Shape({1}));
  return AllKnown(*in);
}

auto Phase1Arguments(std::initializer_list<const char*> weight32) {
  return [docs = TensorArguments(weight32, "The weight in float32.")](OpRegistration& op) {
    op.add_argument("weight", "NDArray", "w.")
        .add_argument("grad", "NDArray", "g.")
        .add_arguments(TensorArguments({"mean", "var"}, "A state; written."))
        .add_arguments(docs);
  };
}
auto Phase2Arguments(std::initializer_list<const char*> weight32) {
  return [docs = TensorArguments(weight32, "A state; written.")](OpRegistration& op) {
    op.add_argument("weight", "NDArray", "w; usually the output, too.")
        .add_argument("g", "NDArray", "The direction from phase 1.")
        .add_argument("r1", "NDArray", "The norm of w, one number.")
        .add_argument("r2", "NDArray", "The norm of the direction, one number.")
        .add_arguments(docs);
  };
}

#define PHASE1(name, multi_precision, ...) \
  STEP(name, Direction<multi_precision>, SameShape, Phase1Type<multi_precision>, Phase1Arguments({__VA_ARGS__}))
#define PHASE2(name, multi_precision, ...) \
  STEP(name, TrustedStep<multi_precision>, Phase2Shape, Phase2Type<multi_precision>, Phase2Arguments({__VA_ARGS__}))

PHASE1(lamb_update_phase1, false)
    .describe(
        "g = clip(rescale_grad g); mean, var: moving averages of g, g^2; the direction mean' / (sqrt(var') + "
        "epsilon) + wd w, with the averages corrected for their start.");
PHASE1(mp_lamb_update_phase1, true, "weight32").describe("lamb_update_phase1 with the weight weight32.");
PHASE2(lamb_update_phase2, false).describe("w -= lr r1 / r2 g; without r1 / r2 if one of them is 0.");
PHASE2(mp_lamb_update_phase2, true, "weight32").describe("lamb_update_phase2 of weight32; weight takes its value.");

}  // namespace
}  // namespace gluond::ops
