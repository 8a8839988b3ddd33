// Math: the functions that operators are made of, for float and double, on either device.
//
// On a CPU the float versions of Exp, Log, Tanh, Sigmoid, Erf, and of functions made of them, have no branches and call
// nothing. So g++ vectorizes loops over these functions. The results are within 2 units in the last place
// (tests/ops/math_test.cc). On a GPU the functions are CUDA's. The rest is the C library's.

#ifndef OPS_KERNEL_MATH_H_
#define OPS_KERNEL_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/core/half.h"
#include "engine/core/host_device.h"

namespace gluond::ops::math {

#define GLUOND_MATH_FUNCTION(Name, name)                  \
  HOST_DEVICE double Name(double x) { return ::name(x); } \
  HOST_DEVICE float Name(float x) { return ::name##f(x); }
GLUOND_MATH_FUNCTION(Abs, fabs)
GLUOND_MATH_FUNCTION(Sqrt, sqrt)
GLUOND_MATH_FUNCTION(Floor, floor)
GLUOND_MATH_FUNCTION(Ceil, ceil)
GLUOND_MATH_FUNCTION(Trunc, trunc)
GLUOND_MATH_FUNCTION(Round, round)
GLUOND_MATH_FUNCTION(Sin, sin)
GLUOND_MATH_FUNCTION(Cos, cos)
GLUOND_MATH_FUNCTION(Tan, tan)
GLUOND_MATH_FUNCTION(Asin, asin)
GLUOND_MATH_FUNCTION(Acos, acos)
GLUOND_MATH_FUNCTION(Atan, atan)
GLUOND_MATH_FUNCTION(Sinh, sinh)
GLUOND_MATH_FUNCTION(Cosh, cosh)
GLUOND_MATH_FUNCTION(Asinh, asinh)
GLUOND_MATH_FUNCTION(Acosh, acosh)
GLUOND_MATH_FUNCTION(Atanh, atanh)
GLUOND_MATH_FUNCTION(Expm1, expm1)
GLUOND_MATH_FUNCTION(Log1p, log1p)
#undef GLUOND_MATH_FUNCTION

HOST_DEVICE float Cbrt(float x) { return ::cbrtf(x); }
HOST_DEVICE float Log2(float x) { return ::log2f(x); }
HOST_DEVICE float Log10(float x) { return ::log10f(x); }
HOST_DEVICE float Gamma(float x) { return ::tgammaf(x); }
HOST_DEVICE float Pow(float x, float y) { return ::powf(x, y); }
#ifdef GLUOND_GPU_CODE

// CUDA's functions of double miss integers by a unit in the last place: pow(3, 1) is less than 3. Operators on integers
// compute in double and cut, so that an integer must be one.

// The product of `count` factors, from `first` on, which grow by `step`.
HOST_DEVICE double Product(double first, double step, int count) {
  double product = 1;
  for (int k = 0; k < count; ++k) product *= first + k * step;
  return product;
}
HOST_DEVICE double Cbrt(double x) {
  const double y = ::cbrt(x), n = ::rint(y);
  return n * n * n == x ? n : y;
}
HOST_DEVICE double Log2(double x) {
  const double y = ::log2(x), n = ::rint(y);
  return n >= 0 && n < 64 && Product(2, 0, static_cast<int>(n)) == x ? n : y;
}
HOST_DEVICE double Log10(double x) {
  const double y = ::log10(x), n = ::rint(y);
  return n >= 0 && n < 23 && Product(10, 0, static_cast<int>(n)) == x ? n : y;  // 10^22 is the last that a double holds.
}
HOST_DEVICE double Gamma(double x) {
  const bool small = x >= 1 && x < 24 && x == ::floor(x);  // 22! is the last that a double holds.
  return small ? Product(1, 1, static_cast<int>(x) - 1) : ::tgamma(x);
}
HOST_DEVICE double Pow(double x, double y) {
  if (x == ::floor(x) && y == ::floor(y) && y >= 0 && y < 64) {
    const double power = Product(x, 0, static_cast<int>(y));
    if (::fabs(power) <= 0x1p53) return power;
  }
  return ::pow(x, y);
}

#else

HOST_DEVICE double Cbrt(double x) { return ::cbrt(x); }
HOST_DEVICE double Log2(double x) { return ::log2(x); }
HOST_DEVICE double Log10(double x) { return ::log10(x); }
HOST_DEVICE double Gamma(double x) { return ::tgamma(x); }
HOST_DEVICE double Pow(double x, double y) { return ::pow(x, y); }

#endif  // GLUOND_GPU_CODE
HOST_DEVICE double Fmod(double x, double y) { return ::fmod(x, y); }
HOST_DEVICE float Fmod(float x, float y) { return ::fmodf(x, y); }
HOST_DEVICE double Hypot(double x, double y) { return ::hypot(x, y); }
HOST_DEVICE float Hypot(float x, float y) { return ::hypotf(x, y); }
HOST_DEVICE double Fma(double x, double y, double z) { return ::fma(x, y, z); }
HOST_DEVICE float Fma(float x, float y, float z) { return ::fmaf(x, y, z); }

// *largest = v where v is larger: on a GPU in no order, on a CPU for one thread.
HOST_DEVICE void RaiseTo(unsigned long long* largest, unsigned long long v) {
#ifdef GLUOND_GPU_CODE
  atomicMax(largest, v);
#else
  if (v > *largest) *largest = v;
#endif
}

HOST_DEVICE double Exp(double x) { return ::exp(x); }
HOST_DEVICE double Log(double x) { return ::log(x); }
HOST_DEVICE double Tanh(double x) { return ::tanh(x); }
HOST_DEVICE double Erf(double x) { return ::erf(x); }

// lgamma sets the global `signgam`; its reentrant form does not.
HOST_DEVICE double LogGamma(double x) {
#ifdef GLUOND_GPU_CODE
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}
HOST_DEVICE float LogGamma(float x) { return static_cast<float>(LogGamma(static_cast<double>(x))); }

#ifdef GLUOND_GPU_CODE

HOST_DEVICE float Exp(float x) { return ::expf(x); }
HOST_DEVICE float Log(float x) { return ::logf(x); }
HOST_DEVICE float Tanh(float x) { return ::tanhf(x); }
HOST_DEVICE float Erf(float x) { return ::erff(x); }

#else

// e^x = 2^n e^r with n the integer next to x / ln 2 and |r| <= ln 2 / 2. Bits instead of conversions to integers,
// which are not defined for NaN.
HOST_DEVICE float Exp(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: a number added to it is rounded to an integer.
  float t = x;
  t = t < -104.0f ? -104.0f : t;  // e^-104 rounds to 0, and e^89 to infinity. NaN stays.
  t = t > 89.0f ? 89.0f : t;
  const float shifted = Fma(t, 1.44269504088896f, kMagic);
  const float n = shifted - kMagic;
  float r = Fma(n, -0.693145751953125f, t);
  r = Fma(n, -1.42860682030941723212e-6f, r);
  float p = 1.0f / 5040;
  p = Fma(p, r, 1.0f / 720);
  p = Fma(p, r, 1.0f / 120);
  p = Fma(p, r, 1.0f / 24);
  p = Fma(p, r, 1.0f / 6);
  p = Fma(p, r, 0.5f);
  p = Fma(p * r, r, r) + 1.0f;
  // 2^n in two steps, as n is -150 to 128.
  const uint32_t bits = BitCast<uint32_t>(shifted) - BitCast<uint32_t>(kMagic);
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 1);
  return p * BitCast<float>((half + 127u) << 23) * BitCast<float>((bits - half + 127u) << 23);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); log x = e ln 2 + log m. The polynomial is that of Cephes.
HOST_DEVICE float Log(float x) {
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = BitCast<uint32_t>(subnormal ? x * 0x1p23f : x);
  const uint32_t shifted = bits - 0x3f3504f3u;  // The bits of sqrt(1/2).
  const float e = static_cast<float>(static_cast<int32_t>(shifted) >> 23) - (subnormal ? 23.0f : 0.0f);
  const float f = BitCast<float>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = Fma(p, f, -1.1514610310e-1f);
  p = Fma(p, f, 1.1676998740e-1f);
  p = Fma(p, f, -1.2420140846e-1f);
  p = Fma(p, f, 1.4249322787e-1f);
  p = Fma(p, f, -1.6668057665e-1f);
  p = Fma(p, f, 2.0000714765e-1f);
  p = Fma(p, f, -2.4999993993e-1f);
  p = Fma(p, f, 3.3333331174e-1f);
  const float square = f * f;
  float y = p * f * square;
  y = Fma(e, -2.12194440e-4f, y);
  y = Fma(square, -0.5f, y);
  y = Fma(e, 0.693359375f, f + y);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  y = x == kInf ? kInf : y;
  y = x == 0.0f ? -kInf : y;
  return x >= 0.0f ? y : std::numeric_limits<float>::quiet_NaN();
}

// Near 0 a polynomial (Cephes), as 1 - 2 / (e^2x + 1) cancels there.
HOST_DEVICE float Tanh(float x) {
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = Fma(p, square, 2.06390887954e-2f);
  p = Fma(p, square, -5.37397155531e-2f);
  p = Fma(p, square, 1.33314422036e-1f);
  p = Fma(p, square, -3.33332819422e-1f);
  const float near = Fma(p * square, x, x);
  const float a = ::fabsf(x);
  const float far = ::copysignf(1.0f - 2.0f / (Exp(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : far;
}

// After N. Juffa: 1 - e^(-t(...)) far from 0, a polynomial near it.
HOST_DEVICE float Erf(float x) {
  const float t = ::fabsf(x), square = x * x;
  float r = Fma(-1.72853470e-5f, t, 3.83197126e-4f);
  const float u = Fma(-3.88396438e-3f, t, 2.42546219e-2f);
  r = Fma(r, square, u);
  r = Fma(r, t, -1.06777877e-1f);
  r = Fma(r, t, -6.34846687e-1f);
  r = Fma(r, t, -1.28717512e-1f);
  r = Fma(r, t, -t);
  // From 4 on it is 1 to the last bit; the polynomial is not made for more.
  const float far = ::copysignf(t < 4.0f ? 1.0f - Exp(r) : 1.0f, x);
  float p = -5.96761703e-4f;
  p = Fma(p, square, 4.99119423e-3f);
  p = Fma(p, square, -2.67681349e-2f);
  p = Fma(p, square, 1.12819925e-1f);
  p = Fma(p, square, -3.76125336e-1f);
  p = Fma(p, square, 1.28379166e-1f);
  const float near = Fma(p, x, x);
  return t <= 0.921875f ? near : (t > 0.921875f ? far : x);  // NaN stays.
}

#endif  // GLUOND_GPU_CODE

template <class C>
HOST_DEVICE C Sigmoid(C x) {
  return C(1) / (C(1) + Exp(-x));
}

// log(1 + e^x), without overflow.
template <class C>
HOST_DEVICE C Softplus(C x) {
  const C e = Exp(-Abs(x));
  return (x > 0 ? x : C(0)) + Log1p(e);
}

// The y with erf(y) = x; infinite at -1 and 1, NaN outside.
HOST_DEVICE double ErfInv(double x) {
#ifdef GLUOND_GPU_CODE
  return ::erfinv(x);
#else
  if (!(x > -1 && x < 1)) {
    const double inf = std::numeric_limits<double>::infinity();
    return x == 1 ? inf : x == -1 ? -inf : std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double kA = 0.147;  // S. Winitzki's approximation, which starts Halley's iteration.
  const double l = ::log1p(-x * x), h = 2 / (M_PI * kA) + l / 2;
  double y = ::copysign(::sqrt(::fmax(0.0, ::sqrt(h * h - l / kA) - h)), x);
  for (int step = 0; step < 3; ++step) {
    // By erfc in the tails, where erf is 1 to the last bit.
    const double error = x > 0.5 ? (1 - x) - ::erfc(y) : x < -0.5 ? ::erfc(-y) - (1 + x) : ::erf(y) - x;
    const double newton = error / (M_2_SQRTPI * ::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return y;
#endif
}
HOST_DEVICE float ErfInv(float x) { return static_cast<float>(ErfInv(static_cast<double>(x))); }

// The derivative of LogGamma: by the recurrence up to 10, then the asymptotic series; by reflection below 0.
HOST_DEVICE double Digamma(double x) {
  double reflected = 0;
  if (x <= 0) {
    if (x == ::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    reflected = -M_PI / ::tan(M_PI * x);
    x = 1 - x;
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  const double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * 691 / 32760)))));
  return reflected + sum + ::log(x) - 0.5 / x - series;
}
HOST_DEVICE float Digamma(float x) { return static_cast<float>(Digamma(static_cast<double>(x))); }

}  // namespace gluond::ops::math

#endif  // OPS_KERNEL_MATH_H_
