// Random tensors of a distribution whose parameters are attributes: _random_exponential, _random_gamma,
// _random_poisson, _random_negative_binomial, _random_generalized_negative_binomial, and their forms with the shape of
// a tensor.

#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/shape_param.h"

namespace gluond::ops {
namespace {

// Each distribution has a sampler, and the fields of its parameters.
struct Exponential {
  using Sampler = ExponentialSampler;
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("lam", &P::a).Default(1.0).Above(0.0).Describe("Rate; the mean is 1 / lam.");
  }
};
struct GammaLaw {
  using Sampler = GammaSampler;
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("alpha", &P::a).Default(1.0).Above(0.0).Describe("Shape of the distribution.");
    s.template Field<double>("beta", &P::b).Default(1.0).Above(0.0).Describe("Scale; the mean is alpha beta.");
  }
};
struct Poisson {
  using Sampler = PoissonSampler;
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("lam", &P::a).Default(1.0).Range(0.0, 0x1p53).Describe("Mean.");
  }
};
struct NegativeBinomial {
  using Sampler = NegativeBinomialSampler;
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("k", &P::a).Default(1.0).Above(0.0).Describe("The number of failures that ends it.");
    s.template Field<double>("p", &P::b).Default(1.0).Above(0.0).Range(0.0, 1.0).Describe("The probability of failure.");
  }
};
struct GeneralizedNegativeBinomial {
  using Sampler = GeneralizedNegativeBinomialSampler;
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("mu", &P::a).Default(1.0).AtLeast(0.0).Describe("Mean.");
    s.template Field<double>("alpha", &P::b).Default(1.0).AtLeast(0.0).Describe("Dispersion; 0: Poisson's distribution.");
  }
};

template <class Sampler, class C>
struct DrawElement {
  Philox random;
  Two p;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    Draws draws(random, i);
    y.Set(i, static_cast<C>(Sampler()(draws, p.a, p.b)));
  }
};

template <class P, class Sampler>
struct DistributionDraw {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    constexpr int64_t kDrawGrain = 512;
    return DispatchReal(y[0].dtype, [&]<class C>(C) {
      const DrawElement<Sampler, C> draw{ctx.random, attrs.param<P>(), Out<C>(y[0], req[0])};
      return ForEach<D>(ctx, y[0].Size(), draw, kDrawGrain);
    });
  }
};

#define RANDOM(name, Distribution, text)                                              \
  GLUOND_REGISTER_OP(_random_##name)                                                  \
      .describe(text)                                                                 \
      .add_alias("random_" #name)                                                     \
      .with(RandomFacts<RandomParam<Distribution>>)                                   \
      .compute<DistributionDraw<RandomParam<Distribution>, Distribution::Sampler>>(); \
  GLUOND_REGISTER_OP(_random_##name##_like)                                           \
      .describe(text " In the shape and type of data.")                               \
      .with(RandomLikeFacts<LikeParam<Distribution>>)                                 \
      .compute<DistributionDraw<LikeParam<Distribution>, Distribution::Sampler>>()

RANDOM(exponential, Exponential, "Exponentially distributed random numbers.");
RANDOM(gamma, GammaLaw, "Gamma-distributed random numbers.");
RANDOM(poisson, Poisson, "Random numbers of Poisson's distribution.");
RANDOM(negative_binomial, NegativeBinomial, "How many trials succeed before k of them fail.");
RANDOM(generalized_negative_binomial, GeneralizedNegativeBinomial,
       "Random numbers of the negative binomial distribution, by its mean and dispersion.");

}  // namespace
}  // namespace gluond::ops
