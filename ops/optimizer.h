// The optimizers' steps share the fields that all have, the clip of the gradient, and the registration.
//
//   struct Sgd : Step<SgdParam, 0> {
//     using Step::Step;
//     template <class C> HOST_DEVICE void operator()(C& w, C g, C* states) const;
//   };
//   UPDATE(sgd_update, Sgd).describe("...");
//
// A registration makes two operators of a step: its own, on one weight, whose numbers are attributes, and _multi_<name>, on
// num_weights of them, whose numbers are a tensor. Input 0 of the latter, `numbers`, is float64 and has a row for each weight;
// attribute `numbers` names the parameters that its columns are: "lr,wd". The inputs of the weights follow in turn.

#ifndef OPS_OPTIMIZER_H_
#define OPS_OPTIMIZER_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/core/text.h"
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

// A step with `states` states beside the weight. It is made of the parameters, and may read the weight's inputs x[i].data and
// x[i].dtype. Its facts are those of kernel/update.h, and whether the output may lie in the weight's place.
template <class Parameters, int states>
struct Step {
  using P = Parameters;
  static constexpr int kStates = states, kInputs = 2 + states, kWeight = 0, kFirstState = 2;
  static constexpr bool kMultiPrecision = false, kInPlace = true;
  P p;
  template <class X>
  HOST_DEVICE Step(const P& param, const X&) : p(param) {}
};

// The order is MXNet's, for calls with parameters by position: the rate, the optimizer's own, the common ones. S: Schema or
// NumberFields.
template <template <class> class S, class P>
void RateField(S<P>& s) {
  s.template Field<double>("lr", &P::lr).Describe("Learning rate.");
}
template <template <class> class S, class P>
void CommonFields(S<P>& s) {
  s.template Field<double>("wd", &P::wd).Default(0.0).Describe("Weight decay.");
  s.template Field<double>("rescale_grad", &P::rescale_grad)
      .Default(1.0)
      .Describe("Multiplies the gradient; 1 / batch size, usually.");
  s.template Field<double>("clip_gradient", &P::clip_gradient)
      .Default(-1.0)
      .Describe("Limit of the gradient's magnitude; negative: none.");
}
template <template <class> class S, class P>
void LazyField(S<P>& s) {
  s.Field("lazy_update", &P::lazy_update).Default(true).Describe("Accepted for MXNet's sake: of sparse gradients only.");
}
template <template <class> class S, class P>
void AverageFields(S<P>& s, double epsilon) {
  s.Field("beta1", &P::beta1).Default(0.9).Describe("Decay of the gradient's average.");
  s.Field("beta2", &P::beta2).Default(0.999).Describe("Decay of the squared gradient's average.");
  s.Field("epsilon", &P::epsilon).Default(epsilon).Describe("Keeps the quotient finite.");
}

// The numbers among the fields of P, with their places. P::Fields declares them to this as to a Schema.
template <class P>
class NumberFields {
 public:
  using Real = double P::*;
  using Whole = int64_t P::*;
  // A number's place: `real` or `whole`.
  struct Column {
    Real real = nullptr;
    Whole whole = nullptr;
    HOST_DEVICE void Set(P* p, double v) const {
      if (real != nullptr) {
        p->*real = v;
      } else {
        p->*whole = v > -0x1p53 && v < 0x1p53 ? static_cast<int64_t>(v) : 0;
      }
    }
  };
  struct Described {
    Described& Default(double) { return *this; }
    Described& AtLeast(int64_t) { return *this; }
    Described& Describe(const char*) { return *this; }
  };

  NumberFields() { P::Fields(*this); }

  template <class T>
  Described Field(const char* name, T P::*member) {
    if constexpr (std::is_same_v<T, double>) fields_.push_back({name, {.real = member}});
    if constexpr (std::is_same_v<T, int64_t>) fields_.push_back({name, {.whole = member}});
    return {};
  }

  // Null: there is none of that name.
  const Column* Find(absl::string_view name) const {
    for (const auto& [known, column] : fields_)
      if (known == name) return &column;
    return nullptr;
  }
  std::string Names() const {
    return absl::StrJoin(fields_, ", ", [](std::string* out, const auto& field) { out->append(field.first); });
  }

 private:
  std::vector<std::pair<std::string, Column>> fields_;
};

// Which parameters of a step are columns of a tensor.
template <class P>
struct NumberColumns {
  typename NumberFields<P>::Column at[sizeof(P) / sizeof(double)];  // P has at most so many numbers.
  int count = 0;
};

// Makes the step F of weight k: the parameters are p's, but those that are columns of `numbers`.
template <class F>
struct MakeStep {
  using P = typename F::P;
  P p;
  NumberColumns<P> columns = {};
  const double* numbers = nullptr;

  template <class X>
  HOST_DEVICE F operator()(int64_t k, const X& x) const {
    P own = p;
    for (int c = 0; c < columns.count; ++c) columns.at[c].Set(&own, numbers[k * columns.count + c]);
    return F(own, x);
  }
};

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
  using P = typename F::P;
  static constexpr int kStates = F::kStates + 1, kInputs = F::kInputs + 1, kWeight = 0, kFirstState = 2;
  static constexpr bool kMultiPrecision = true, kInPlace = true;
  F f;
  DType type;  // The weight's.
  template <class X>
  HOST_DEVICE MultiPrecision(const P& param, const X& x) : f(param, x), type(x[0].dtype) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    C& weight32 = s[F::kStates];
    if (Stored(type, weight32) != w) weight32 = w;
    f(weight32, g, s);
    w = weight32;
  }
};

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

inline std::vector<ArgumentDoc> TensorArguments(std::initializer_list<const char*> names, const char* text) {
  std::vector<ArgumentDoc> docs;
  for (const char* name : names) docs.push_back({name, "NDArray", true, "", text});
  return docs;
}
inline auto UpdateArguments(std::initializer_list<const char*> states) {
  std::vector<ArgumentDoc> docs = TensorArguments(states, "A state; written.");
  return [docs = std::move(docs)](OpRegistration& op) {
    op.add_argument("weight", "NDArray", "w; usually the output, too.").add_argument("grad", "NDArray", "g.").add_arguments(docs);
  };
}

// The kernel of step F on one weight.
template <class F>
struct SingleUpdate {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return Update<D, F>(ctx, MakeStep<F>{attrs.param<typename F::P>()}, in.data(), req, out);
  }
};

// The facts of step F on `weights` weights, whose inputs begin behind `before` others.
template <class F>
void SetWeights(OpRegistration& op, uint32_t (*weights)(const NodeAttrs&), uint32_t before) {
  op.set_num_outputs(weights)
      .set_num_inputs([=](const NodeAttrs& attrs) { return before + weights(attrs) * F::kInputs; })
      .template set_attr<FMutateInputs>("FMutateInputs", [=](const NodeAttrs& attrs) {
        std::vector<uint32_t> states;
        const uint32_t inputs = weights(attrs) * F::kInputs;
        for (uint32_t first = F::kFirstState; first < inputs; first += F::kInputs)
          for (int i = 0; i < F::kStates; ++i) states.push_back(before + first + i);
        return states;
      });
  if (F::kInPlace) {
    op.template set_attr<FInplaceOption>("FInplaceOption", [=](const NodeAttrs& attrs) {
      std::vector<std::pair<int, int>> pairs;
      for (uint32_t k = 0; k < weights(attrs); ++k) pairs.push_back({before + k * F::kInputs, k});
      return pairs;
    });
  }
}

// Calls infer(inputs, outputs) for each weight, whose inputs begin behind `before` others, and keeps what becomes known.
template <class F, class Vector, class Infer>
absl::StatusOr<bool> InferWeights(size_t before, Vector* in, Vector* out, const Infer& infer) {
  bool known = true;
  for (size_t k = 0; k < out->size(); ++k) {
    const auto first = in->begin() + before + k * F::kInputs;
    Vector x(first, first + F::kInputs), y = {(*out)[k]};
    const absl::StatusOr<bool> all = infer(&x, &y);
    if (!all.ok()) return Annotate(all.status(), absl::StrCat("weight ", k));
    std::copy(x.begin(), x.end(), first);
    (*out)[k] = y[0];
    known = known && *all;
  }
  return known;
}
// The same of types, by the one step's rule. All weights have one type.
template <class F>
absl::StatusOr<bool> InferTypes(const FInferType& rule, size_t before, const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  DType type = DType::kUnknown;
  for (size_t i = before; i < in->size() && type == DType::kUnknown; i += F::kInputs) type = (*in)[i];
  return InferWeights<F>(before, in, out, [&](TypeVector* x, TypeVector* y) -> absl::StatusOr<bool> {
    TYPE_ASSIGN_CHECK(x, 0, type);
    ASSIGN_OR_RETURN(const bool known, rule(attrs, x, y));
    type = (*x)[0];
    return known;
  });
}

struct WeightsParam : Param<WeightsParam> {
  std::string numbers;
  int64_t num_weights;
  static void Fields(Schema<WeightsParam>& s) {
    s.Field("numbers", &WeightsParam::numbers).Describe("The parameters that are columns of input 'numbers', as 'lr,wd'.");
    s.Field("num_weights", &WeightsParam::num_weights).Decides().Default(1).Range(1, 1 << 16).Describe("The number of weights.");
  }
};

// The parameters of a step on many weights: those of the one step, of which some are columns of a tensor.
template <class P>
struct MultiUpdateParam {
  P p{};
  NumberColumns<P> columns;
  int64_t num_weights = 1;
};

template <class P>
absl::Status ParseMultiUpdate(NodeAttrs* attrs) {
  AttrDict own, step;
  for (const auto& [key, value] : attrs->dict) (WeightsParam::GetSchema().Find(key) != nullptr ? own : step).emplace(key, value);
  WeightsParam weights;
  RETURN_IF_ERROR(WeightsParam::GetSchema().Parse(&weights, own));
  MultiUpdateParam<P> param;
  param.num_weights = weights.num_weights;
  const NumberFields<P> fields;
  for (absl::string_view name : absl::StrSplit(weights.numbers, ',')) {
    name = absl::StripAsciiWhitespace(name);
    const auto* const column = fields.Find(name);
    // The column stands for the attribute, which may be required.
    const bool is_new = column != nullptr && step.emplace(std::string(name), "1").second;
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'numbers' is '", Excerpt(weights.numbers), "'; '", Excerpt(name),
                                                     column == nullptr ? "' is no number of the step" : "' is given twice",
                                                     "; want each name once, as a column or as an attribute, out of ",
                                                     fields.Names()));
    }
    param.columns.at[param.columns.count++] = *column;
  }
  RETURN_IF_ERROR(P::GetSchema().Parse(&param.p, step));
  attrs->Store(std::move(param));
  return absl::OkStatus();
}

// Step F on many weights.
template <class F>
struct MultiUpdate {
  using P = MultiUpdateParam<typename F::P>;

  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const P& param = attrs.param<P>();
    return Update<D, F>(ctx, MakeStep<F>{param.p, param.columns, in[0].dptr<double>()}, in.data() + 1, req, out);
  }

  // The step's parameters, of which none is required: each number may be a column.
  static std::vector<ArgumentDoc> Parameters() {
    std::vector<ArgumentDoc> docs = F::P::__FIELDS__();
    for (ArgumentDoc& doc : docs) doc.required = false;
    return docs;
  }

  // The operator's facts, by the name and the rules of the one step.
  static auto Facts(const char* name, FInferShape shape, FInferType type) {
    return [=](OpRegistration& op) {
      op
          .describe(absl::StrCat(
              name,
              " on several weights at once. Input 0 is float64, with a row for each weight and a column for each name in numbers."))
          .add_argument("data", "NDArray[]", absl::StrCat("The numbers, and the inputs of ", name, " of each weight in turn."))
          .add_arguments(WeightsParam::__FIELDS__())
          .add_arguments(Parameters())
          .set_attr_parser(ParseMultiUpdate<typename F::P>);
      SetWeights<F>(op, Count<&P::num_weights>, 1);
      op.infer(
          [shape](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
            const P& param = attrs.param<P>();
            SHAPE_ASSIGN_CHECK(in, 0, Shape({param.num_weights, param.columns.count}));
            return InferWeights<F>(1, in, out, [&](ShapeVector* x, ShapeVector* y) { return shape(attrs, x, y); });
          },
          [type](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
            TYPE_ASSIGN_CHECK(in, 0, DType::kFloat64);
            return InferTypes<F>(type, 1, attrs, in, out);
          });
    };
  }
};

inline uint32_t OneWeight(const NodeAttrs&) { return 1; }

// Registers step F with its multi form. `arguments`: a function that documents the tensors of the one step.
#define STEP(name, F, shape, type, arguments)                                                                  \
  GLUOND_REGISTER_OP(_multi_##name).with(MultiUpdate<F>::Facts(#name, shape, type)).compute<MultiUpdate<F>>(); \
  GLUOND_REGISTER_OP(name)                                                                                     \
      .with(arguments)                                                                                         \
      .params<F::P>()                                                                                          \
      .with([](OpRegistration& op) { SetWeights<F>(op, OneWeight, 0); })                                       \
      .infer(shape, type)                                                                                      \
      .compute<SingleUpdate<F>>()

#define UPDATE(name, F, ...) STEP(name, F, SameShape, UpdateType<F::kMultiPrecision>, UpdateArguments({__VA_ARGS__}))

}  // namespace gluond::ops

#endif  // OPS_OPTIMIZER_H_
