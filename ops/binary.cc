// Elementwise operators on two tensors of one shape, and sums of many.

#include "ops/channel_blocks.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/map.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

using BinaryAt = const BinaryTerms&;

absl::StatusOr<bool> GradSumType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  const DType term = (*in)[1];
  if (term == DType::kUnknown) return false;
  const DType wide = HasSixteenBits(term) ? DType::kFloat32 : term;
  if ((*in)[0] != term) TYPE_ASSIGN_CHECK(in, 0, wide);
  TYPE_ASSIGN_CHECK(out, 0, wide);
  return true;
}

#define BINARY_OP(name, Kernel, text)                            \
  GLUOND_REGISTER_OP(name)                                       \
      .describe(text)                                            \
      .set_num_inputs(2)                                         \
      .add_argument("lhs", "NDArray", "Any shape.")              \
      .add_argument("rhs", "NDArray", "The same shape.")         \
      .infer(ElemwiseShape<2, 1>, ElemwiseType<2, 1>)            \
      .with(Elementwise<2>)                                      \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither) \
      .compute<Binary<Kernel>>()
#define BINARY(name, Kernel, text, d_lhs, d_rhs) \
  BINARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", Chain2{d_lhs, d_rhs})
#define BINARY_CONSTANT(name, Kernel, text) BINARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", NoGradient)

BINARY(
    elemwise_add, Add, "a + b.", [](BinaryAt t) { return t.dy; }, [](BinaryAt t) { return t.dy; })
    .add_alias("_add")
    .add_alias("_plus")
    .add_alias("_Plus");
BINARY(
    elemwise_sub, Sub, "a - b.", [](BinaryAt t) { return t.dy; }, [](BinaryAt t) { return -t.dy; })
    .add_alias("_sub")
    .add_alias("_minus")
    .add_alias("_Minus");
BINARY(
    elemwise_mul, Mul, "a b.", [](BinaryAt t) { return t.dy * t.b; }, [](BinaryAt t) { return t.dy * t.a; })
    .add_alias("_mul")
    .add_alias("_Mul");
BINARY(
    elemwise_div, Div, "a / b.", [](BinaryAt t) { return t.dy / t.b; }, [](BinaryAt t) { return -(t.dy / t.b * t.y); })
    .add_alias("_div")
    .add_alias("_Div")
    .add_alias("_scatter_elemwise_div");
BINARY(
    _grad_add, Add, "a + b.", [](BinaryAt t) { return t.dy; }, [](BinaryAt t) { return t.dy; })
    .set_attr<TIsSum>("TIsSum", true);

// The gradient pass adds many contributions with it, one by one. The sum is wider than what is added.
GLUOND_REGISTER_OP(_grad_sum)
    .describe("sum + term, as float32 where term has 16 bits.")
    .set_num_inputs(2)
    .add_argument("sum", "NDArray", "Any shape; float32 or term's type where term has 16 bits, else term's type.")
    .add_argument("term", "NDArray", "The same shape.")
    .set_attr<TIsSum>("TIsSum", true)
    .infer(ElemwiseShape<2, 1>, GradSumType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_cast_like", {dy[0], node->inputs[0]}), Call("_cast_like", {dy[0], node->inputs[1]})};
                         })
    .compute<Binary<Add>>();

BINARY(
    _mod, Mod, "a modulo b, with the sign of b.", [](BinaryAt t) { return t.dy; },
    [](BinaryAt t) { return -(t.dy * Call("floor", {t.a / t.b})); })
    .add_alias("_Mod");
BINARY(
    _power, Power, "a^b.",
    [](BinaryAt t) {
      return t.dy * Where(t.b, t.b * Call("_power", {t.a, CallScalar("_minus_scalar", t.b, 1)}));
    },
    [](BinaryAt t) { return t.dy * Where(t.y, t.y * Call("log", {t.a})); })
    .add_alias("_Power");
BINARY(
    _maximum, Maximum, "max(a, b).",
    [](BinaryAt t) {
      return t.dy * Call("_greater_equal", {t.a, t.b});
    },
    [](BinaryAt t) {
      return t.dy * Call("_lesser", {t.a, t.b});
    })
    .add_alias("_Maximum");
BINARY(
    _minimum, Minimum, "min(a, b).",
    [](BinaryAt t) {
      return t.dy * Call("_lesser_equal", {t.a, t.b});
    },
    [](BinaryAt t) {
      return t.dy * Call("_greater", {t.a, t.b});
    })
    .add_alias("_Minimum");
BINARY(
    _hypot, Hypot, "sqrt(a^2 + b^2).", [](BinaryAt t) { return t.dy * PartOfNorm(t.a, t.y); },
    [](BinaryAt t) { return t.dy * PartOfNorm(t.b, t.y); })
    .add_alias("_Hypot");
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
    s.Field("num_args", &AddNParam::num_args).Decides().AtLeast(1).Describe("The number of inputs; filled in when absent.");
  }
};

// Four terms at a time, so that most sums are one pass over the memory. The first pass writes what later ones add to.
struct AddN {
  struct Sum3 {
    template <class C>
    HOST_DEVICE C operator()(C a, C b, C c) const {
      return WrappingAdd(WrappingAdd(a, b), c);
    }
  };
  struct Sum4 {
    template <class C>
    HOST_DEVICE C operator()(C a, C b, C c, C d) const {
      return WrappingAdd(Sum3()(a, b, c), d);
    }
  };
  struct Sum1 {
    template <class C>
    HOST_DEVICE C operator()(C a) const {
      return a;
    }
  };

  // The sum of the first `terms` inputs, at most four.
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
  static absl::Status SumAll(const OpContext& ctx, Blobs x, OpReqType req, const TBlob& y) {
    for (size_t i = 0; i < x.size() && req != kNullOp; i += 4, req = kAddTo) {
      RETURN_IF_ERROR(Sum<D>(ctx, x.size() - i, &x[i], req, y));
    }
    return absl::OkStatus();
  }

  // Several passes of 16 bits go by way of float32: their output would round after each.
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (x.size() <= 4 || !HasSixteenBits(y[0].dtype)) return SumAll<D>(ctx, x, req[0], y[0]);
    Stage<D, float> wide;
    RETURN_IF_ERROR(wide.Begin(ctx, {y[0], req[0]}, false));
    RETURN_IF_ERROR(SumAll<D>(ctx, x, wide.req, wide.blob(ctx)));
    return wide.Finish(ctx);
  }
};

GLUOND_REGISTER_OP(add_n)
    .describe("The sum of all inputs.")
    .add_alias("ElementWiseSum")
    .add_argument("args", "NDArray[]", "One or more of one shape.")
    .set_attr<TIsSum>("TIsSum", true)
    .params<AddNParam>()
    .with(Variadic<&AddNParam::num_args>("num_args"))
    .infer(SameShape, SameType)
    .set_attr<FChannelBlocks>("FChannelBlocks",
                              [](const Node& node, absl::Span<const Shape>, int64_t block) { return AsItIs(node, block); })
    // A later input would be overwritten by the first pass.
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) { return Gradients(node->num_inputs(), dy[0]); })
    .compute<AddN>();

}  // namespace
}  // namespace gluond::ops
