// _sample_multinomial: class numbers drawn with the probabilities of each row, and the logarithms of the probabilities
// that they were drawn with, through which a gradient flows back.

#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/operator.h"
#include "ops/shape_param.h"

namespace gluond::ops {
namespace {

struct MultinomialParam : Param<MultinomialParam> {
  std::vector<int64_t> shape;
  bool get_prob;
  DType dtype;
  static void Fields(Schema<MultinomialParam>& s) {
    BlockField(s);
    s.Field("get_prob", &MultinomialParam::get_prob)
        .Decides()
        .Default(false)
        .Describe("Returns the logarithms of the classes' probabilities, too.");
    s.Field("dtype", &MultinomialParam::dtype)
        .Default(DType::kInt32)
        .Describe("The type of the class numbers.")
        .Check([](DType t) { return t != DType::kBool; }, "want a type of numbers");
  }
};

absl::StatusOr<bool> MultinomialShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  if (x.ndim() == 0 || x.back() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), "; want a class along its last axis"));
  }
  ASSIGN_OR_RETURN(Shape y, BlocksOf(Shape(x.begin(), x.end() - 1), attrs.param<MultinomialParam>().shape));
  if (y.ndim() == 0) y.Append(1);
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, y);
  return true;
}

absl::StatusOr<bool> MultinomialType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(CheckFloat("input 0", (*in)[0]));
  TYPE_ASSIGN_CHECK(out, 0, attrs.param<MultinomialParam>().dtype);
  if (out->size() == 2) {
    TYPE_ASSIGN_CHECK(out, 1, (*in)[0]);
    TYPE_ASSIGN_CHECK(in, 0, (*out)[1]);
  }
  return AllKnown(*in);
}

// The first class at which the sum of probabilities passes a random number; where they sum up to less, the last.
struct ClassOf {
  Philox random;
  int64_t block, classes;
  In<double> p;
  HOST_DEVICE int64_t operator()(int64_t i) const {
    Draws draws(random, i);
    const double u = draws.Uniform();
    const int64_t row = i / block * classes;
    double sum = 0;
    for (int64_t k = 0; k + 1 < classes; ++k) {
      sum += p[row + k];
      if (u < sum) return k;
    }
    return classes - 1;
  }
};
template <class C>
struct SetClass {
  ClassOf of;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, static_cast<C>(of(i))); }
};
struct SetLogProbability {
  ClassOf of;
  Out<double> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, math::Log(of.p[i / of.block * of.classes + of(i)])); }
};

struct Multinomial {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const int64_t n = y[0].Size(), classes = x[0].shape.back();
    if (n == 0) return absl::OkStatus();
    const int64_t grain = std::max<int64_t>(1, kGrain / classes);
    const ClassOf of{ctx.random, n / (x[0].Size() / classes), classes, In<double>(x[0])};
    if (req[0] != kNullOp) {
      RETURN_IF_ERROR(DispatchCompute(y[0].dtype, [&]<class C>(C) {
        return ForEach<D>(ctx, n, SetClass<C>{of, Out<C>(y[0], req[0])}, grain);
      }));
    }
    if (y.size() < 2 || req[1] == kNullOp) return absl::OkStatus();
    return ForEach<D>(ctx, n, SetLogProbability{of, Out<double>(y[1], req[1])}, grain);
  }
};

// dL/dp of each class: the sum of dy / p over the samples of that class.
template <class C>
struct BackwardElement {
  int64_t block, classes;
  In<C> dy;
  In<int64_t> sample;
  In<C> p;
  Out<C> dp;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / classes * block;
    C sum = 0;
    for (int64_t k = 0; k < block; ++k) {
      if (sample[row + k] == i % classes) sum += dy[row + k];
    }
    dp.Set(i, sum == 0 ? C(0) : sum / p[i]);
  }
};
struct BackwardMultinomial {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs dp) {
    if (req[0] == kNullOp || dp[0].Size() == 0) return absl::OkStatus();
    const int64_t classes = dp[0].shape.back(), block = x[0].Size() / (dp[0].Size() / classes);
    return DispatchReal(dp[0].dtype, [&]<class C>(C) {
      const BackwardElement<C> backward{block, classes, In<C>(x[0]), In<int64_t>(x[1]), In<C>(x[2]), Out<C>(dp[0], req[0])};
      return ForEach<D>(ctx, dp[0].Size(), backward, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, block)));
    });
  }
};

GLUOND_REGISTER_OP(_sample_multinomial)
    .describe("Random classes, with the probabilities along the last axis of data.")
    .add_alias("sample_multinomial")
    .add_argument("data", "NDArray", "Probabilities; they sum up to 1 along the last axis.")
    .params<MultinomialParam>()
    .set_num_outputs([](const NodeAttrs& attrs) { return attrs.param<MultinomialParam>().get_prob ? 2u : 1u; })
    .infer(MultinomialShape, MultinomialType)
    .set_attr<FResourceRequest>("FResourceRequest", Random)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           if (!node->param<MultinomialParam>().get_prob) return NoGradient(node, dy);
                           return {Call("_backward_sample_multinomial", {dy[1], Output(node), node->inputs[0]})};
                         })
    .compute<Multinomial>();

GLUOND_REGISTER_OP(_backward_sample_multinomial)
    .describe("The gradient of probabilities by that of the logarithms of those that were drawn.")
    .set_num_inputs(3)
    .add_argument("dy", "NDArray", "dL/d(log probability).")
    .add_argument("sample", "NDArray", "The classes that were drawn.")
    .add_argument("data", "NDArray", "The probabilities.")
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(in, 0, (*in)[1]);
                             SHAPE_ASSIGN_CHECK(out, 0, (*in)[2]);
                             return AllKnown(*in);
                           })
    .set_attr<FInferType>("FInferType", TypeOfTwo<0, 2>)
    .compute<BackwardMultinomial>();

}  // namespace
}  // namespace gluond::ops
