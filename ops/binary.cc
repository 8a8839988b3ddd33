// Elementwise operators on two tensors of one shape, and sums of many.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/map.h"

namespace gluond::ops {
namespace {

using E = const NodeEntry&;

#define BINARY_OP(name, Kernel, text)                                                 \
  GLUOND_REGISTER_OP(name)                                                            \
      .describe(text)                                                                 \
      .set_num_inputs(2)                                                              \
      .add_argument("lhs", "NDArray", "Any shape.")                                   \
      .add_argument("rhs", "NDArray", "The same shape.")                              \
      .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)                      \
      .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)                         \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)                      \
      .compute<Binary<Kernel>>()
#define BINARY(name, Kernel, d_lhs, d_rhs, text)                                      \
  BINARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", Chain2{              \
      [](E a, E b, E y, E dy) -> NodeEntry { (void)a, (void)b, (void)y; return d_lhs; },  \
      [](E a, E b, E y, E dy) -> NodeEntry { (void)a, (void)b, (void)y; return d_rhs; }})
#define BINARY_CONSTANT(name, Kernel, text)                                           \
  BINARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", NoGradient)

BINARY(elemwise_add, Add, dy, dy, "a + b.").add_alias("_add").add_alias("_plus").add_alias("_Plus");
BINARY(elemwise_sub, Sub, dy, -dy, "a - b.").add_alias("_sub").add_alias("_minus").add_alias("_Minus");
BINARY(elemwise_mul, Mul, dy * b, dy * a, "a b.").add_alias("_mul").add_alias("_Mul");
BINARY(elemwise_div, Div, dy / b, -(dy / b * y), "a / b.").add_alias("_div").add_alias("_Div")
    .add_alias("_scatter_elemwise_div");
// What the gradient pass adds contributions with.
BINARY(_grad_add, Add, dy, dy, "a + b.").set_attr<TIsSum>("TIsSum", true);

BINARY(_mod, Mod, dy, -(dy * Call("floor", {a / b})), "a modulo b, with the sign of b.").add_alias("_Mod");
BINARY(_power, Power, dy * (b * Call("_power", {a, CallScalar("_minus_scalar", b, 1)})),
       dy * (y * Call("log", {a})), "a^b.").add_alias("_Power");
BINARY(_maximum, Maximum, dy * Call("_greater_equal", {a, b}), dy * Call("_lesser", {a, b}), "max(a, b).")
    .add_alias("_Maximum");
BINARY(_minimum, Minimum, dy * Call("_lesser_equal", {a, b}), dy * Call("_greater", {a, b}), "min(a, b).")
    .add_alias("_Minimum");
BINARY(_hypot, Hypot, dy * (a / y), dy * (b / y), "sqrt(a^2 + b^2).").add_alias("_Hypot");
BINARY_CONSTANT(_equal, Equal, "1 where a = b, else 0.").add_alias("_Equal");
BINARY_CONSTANT(_not_equal, NotEqual, "1 where a != b, else 0.").add_alias("_Not_Equal");
BINARY_CONSTANT(_greater, Greater, "1 where a > b, else 0.").add_alias("_Greater");
BINARY_CONSTANT(_greater_equal, GreaterEqual, "1 where a >= b, else 0.").add_alias("_Greater_Equal");
BINARY_CONSTANT(_lesser, Lesser, "1 where a < b, else 0.").add_alias("_Lesser");
BINARY_CONSTANT(_lesser_equal, LesserEqual, "1 where a <= b, else 0.").add_alias("_Lesser_Equal");
BINARY_CONSTANT(_logical_and, LogicalAnd, "1 where a and b are not 0, else 0.").add_alias("_Logical_And");
BINARY_CONSTANT(_logical_or, LogicalOr, "1 where a or b is not 0, else 0.").add_alias("_Logical_Or");
BINARY_CONSTANT(_logical_xor, LogicalXor, "1 where one of a and b is not 0, else 0.").add_alias("_Logical_Xor");

struct AddNParam : Param<AddNParam> {
  int num_args;
  static void Fields(Schema<AddNParam>& s) {
    s.Field("num_args", &AddNParam::num_args).AtLeast(1).Describe("The number of inputs; filled in when absent.");
  }
};

// Four terms at a time, so that most sums are one pass over the memory. The first pass writes what later ones add to.
struct AddN {
  struct Sum3 {
    template <class C>
    HOST_DEVICE C operator()(C a, C b, C c) const { return WrappingAdd(WrappingAdd(a, b), c); }
  };
  struct Sum4 {
    template <class C>
    HOST_DEVICE C operator()(C a, C b, C c, C d) const { return WrappingAdd(Sum3()(a, b, c), d); }
  };
  struct Sum1 {
    template <class C>
    HOST_DEVICE C operator()(C a) const { return a; }
  };

  // Of the first `terms`, at most four.
  template <class D>
  static absl::Status Sum(const OpContext& ctx, size_t terms, const TBlob* x, OpReqType req, const TBlob& y) {
    switch (terms) {
      case 1: return Map<D, 1>(ctx, Sum1(), x, req, y);
      case 2: return Map<D, 2>(ctx, Add(), x, req, y);
      case 3: return Map<D, 3>(ctx, Sum3(), x, req, y);
      default: return Map<D, 4>(ctx, Sum4(), x, req, y);
    }
  }

  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    OpReqType write = req[0];
    for (size_t i = 0; i < x.size() && write != kNullOp; i += 4, write = kAddTo) {
      RETURN_IF_ERROR(Sum<D>(ctx, x.size() - i, &x[i], write, y[0]));
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(add_n)
    .describe("The sum of all inputs.")
    .add_alias("ElementWiseSum")
    .add_argument("args", "NDArray[]", "One or more of one shape.")
    .set_attr<TIsSum>("TIsSum", true)
    .add_arguments(AddNParam::__FIELDS__())
    .set_attr_parser(ParamParser<AddNParam>)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_num_inputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<AddNParam>().num_args); })
    .set_attr<FInferShape>("FInferShape", SameShape)
    .set_attr<FInferType>("FInferType", SameType)
    // A later input would be overwritten by the first pass.
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) {
      return Gradients(node->num_inputs(), dy[0]);
    })
    .compute<AddN>();

}  // namespace
}  // namespace gluond::ops
