// Operators that pass their input on: _copy; BlockGrad, which stops gradients; make_loss, whose gradient is ones; Cast;
// _widen; and zeros_like, ones_like, which take from it only the shape and type.

#include "ops/elements.h"
#include "ops/kernel/copy.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

std::vector<bool> SameBytes(const NodeAttrs&) { return {true}; }

#define IDENTITY(name, argument)                                 \
  GLUOND_REGISTER_OP(name)                                       \
      .add_argument(argument, "NDArray", "Any shape.")           \
      .infer(SameShape, SameType)                                \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)  \
      .set_attr<FInplaceIdentity>("FInplaceIdentity", SameBytes) \
      .compute<CopyFirst>()

IDENTITY(_copy, "data")
    .describe("y = x.")
    .add_alias("identity")
    .add_alias("_copyto")
    .set_attr<FGradient>("FGradient", [](const NodePtr&, const Gradients& dy) { return dy; });

IDENTITY(BlockGrad, "data")
    .describe("y = x; no gradient flows back through it.")
    .add_alias("stop_gradient")
    .set_attr<FGradient>("FGradient", NoGradient);

IDENTITY(make_loss, "data")
    .describe("y = x, as a loss: the gradient of x is ones, whatever that of y is.")
    .set_attr<FListOutputNames>("FListOutputNames", Names({"loss"}))
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients&) -> Gradients { return {Call("ones_like", {node->inputs[0]})}; });

IDENTITY(_identity_with_attr_like_rhs, "lhs")
    .describe("y = lhs, whose shape and type are those of rhs.")
    .set_num_inputs(2)
    .add_argument("rhs", "NDArray", "Only its shape and type are used.")
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient", [](const NodePtr&, const Gradients& dy) -> Gradients {
      return {dy[0], {}};
    });

struct CastParam : Param<CastParam> {
  DType dtype;
  static void Fields(Schema<CastParam>& s) { s.Field("dtype", &CastParam::dtype).Describe("The type of y."); }
};

// Floating point goes through double, so that a number that an integer type cannot hold becomes its nearest value.
struct RealIdentity {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    return x;
  }
};

struct Cast {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (x[0].dtype == y[0].dtype) return Copy<D>(ctx, x[0], req[0], y[0]);
    if (IsFloating(x[0].dtype)) return Map<D, 1>(ctx, RealIdentity(), x.data(), req[0], y[0]);
    return Map<D, 1>(ctx, Identity(), x.data(), req[0], y[0]);
  }
};

Gradients CastGradient(const NodePtr& node, const Gradients& dy) { return {Call("_cast_like", {dy[0], node->inputs[0]})}; }

GLUOND_REGISTER_OP(Cast)
    .describe(
        "y = x as another type. Floating point to integer truncates; what does not fit becomes the nearest "
        "value that does, and NaN 0.")
    .add_alias("cast")
    .add_argument("data", "NDArray", "Any shape.")
    .params<CastParam>()
    .infer(ElemwiseShape<1, 1>, TypeOfParam<CastParam>)
    .set_attr<FGradient>("FGradient", CastGradient)
    .compute<Cast>();

// The gradient of Cast, when the type to go back to is not known yet.
GLUOND_REGISTER_OP(_cast_like)
    .describe("y = x as the type of `like`, whose values are not used.")
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("like", "NDArray", "Any shape.")
    .set_num_inputs(2)
    .infer(ShapeOfInput<0>, TypeOfInput<1>)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    // The same bytes where the types are the same, which whoever lends an input's memory looks at.
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FInplaceIdentity>("FInplaceIdentity", SameBytes)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_cast_like", {dy[0], node->inputs[0]}), {}};
                         })
    .compute<Cast>();

// Gradients compute in its result where 16 bits would overflow.
GLUOND_REGISTER_OP(_widen)
    .describe("y = x, as float32 where x has 16 bits, else as it is.")
    .add_argument("data", "NDArray", "Any shape.")
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
                            const DType type = (*in)[0];
                            if (type == DType::kUnknown) return false;
                            TYPE_ASSIGN_CHECK(out, 0, HasSixteenBits(type) ? DType::kFloat32 : type);
                            return true;
                          })
    .set_attr<FGradient>("FGradient", CastGradient)
    .compute<Cast>();

#define FILL_LIKE(name, value, text)                       \
  GLUOND_REGISTER_OP(name)                                 \
      .describe(text)                                      \
      .add_argument("data", "NDArray", "Any shape.")       \
      .infer(ElemwiseShape<1, 1>, ElemwiseType<1, 1>)      \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>) \
      .set_attr<FGradient>("FGradient", NoGradient)        \
      .compute<Constant<value>>()

FILL_LIKE(zeros_like, 0, "Zeros of the shape and type of x.").set_attr<TIsZeros>("TIsZeros", true);
FILL_LIKE(ones_like, 1, "Ones of the shape and type of x.");

}  // namespace
}  // namespace gluond::ops
