// absolute: y = |x|, elementwise, and its gradient, from a library.

#include <cmath>

#include "gluond_op.hpp"

namespace {

using namespace gluond_op;  // NOLINT: these words are all that there is here.

struct Absolute {
  template <class T>
  T operator()(T x) const {
    return std::fabs(x);
  }
};

struct AbsoluteBackward {
  template <class T>
  T operator()(T dy, T x) const {
    return x > 0 ? dy : x < 0 ? -dy : 0;
  }
};

GLUOND_REGISTER_OP(absolute)
    .describe("y = |x|, elementwise.")
    .add_argument("data", "NDArray", "Any shape.")
    .set_attr<FInplaceOption>("FInplaceOption", {{0, 0}})
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_absolute"})
    .compute<Elemwise<Absolute>>();

GLUOND_REGISTER_OP(_backward_absolute)
    .describe("dx = dy sign(x).")
    .add_argument("dy", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "The forward input.")
    .set_attr<FInplaceOption>("FInplaceOption", {{0, 0}, {1, 0}})
    .compute<Elemwise<AbsoluteBackward, 2>>();

}  // namespace
