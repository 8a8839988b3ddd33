// Random tensors of a distribution whose parameters are tensors: _sample_uniform, _sample_normal and others. For each
// element of the parameters there is one block, of parameter `shape`, in the output.

#include <type_traits>

#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/operator.h"
#include "ops/shape_param.h"

namespace gluond::ops {
namespace {

struct SampleParam : Param<SampleParam> {
  std::vector<int64_t> shape;
  std::optional<DType> dtype;
  static void Fields(Schema<SampleParam>& s) {
    BlockField(s);
    FloatDtypeField(s);
  }
};

absl::StatusOr<bool> SampleShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ShapeVector none;
  RETURN_IF_ERROR(SameShape(attrs, in, &none).status());
  if (!(*in)[0].rank_known()) return false;
  ASSIGN_OR_RETURN(const Shape y, BlocksOf((*in)[0], attrs.param<SampleParam>().shape));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in);
}

// y has the type that is asked for, or else the type of the parameters.
absl::StatusOr<bool> SampleSampleType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TypeVector none;
  RETURN_IF_ERROR(SameType(attrs, in, &none).status());
  const std::optional<DType>& dtype = attrs.param<SampleParam>().dtype;
  if (!dtype) RETURN_IF_ERROR(CheckFloat("without parameter 'dtype', input 0", (*in)[0]));
  TYPE_ASSIGN_CHECK(out, 0, dtype.value_or((*in)[0]));
  return AllKnown(*in);
}

// A sampler that depends on the type of the numbers is made from that type.
template <class Sampler>
Sampler MakeSampler(DType type) {
  if constexpr (std::is_constructible_v<Sampler, DType>) {
    return Sampler(type);
  } else {
    return Sampler();
  }
}

template <class Sampler, class C>
struct SampleElement {
  Sampler sampler;
  Philox random;
  int64_t block;
  In<double> a, b;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    Draws draws(random, i);
    y.Set(i, static_cast<C>(sampler(draws, a[i / block], b[i / block])));
  }
};

// `inputs` parameters, one or two; a sampler of one does not look at the second.
template <class Sampler>
struct Sample {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp || y[0].Size() == 0) return absl::OkStatus();
    constexpr int64_t kDrawGrain = 512;
    return DispatchReal(y[0].dtype, [&]<class C>(C) {
      const SampleElement<Sampler, C> sample{MakeSampler<Sampler>(y[0].dtype),
                                             ctx.random,
                                             y[0].Size() / x[0].Size(),
                                             In<double>(x[0]),
                                             In<double>(x.back()),
                                             Out<C>(y[0], req[0])};
      return ForEach<D>(ctx, y[0].Size(), sample, kDrawGrain);
    });
  }
};

#define SAMPLE(name, Sampler, inputs, text)                   \
  GLUOND_REGISTER_OP(_sample_##name)                          \
      .describe(text)                                         \
      .add_alias("sample_" #name)                             \
      .set_num_inputs(inputs)                                 \
      .set_attr_parser(ParamParser<SampleParam>)              \
      .infer(SampleShape, SampleSampleType)                   \
      .set_attr<FResourceRequest>("FResourceRequest", Random) \
      .set_attr<FGradient>("FGradient", NoGradient)           \
      .compute<Sample<Sampler>>()
#define SAMPLE_ONE(name, Sampler, a, a_text, text) \
  SAMPLE(name, Sampler, 1, text).add_argument(a, "NDArray", a_text).add_arguments(SampleParam::__FIELDS__())
#define SAMPLE_TWO(name, Sampler, a, a_text, b, b_text, text) \
  SAMPLE(name, Sampler, 2, text)                              \
      .add_argument(a, "NDArray", a_text)                     \
      .add_argument(b, "NDArray", b_text)                     \
      .add_arguments(SampleParam::__FIELDS__())

SAMPLE_TWO(uniform, UniformSampler, "low", "Lower bounds.", "high", "Upper bounds, which are left out.",
           "Uniform random numbers in [low, high).");
SAMPLE_TWO(normal, NormalSampler, "mu", "Means.", "sigma", "Standard deviations.", "Normally distributed random numbers.");
SAMPLE_TWO(gamma, GammaSampler, "alpha", "Shapes of the distributions.", "beta", "Scales; the means are alpha beta.",
           "Gamma-distributed random numbers.");
SAMPLE_ONE(exponential, ExponentialSampler, "lam", "Rates; the means are 1 / lam.", "Exponentially distributed random numbers.");
SAMPLE_ONE(poisson, PoissonSampler, "lam", "Means.", "Random numbers of Poisson's distribution.");
SAMPLE_TWO(negative_binomial, NegativeBinomialSampler, "k", "The numbers of failures that end it.", "p",
           "The probabilities of failure.", "How many trials succeed before k of them fail.");
SAMPLE_TWO(generalized_negative_binomial, GeneralizedNegativeBinomialSampler, "mu", "Means.", "alpha",
           "Dispersions; 0: Poisson's distribution.",
           "Random numbers of the negative binomial distribution, by its mean and dispersion.");

}  // namespace
}  // namespace gluond::ops
