// absolute: y = |x|, elementwise, and its gradient, as a library of operators.

#include <cmath>

#include "gluond_op.hpp"

using namespace gluond_op;  // NOLINT: the operators are all that there is here.

struct Absolute {
  template <class T>
  T operator()(T x) const {
    return std::fabs(x);
  }
};

struct AbsoluteBackward {
  template <class T>
  T operator()(T dy, T x) const {
    return x == 0 ? 0 : std::copysign(dy, x * dy);
  }
};

GLUOND_REGISTER_OP(absolute)
    .describe("y = |x|, elementwise.")
    .add_argument("data", "NDArray", "Any shape.")
    .set_attr<FInplaceOption>("FInplaceOption", {{0, 0}})
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_absolute"})
    .compute<Elemwise<Absolute>>();

// dx = dy sign(x), which can be differentiated by dy again.
GLUOND_REGISTER_OP(_backward_absolute)
    .describe("dx = dy sign(x).")
    .add_argument("dy", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "The forward input.")
    .set_attr<FInplaceOption>("FInplaceOption", {{0, 0}, {1, 0}})
    .set_attr<FGradient>("FGradient", [](Graph& g) { return Entries{g.head(0) * g.Call("sign", {g.input(1)})}; })
    .compute<Elemwise<AbsoluteBackward, 2>>();
