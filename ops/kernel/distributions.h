// Distributions: samplers of one number each. A sampler draws as many random words as it needs from the element's own
// stream, so that element i depends on the generator and on i only. Samplers compute in double, so that devices decide
// alike.

#ifndef OPS_KERNEL_DISTRIBUTIONS_H_
#define OPS_KERNEL_DISTRIBUTIONS_H_

#include <cmath>
#include <limits>

#include "engine/core/philox.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/math.h"

namespace gluond::ops {

// The words of one element: of blocks element, 2^48 + element, 2 * 2^48 + element, ... A tensor has at most 2^48
// elements.
class Draws {
 public:
  HOST_DEVICE Draws(const Philox& random, int64_t element) : random_(random), next_(static_cast<uint64_t>(element)) {}

  HOST_DEVICE uint32_t Word() {
    if (used_ == 4) {
      block_ = random_(next_);
      next_ += uint64_t{1} << 48;
      used_ = 0;
    }
    return block_.word[used_++];
  }
  // In (0, 1), without the ends.
  HOST_DEVICE double Uniform() { return (static_cast<double>(Word()) + 0.5) * 0x1p-32; }
  // Box and Muller's method, of which one number is used.
  HOST_DEVICE double Normal() {
    const double radius = math::Sqrt(-2 * math::Log(Uniform()));
    return radius * math::Cos(2 * M_PI * Uniform());
  }

 private:
  Philox random_;
  uint64_t next_;
  Philox::Block block_;
  int used_ = 4;
};

// In [0, 1), a multiple of 2^-53, from two random words: a double's precision. Philox::ToUniform has a float's.
HOST_DEVICE double ToUniform53(uint32_t first, uint32_t second) {
  return static_cast<double>(first >> 5) * 0x1p-27 + static_cast<double>(second >> 6) * 0x1p-53;
}

namespace distributions_internal {

// The largest number of type T below `high`; Bits is as wide as T.
template <class T, class Bits>
HOST_DEVICE double Below(double high) {
  const T near = Convert<T>(high);
  if (Convert<double>(near) < high) return Convert<double>(near);
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits bits = BitCast<Bits>(near), magnitude = static_cast<Bits>(bits & ~kSign);
  const Bits below = magnitude == 0 ? kSign | 1 : bits != magnitude ? bits + 1 : bits - 1;
  return Convert<double>(BitCast<T>(below));
}

}  // namespace distributions_internal

// The largest number of a floating-point type below `high`. Requires: high is a number, above the type's lowest.
HOST_DEVICE double LargestBelow(DType type, double high) {
  switch (type) {
    case DType::kFloat64: return distributions_internal::Below<double, uint64_t>(high);
    case DType::kFloat16: return distributions_internal::Below<Half, uint16_t>(high);
    case DType::kBfloat16: return distributions_internal::Below<BFloat16, uint16_t>(high);
    default: return distributions_internal::Below<float, uint32_t>(high);
  }
}

// The largest number that a type has in [low, high); infinity where the interval is empty.
HOST_DEVICE double UniformTop(DType type, double low, double high) {
  return low < high ? LargestBelow(type, high) : std::numeric_limits<double>::infinity();
}

HOST_DEVICE double NotANumber() { return std::numeric_limits<double>::quiet_NaN(); }

// Each sampler takes up to two parameters, and gives NaN where they are out of its range.

struct UniformSampler {
  DType type;  // The tensor's.
  explicit UniformSampler(DType type) : type(type) {}
  HOST_DEVICE double operator()(Draws& draws, double low, double high) const {
    const uint32_t word = draws.Word();
    const double u = type == DType::kFloat64 ? ToUniform53(word, draws.Word()) : Philox::ToUniform(word);
    const double v = low + (high - low) * u, top = UniformTop(type, low, high);
    return v > top ? top : v;
  }
};

struct NormalSampler {
  HOST_DEVICE double operator()(Draws& draws, double mean, double deviation) const {
    return deviation >= 0 ? mean + deviation * draws.Normal() : NotANumber();
  }
};

// With mean 1 / lam.
struct ExponentialSampler {
  HOST_DEVICE double operator()(Draws& draws, double lam, double) const {
    return lam > 0 ? -math::Log(draws.Uniform()) / lam : NotANumber();
  }
};

// With mean alpha beta. G. Marsaglia, W. W. Tsang: A Simple Method for Generating Gamma Variables, 2000. An alpha below
// 1 is drawn by way of alpha + 1.
struct GammaSampler {
  HOST_DEVICE double operator()(Draws& draws, double alpha, double beta) const {
    constexpr double kLargest = 1e300;  // With infinity, nothing would be accepted.
    if (!(alpha > 0 && alpha < kLargest) || !(beta > 0)) return NotANumber();
    const double boost = alpha < 1 ? math::Pow(draws.Uniform(), 1 / alpha) : 1;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / math::Sqrt(9 * d);
    for (;;) {
      const double x = draws.Normal(), t = 1 + c * x;
      if (t <= 0) continue;
      const double v = t * t * t;
      if (math::Log(draws.Uniform()) < 0.5 * x * x + d - d * v + d * math::Log(v)) return beta * boost * d * v;
    }
  }
};

// Small means: uniform numbers are multiplied until they are below e^-lam. Large ones: W. Hoermann, The Transformed
// Rejection Method for Generating Poisson Random Variables, 1993, algorithm PTRS.
struct PoissonSampler {
  HOST_DEVICE double operator()(Draws& draws, double lam, double) const {
    if (!(lam >= 0) || lam > 0x1p53) return NotANumber();
    return lam < 10 ? Small(draws, lam) : Large(draws, lam);
  }

 private:
  HOST_DEVICE static double Small(Draws& draws, double lam) {
    const double limit = math::Exp(-lam);
    double k = 0;
    for (double product = draws.Uniform(); product > limit; product *= draws.Uniform()) ++k;
    return k;
  }
  HOST_DEVICE static double Large(Draws& draws, double lam) {
    const double b = 0.931 + 2.53 * math::Sqrt(lam), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
      const double u = draws.Uniform() - 0.5, v = draws.Uniform(), us = 0.5 - math::Abs(u);
      const double k = math::Floor((2 * a / us + b) * u + lam + 0.43);
      if (us >= 0.07 && v <= v_r) return k;
      if (k < 0 || (us < 0.013 && v > us)) continue;
      const double accepted = math::Log(v * inverse_alpha / (a / (us * us) + b));
      if (accepted <= k * math::Log(lam) - lam - math::LogGamma(k + 1)) return k;
    }
  }
};

// The number of trials that succeed before k fail, where one fails with probability p: Poisson's, with a
// gamma-distributed mean.
struct NegativeBinomialSampler {
  HOST_DEVICE double operator()(Draws& draws, double k, double p) const {
    if (!(k > 0) || !(p > 0 && p <= 1)) return NotANumber();
    if (p == 1) return 0;
    return PoissonSampler()(draws, GammaSampler()(draws, k, (1 - p) / p), 0);
  }
};

// The same by its mean mu and its dispersion alpha; the variance is mu + alpha mu^2.
struct GeneralizedNegativeBinomialSampler {
  HOST_DEVICE double operator()(Draws& draws, double mu, double alpha) const {
    if (!(mu >= 0) || !(alpha >= 0)) return NotANumber();
    if (mu == 0 || alpha == 0) return PoissonSampler()(draws, mu, 0);
    return PoissonSampler()(draws, GammaSampler()(draws, 1 / alpha, alpha * mu), 0);
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_DISTRIBUTIONS_H_
