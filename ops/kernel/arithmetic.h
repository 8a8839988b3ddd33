// Arithmetic: the functions of two numbers that the elementwise, broadcasting and scalar operators share. On integers
// they wrap; dividing by zero gives 0.

#ifndef OPS_KERNEL_ARITHMETIC_H_
#define OPS_KERNEL_ARITHMETIC_H_

#include <concepts>
#include <type_traits>

#include "ops/kernel/convert.h"
#include "ops/kernel/math.h"

namespace gluond::ops {

struct Add {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    return WrappingAdd(a, b);
  }
};
struct Sub {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    } else {
      return a - b;
    }
  }
};
struct Mul {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct Div {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      if (b == 0) return 0;
      return b == -1 ? Sub()(C(0), a) : a / b;  // The smallest integer has no opposite.
    } else {
      return a / b;
    }
  }
};
// The remainder that has the sign of b, as in Python; 0 when b is 0.
struct Mod {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    if (b == 0) return 0;
    C r;
    if constexpr (std::is_integral_v<C>) {
      r = b == -1 ? 0 : a % b;
    } else {
      r = math::Fmod(a, b);
    }
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};
struct Power {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C a, C b) const {
    return math::Pow(a, b);
  }
};
// NaN when one of them is.
struct Maximum {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};
struct Hypot {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C a, C b) const {
    return math::Hypot(a, b);
  }
};

#define GLUOND_COMPARISON(Name, condition)     \
  struct Name {                                \
    template <class C>                         \
    HOST_DEVICE C operator()(C a, C b) const { \
      return condition ? C(1) : C(0);          \
    }                                          \
  }
GLUOND_COMPARISON(Equal, a == b);
GLUOND_COMPARISON(NotEqual, a != b);
GLUOND_COMPARISON(Greater, a > b);
GLUOND_COMPARISON(GreaterEqual, a >= b);
GLUOND_COMPARISON(Lesser, a < b);
GLUOND_COMPARISON(LesserEqual, a <= b);
GLUOND_COMPARISON(LogicalAnd, (a != 0) & (b != 0));
GLUOND_COMPARISON(LogicalOr, (a != 0) | (b != 0));
GLUOND_COMPARISON(LogicalXor, (a != 0) != (b != 0));
#undef GLUOND_COMPARISON

}  // namespace gluond::ops

#endif  // OPS_KERNEL_ARITHMETIC_H_
