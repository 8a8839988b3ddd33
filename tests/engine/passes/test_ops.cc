#include "tests/engine/passes/test_ops.h"

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/core/param.h"

namespace gluond::testing {
namespace {

void Write(OpReqType req, double* to, double value) {
  if (req == kAddTo) *to += value;
  if (req == kWriteTo || req == kWriteInplace) *to = value;
}

// y[i] = f(x0[i], x1[i], ...), in float64.
using Function = std::function<double(const NodeAttrs&, const Values&)>;
FCompute Elementwise(Function f) {
  return [f](const NodeAttrs& attrs, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
             absl::Span<const TBlob> out) {
    Values x(in.size());
    for (int64_t i = 0; i < out[0].Size(); ++i) {
      for (size_t k = 0; k < in.size(); ++k) x[k] = in[k].dptr<double>()[i];
      if (req[0] != kNullOp) Write(req[0], out[0].dptr<double>() + i, f(attrs, x));
    }
    return absl::OkStatus();
  };
}

struct ScalarParam : Param<ScalarParam> {
  double scalar;
  static void Fields(Schema<ScalarParam>& s) { s.Field("scalar", &ScalarParam::scalar); }
};

struct NumArgsParam : Param<NumArgsParam> {
  int num_args;
  static void Fields(Schema<NumArgsParam>& s) { s.Field("num_args", &NumArgsParam::num_args).AtLeast(1); }
};

struct ShapeParam : Param<ShapeParam> {
  std::optional<std::vector<int64_t>> shape;
  int num_args;
  static void Fields(Schema<ShapeParam>& s) {
    s.Field("shape", &ShapeParam::shape).Default(std::nullopt);
    s.Field("num_args", &ShapeParam::num_args).Default(1);
  }
};

struct DenseParam : Param<DenseParam> {
  int64_t units;
  static void Fields(Schema<DenseParam>& s) { s.Field("units", &DenseParam::units).AtLeast(1); }
};

// An elementwise operator of `n` inputs.
OpRegistration Register(uint32_t n, const char* name, int line, FGradient gradient, Function f) {
  OpRegistration op(name, __FILE__, line);
  op.set_num_inputs(n)
      .set_attr<FInferShape>("FInferShape", SameShape)
      .set_attr<FInferType>("FInferType", SameType)
      .set_attr<FInplaceOption>("FInplaceOption", n == 2 ? InplaceEither : InplaceFirst)
      .set_attr<FCompute>("FCompute<cpu>", Elementwise(f))
      .set_attr<FGradient>("FGradient", std::move(gradient));
  return op;
}

uint32_t NumArgs(const NodeAttrs& attrs) { return attrs.param<NumArgsParam>().num_args; }

absl::StatusOr<bool> DenseShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const int64_t units = attrs.param<DenseParam>().units;
  const Shape weight = (*in)[1], output = (*out)[0];
  const auto dim = [](const Shape& s, int axis) { return s.rank_known() ? s[axis] : Shape::kUnknown; };
  SHAPE_ASSIGN_CHECK(in, 0, Shape({dim(output, 0), dim(weight, 1)}));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({units, dim((*in)[0], 1)}));
  SHAPE_ASSIGN_CHECK(out, 0, Shape({dim((*in)[0], 0), units}));
  return AllKnown(*in) && AllKnown(*out);
}

// Output i has the shape of input i + 1.
absl::StatusOr<bool> LikeLaterInputs(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  for (size_t i = 0; i < out->size(); ++i) {
    SHAPE_ASSIGN_CHECK(in, i + 1, (*out)[i]);
    SHAPE_ASSIGN_CHECK(out, i, (*in)[i + 1]);
  }
  return AllKnown(*in);
}

absl::StatusOr<bool> GivenShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& shape = attrs.param<ShapeParam>().shape;
  if (!shape.has_value()) return SameShape(attrs, in, out);
  SHAPE_ASSIGN_CHECK(out, 0, Shape(shape->data(), shape->data() + shape->size()));
  return AllKnown(*in);
}

const bool kRegistered = [] {
  using X = const Values&;
  using A = const NodeAttrs&;
  Register(
      2, "elemwise_add", __LINE__,
      [](const NodePtr&, const Gradients& dy) {
        return Gradients{dy[0], dy[0]};
      },
      [](A, X x) { return x[0] + x[1]; });
  Register(
      2, "_grad_add", __LINE__,
      [](const NodePtr&, const Gradients& dy) {
        return Gradients{dy[0], dy[0]};
      },
      [](A, X x) { return x[0] + x[1]; })
      .set_attr<TIsSum>("TIsSum", true);
  Register(
      2, "_grad_sum", __LINE__,
      [](const NodePtr&, const Gradients& dy) {
        return Gradients{dy[0], dy[0]};
      },
      [](A, X x) { return x[0] + x[1]; })
      .set_attr<TIsSum>("TIsSum", true);
  Register(
      2, "_cast_like", __LINE__,
      [](const NodePtr&, const Gradients& dy) {
        return Gradients{dy[0], {}};
      },
      [](A, X x) { return x[0]; });
  Register(
      2, "elemwise_sub", __LINE__,
      [](const NodePtr&, const Gradients& dy) {
        return Gradients{dy[0], -dy[0]};
      },
      [](A, X x) { return x[0] - x[1]; });
  Register(
      2, "elemwise_mul", __LINE__,
      [](const NodePtr& n, const Gradients& dy) {
        return Gradients{dy[0] * n->inputs[1], dy[0] * n->inputs[0]};
      },
      [](A, X x) { return x[0] * x[1]; });
  Register(
      2, "elemwise_div", __LINE__,
      [](const NodePtr& n, const Gradients& dy) {
        return Gradients{dy[0] / n->inputs[1], -(dy[0] * Output(n) / n->inputs[1])};
      },
      [](A, X x) { return x[0] / x[1]; });
  Register(
      1, "negative", __LINE__, [](const NodePtr&, const Gradients& dy) { return Gradients{-dy[0]}; }, [](A, X x) { return -x[0]; });
  Register(
      1, "_mul_scalar", __LINE__,
      [](const NodePtr& n, const Gradients& dy) { return Gradients{dy[0] * n->param<ScalarParam>().scalar}; },
      [](A a, X x) { return a.param<ScalarParam>().scalar * x[0]; })
      .set_attr_parser(ParamParser<ScalarParam>);
  Register(1, "cube", __LINE__, ElemwiseGradUseIn{"_backward_cube"}, [](A, X x) { return x[0] * x[0] * x[0]; });
  Register(1, "ones_like", __LINE__, NoGradient, [](A, X) { return 1.0; }).set_attr<FIgnoreInputs>("FIgnoreInputs", [](A) {
    return std::vector<uint32_t>{0};
  });
  Register(1, "zeros_like", __LINE__, NoGradient, [](A, X) { return 0.0; }).set_attr<FIgnoreInputs>("FIgnoreInputs", [](A) {
    return std::vector<uint32_t>{0};
  });
  Register(1, "BlockGrad", __LINE__, NoGradient, [](A, X x) { return x[0]; }).set_attr<FInplaceIdentity>("FInplaceIdentity", [](A) {
    return std::vector<bool>{true};
  });
  Register(
      1, "loss", __LINE__,
      [](const NodePtr& n, const Gradients&) { return Gradients{MakeNode("ones_like", "own", {n->inputs[0]})}; },
      [](A, X x) { return x[0]; })
      .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient);
  Register(
      1, "wrong_gradient", __LINE__, [](const NodePtr&, const Gradients&) { return Gradients{}; }, [](A, X x) { return x[0]; });
  Register(1, "noise", __LINE__, NoGradient, [](A, X x) { return x[0]; }).set_attr<FResourceRequest>("FResourceRequest", [](A) {
    return std::vector{ResourceRequest::kRandom};
  });
  Register(1, "remote", __LINE__, NoGradient, [](A, X x) { return x[0]; }).set_attr<FExecType>("FExecType", [](A) {
    return ExecType::kAsync;
  });
  return true;
}();

GLUOND_REGISTER_OP(_backward_cube)
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](const NodeAttrs&, const Values& x) { return 3 * x[0] * x[1] * x[1]; }))
    .set_attr<FGradient>("FGradient", [](const NodePtr& n, const Gradients& ddx) {
      const NodeEntry dy = n->inputs[0], x = n->inputs[1];
      return Gradients{3.0 * (ddx[0] * x * x), 6.0 * (ddx[0] * dy * x)};
    });

GLUOND_REGISTER_OP(rectify)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseOut{"_backward_rectify"});

GLUOND_REGISTER_OP(_backward_rectify)
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceEither);

GLUOND_REGISTER_OP(opaque)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](const NodeAttrs&, const Values& x) { return x[0]; }));

GLUOND_REGISTER_OP(add_n)
    .set_attr_parser(ParamParser<NumArgsParam>)
    .set_num_inputs(NumArgs)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_attr<TIsSum>("TIsSum", true)
    .set_attr<FInferShape>("FInferShape", SameShape)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", [](const NodePtr& n, const Gradients& dy) { return Gradients(n->num_inputs(), dy[0]); })
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](const NodeAttrs&, const Values& x) {
                          double sum = 0;
                          for (double v : x) sum += v;
                          return sum;
                        }));

GLUOND_REGISTER_OP(identity)
    .set_attr_parser(ParamParser<ShapeParam>)
    .set_attr<FInferShape>("FInferShape", GivenShape)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FInplaceIdentity>("FInplaceIdentity", [](const NodeAttrs&) { return std::vector<bool>{true}; })
    .set_attr<FGradient>("FGradient", [](const NodePtr&, const Gradients& dy) { return Gradients{dy[0]}; })
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](const NodeAttrs&, const Values& x) { return x[0]; }));

GLUOND_REGISTER_OP(sum_diff)
    .set_num_inputs(2)
    .set_num_outputs(3)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 2u; })
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<2, 3>)
    .set_attr<FInplaceOption>("FInplaceOption",
                              [](const NodeAttrs&) {
                                return std::vector<std::pair<int, int>>{{0, 0}, {1, 1}};
                              })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients& dy) {
                           return Gradients{dy[0] + dy[1], dy[0] - dy[1]};
                         })
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
      for (int64_t i = 0; i < in[0].Size(); ++i) {
        const double a = in[0].dptr<double>()[i], b = in[1].dptr<double>()[i];
        const double y[] = {a + b, a - b, a * b};
        for (int k = 0; k < 3; ++k)
          if (req[k] != kNullOp) Write(req[k], out[k].dptr<double>() + i, y[k]);
      }
      return absl::OkStatus();
    });

GLUOND_REGISTER_OP(dense)
    .set_num_inputs(2)
    .set_attr_parser(ParamParser<DenseParam>)
    .set_attr<FListInputNames>("FListInputNames",
                               [](const NodeAttrs&) {
                                 return std::vector<std::string>{"data", "weight"};
                               })
    .set_attr<FInferShape>("FInferShape", DenseShape);

GLUOND_REGISTER_OP(layer)
    .set_attr_parser(ParamParser<ShapeParam>)
    .set_num_inputs([](const NodeAttrs& attrs) { return uint32_t(attrs.param<ShapeParam>().num_args); })
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_attr<FInferShape>("FInferShape", GivenShape)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_layer"});

GLUOND_REGISTER_OP(_backward_layer)
    .set_attr_parser(ParamParser<ShapeParam>)
    .set_num_inputs([](const NodeAttrs& attrs) { return uint32_t(attrs.param<ShapeParam>().num_args) + 1; })
    .set_num_outputs([](const NodeAttrs& attrs) { return uint32_t(attrs.param<ShapeParam>().num_args); })
    .set_attr<FInferShape>("FInferShape", LikeLaterInputs);

GLUOND_REGISTER_OP(bump)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodeAttrs&) { return std::vector<uint32_t>{0}; })
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
      for (int64_t i = 0; i < in[0].Size(); ++i) {
        const double value = in[0].dptr<double>()[i] += 1;
        if (req[0] != kNullOp) Write(req[0], out[0].dptr<double>() + i, value);
      }
      return absl::OkStatus();
    });

}  // namespace
}  // namespace gluond::testing
