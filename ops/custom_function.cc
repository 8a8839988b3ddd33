// _CustomFunction: the results of a function that a client has run, whose gradient it computes, too.
// engine/core/custom_spec.h has its numbers, and engine/core/custom_host.h says how the client is reached.

#include "ops/custom_attributes.h"
#include "ops/kernel/copy.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

// A function that the client has run: `inputs` inputs, then its results.
struct FunctionParam {
  CustomOperator op;
  uint64_t function = 0;
  uint32_t inputs = 0, outputs = 0;
  std::shared_ptr<const void> hold;  // The client keeps the function while somebody has this.
};

absl::Status ParseCustomFunction(NodeAttrs* attrs) {
  FunctionParam param;
  ASSIGN_OR_RETURN(const CustomSpec spec, CustomSpec::Of(attrs->dict));
  if (!spec.function.has_value()) {
    return absl::InvalidArgumentError("it needs the `function` of a CustomOperatorSpec, got none");
  }
  param.op = OperatorOf(attrs->dict, spec);
  param.function = spec.function->number;
  param.inputs = spec.function->inputs;
  param.outputs = spec.function->outputs;
  const bool is_known = param.op.host != nullptr && !param.op.is_unknown_clients;
  if (is_known) param.hold = param.op.host->HoldFunction(param.op.scope, param.function);
  attrs->Store(std::move(param));
  return absl::OkStatus();
}

const FunctionParam& CustomFunctionParamOf(const NodeAttrs& attrs) { return attrs.param<FunctionParam>(); }
uint32_t CustomFunctionNumInputs(const NodeAttrs& attrs) {
  return CustomFunctionParamOf(attrs).inputs + CustomFunctionParamOf(attrs).outputs;
}
uint32_t CustomFunctionNumOutputs(const NodeAttrs& attrs) { return CustomFunctionParamOf(attrs).outputs; }

struct CustomFunction {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const FunctionParam& param = CustomFunctionParamOf(attrs);
    for (uint32_t i = 0; i < param.outputs; ++i) RETURN_IF_ERROR(Copy<D>(ctx, in[param.inputs + i], req[i], out[i]));
    return absl::OkStatus();
  }
};

struct BackwardCustomFunction {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const FunctionParam& param = CustomFunctionParamOf(attrs);
    ASSIGN_OR_RETURN(CustomHost* const host, HostOf(param.op));
    CustomCall call = NewCall(param.op, ctx);
    call.kind = CustomCall::kFunction;
    call.instance = param.function;
    HostBlobs<D> blobs(ctx);
    for (size_t i = param.inputs; i < in.size(); ++i) {
      ASSIGN_OR_RETURN(const TBlob blob, blobs.Input(in[i]));
      call.out_grads.push_back(blob);
    }
    RETURN_IF_ERROR(AddResults(out, req, &blobs, &call));
    ASSIGN_OR_RETURN(call.completion, std::move(blobs).Finish(ctx.on_complete));
    host->Begin(std::move(call));
    return absl::OkStatus();
  }
};

template <auto assign, class Vector>
absl::StatusOr<bool> InferForward(const NodeAttrs& attrs, Vector* in, Vector* out) {
  const FunctionParam& param = CustomFunctionParamOf(attrs);
  for (uint32_t i = 0; i < param.outputs; ++i) RETURN_IF_ERROR(assign("out", out, i, (*in)[param.inputs + i]));
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(_CustomFunction)
    .describe(
        "What a client has computed by a function of its own: the results, which are inputs after the function's "
        "own. The gradients of those come from the client.")
    .add_argument("data", "NDArray[]", "The function's inputs, then its results.")
    .set_attr_parser(ParseCustomFunction)
    .set_num_inputs(CustomFunctionNumInputs)
    .set_num_outputs(CustomFunctionNumOutputs)
    .infer(InferForward<AssignShape, ShapeVector>, InferForward<AssignType, TypeVector>)
    .set_attr<FCustomOperator>("FCustomOperator", [](const NodeAttrs& attrs) { return CustomFunctionParamOf(attrs).op; })
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           const FunctionParam& param = CustomFunctionParamOf(node->attrs);
                           std::vector<NodeEntry> inputs(node->inputs.begin(), node->inputs.begin() + param.inputs);
                           inputs.insert(inputs.end(), dy.begin(), dy.begin() + param.outputs);
                           Gradients gradients(node->num_inputs());
                           if (param.inputs == 0) return gradients;
                           const NodeEntry backward =
                               CallBackward<FunctionParam>("_backward_CustomFunction", std::move(inputs), node->attrs);
                           for (uint32_t i = 0; i < param.inputs; ++i) gradients[i] = Output(backward.node, i);
                           return gradients;
                         })
    .compute<CustomFunction>();

GLUOND_REGISTER_OP(_backward_CustomFunction)
    .describe("The gradients of a client's function.")
    .add_argument("data", "NDArray[]", "The function's inputs, for their shapes only, and the gradients of its results.")
    .set_attr_parser(ParseCustomFunction)
    .set_num_inputs(CustomFunctionNumInputs)
    .set_num_outputs([](const NodeAttrs& attrs) { return CustomFunctionParamOf(attrs).inputs; })
    .set_attr<FIgnoreInputs>("FIgnoreInputs",
                             [](const NodeAttrs& attrs) {
                               std::vector<uint32_t> indices;
                               for (uint32_t i = 0; i < CustomFunctionParamOf(attrs).inputs; ++i) indices.push_back(i);
                               return indices;
                             })
    .infer(ShapesOfInputs<0>, TypesOfInputs<0>)
    .set_attr<FExecType>("FExecType", Async)
    .set_attr<FAbandon>("FAbandon", AbandonCall<FunctionParam>)
    .compute<BackwardCustomFunction>();

}  // namespace
}  // namespace gluond::ops
