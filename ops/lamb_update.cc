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
#include "ops/kernel/stage.h"
#include "ops/optimizer.h"

namespace gluond::ops {
namespace {

struct DirectionParam : Param<DirectionParam> {
  double beta1, beta2, epsilon, wd, rescale_grad, clip_gradient;
  int64_t t;
  bool bias_correction;
  static void Fields(Schema<DirectionParam>& s) {
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

// The weight argument becomes the direction.
struct Direction : Step<DirectionParam, 2> {
  double rest1, rest2;
  explicit Direction(const DirectionParam& param)
      : Step(param),
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

// The weight is input 0, or the float32 one behind the states.
template <bool multi_precision>
struct Phase1 {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Direction direction(attrs.param<DirectionParam>());
    return Update<D, 2>(ctx, direction, in[multi_precision ? 4 : 0], in[1], in.data() + 2, req[0], out[0]);
  }
};

struct StepParam : Param<StepParam> {
  double lr, lower_bound, upper_bound;
  static void Fields(Schema<StepParam>& s) {
    s.Field("lr", &StepParam::lr).Describe("Learning rate.");
    s.Field("lower_bound", &StepParam::lower_bound).Default(-1.0).Describe("Least r1; negative: none.");
    s.Field("upper_bound", &StepParam::upper_bound).Default(-1.0).Describe("Largest r1; negative: none.");
  }
};

// lr r1' / r2, once for all elements.
struct SetRate {
  double lr, lower, upper;
  In<double> r1, r2;
  double* rate;
  HOST_DEVICE void operator()(int64_t) const {
    double norm = r1[0];
    if (lower >= 0 && norm < lower) norm = lower;
    if (upper >= 0 && norm > upper) norm = upper;
    *rate = norm == 0 || r2[0] == 0 ? lr : lr * norm / r2[0];
  }
};

template <int states>
struct TrustedStep {
  const double* rate;
  template <class C>
  HOST_DEVICE void operator()(C& w, C direction, C* s) const {
    C& weight = states == 0 ? w : s[0];
    weight -= C(*rate) * direction;
    w = weight;
  }
};

template <int states>
struct Phase2 {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const StepParam& p = attrs.param<StepParam>();
    ASSIGN_OR_RETURN(double* const rate, Space<double>(ctx, 1));
    RETURN_IF_ERROR(ForEach<D>(ctx, 1, SetRate{p.lr, p.lower_bound, p.upper_bound, In<double>(in[2]), In<double>(in[3]), rate}));
    return Update<D, states>(ctx, TrustedStep<states>{rate}, in[0], in[1], in.data() + 4, req[0], out[0]);
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

template <bool multi_precision>
std::vector<uint32_t> Mutated(const NodeAttrs&) {
  if (multi_precision) return {4};
  return {};
}

#define PHASE1(name, multi_precision, ...)                                    \
  GLUOND_REGISTER_OP(name)                                                    \
      .set_num_inputs(multi_precision ? 5 : 4)                                \
      .add_argument("weight", "NDArray", "w.")                                \
      .add_argument("grad", "NDArray", "g.")                                  \
      .add_arguments(StateArguments({"mean", "var"}))                         \
      .add_arguments(StateArguments({__VA_ARGS__}, "The weight in float32.")) \
      .params<DirectionParam>()                                               \
      .set_attr<FMutateInputs>("FMutateInputs", States<2>)                    \
      .infer(SameShape, Phase1Type<multi_precision>)                          \
      .compute<Phase1<multi_precision>>()
#define PHASE2(name, multi_precision, ...)                                     \
  GLUOND_REGISTER_OP(name)                                                     \
      .set_num_inputs(multi_precision ? 5 : 4)                                 \
      .add_argument("weight", "NDArray", "w; usually the output, too.")        \
      .add_argument("g", "NDArray", "The direction from phase 1.")             \
      .add_argument("r1", "NDArray", "The norm of w, one number.")             \
      .add_argument("r2", "NDArray", "The norm of the direction, one number.") \
      .add_arguments(StateArguments({__VA_ARGS__}))                            \
      .params<StepParam>()                                                     \
      .set_attr<FMutateInputs>("FMutateInputs", Mutated<multi_precision>)      \
      .infer(Phase2Shape, Phase2Type<multi_precision>)                         \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)               \
      .compute<Phase2<multi_precision ? 1 : 0>>()

PHASE1(lamb_update_phase1, false)
    .describe(
        "g = clip(rescale_grad g); mean, var: moving averages of g, g^2; the direction mean' / (sqrt(var') + "
        "epsilon) + wd w, with the averages corrected for their start.");
PHASE1(mp_lamb_update_phase1, true, "weight32").describe("lamb_update_phase1 with the weight weight32.");
PHASE2(lamb_update_phase2, false).describe("w -= lr r1 / r2 g; without r1 / r2 if one of them is 0.");
PHASE2(mp_lamb_update_phase2, true, "weight32").describe("lamb_update_phase2 of weight32; weight takes its value.");

}  // namespace
}  // namespace gluond::ops
