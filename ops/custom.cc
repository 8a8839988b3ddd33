// Custom: an operator that a client computes. engine/core/custom_spec.h has its inputs and outputs, and
// engine/core/custom_host.h says how the client is reached.
//
// A forward pass has a hidden output, a number by which its backward pass finds the client's object of that call. The
// inputs of the backward pass are the arguments, the auxiliary states, the number, and those gradients of outputs and
// those outputs that the operator depends on. It uses only the shape of arguments that it does not depend on.

#include <algorithm>

#include "ops/custom_attributes.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct CustomParam {
  CustomOperator op;
  std::vector<std::string> arguments, outputs, auxiliary;
  std::vector<bool> needs_out_grad, needs_argument, needs_output;
  bool infers_shape = false, infers_type = false;  // By a rule that the server knows.

  size_t num_inputs() const { return arguments.size() + auxiliary.size(); }
};

void SetDependencies(const CustomSpec& spec, CustomParam* param) {
  const size_t outputs = param->outputs.size(), arguments = param->arguments.size();
  const bool all = !spec.dependencies.has_value();
  param->needs_out_grad.assign(outputs, all);
  param->needs_argument.assign(arguments, all);
  param->needs_output.assign(outputs, all);
  if (all) return;
  for (const uint32_t i : *spec.dependencies) {
    if (i < outputs) {
      param->needs_out_grad[i] = true;
    } else if (i < outputs + arguments) {
      param->needs_argument[i - outputs] = true;
    } else {
      param->needs_output[i - outputs - arguments] = true;
    }
  }
}

absl::Status ParseCustom(NodeAttrs* attrs) {
  CustomParam param;
  ASSIGN_OR_RETURN(CustomSpec spec, CustomSpec::Of(attrs->dict));
  param.op = OperatorOf(attrs->dict, spec);
  if (param.op.op_type.empty()) return absl::InvalidArgumentError("parameter 'op_type' is required");
  if (spec.function.has_value()) {
    return absl::InvalidArgumentError("it has a `function`, which belongs to the operator _CustomFunction");
  }
  param.arguments = std::move(spec.arguments);
  param.outputs = std::move(spec.outputs);
  param.auxiliary = std::move(spec.auxiliary);
  SetDependencies(spec, &param);
  param.infers_shape = spec.same_shape;
  param.infers_type = spec.same_dtype;
  attrs->Store(std::move(param));
  return absl::OkStatus();
}

const CustomParam& CustomParamOf(const NodeAttrs& attrs) { return attrs.param<CustomParam>(); }

// Merges the shapes or types that a rule has found into the node's.
template <class Vector, class Inference, class Assign>
absl::Status Merge(const Inference& found, size_t num_arguments, Vector* in, Vector* out, Assign assign) {
  if (found.arguments.size() != num_arguments || found.outputs.size() + 1 != out->size() ||
      num_arguments + found.auxiliary.size() != in->size()) {
    return absl::InvalidArgumentError(absl::StrCat("its client says ", found.arguments.size(), " inputs, ", found.outputs.size(),
                                                   " outputs and ", found.auxiliary.size(), " auxiliary states, expected ",
                                                   num_arguments, ", ", out->size() - 1, " and ", in->size() - num_arguments));
  }
  for (size_t i = 0; i < num_arguments; ++i) RETURN_IF_ERROR(assign("in", in, i, found.arguments[i]));
  for (size_t i = 0; i < found.auxiliary.size(); ++i) {
    RETURN_IF_ERROR(assign("in", in, num_arguments + i, found.auxiliary[i]));
  }
  for (size_t i = 0; i < found.outputs.size(); ++i) RETURN_IF_ERROR(assign("out", out, i, found.outputs[i]));
  return absl::OkStatus();
}

// Asks the client, by `infer`, for what is not known.
template <class Vector, class Infer, class Assign>
absl::StatusOr<bool> Ask(const CustomParam& param, Vector* in, Vector* out, Infer infer, Assign assign) {
  if (AllKnown(*in) && AllKnown(*out)) return true;
  const size_t n = param.arguments.size();
  ASSIGN_OR_RETURN(CustomHost* const host, HostOf(param.op));
  const Vector arguments(in->begin(), in->begin() + static_cast<int64_t>(n));
  const auto found = (host->*infer)(param.op, arguments);
  if (!found.ok()) {
    // A client's own rule may need more than is known yet.
    if (!AllKnown(arguments) && absl::IsUnknown(found.status())) return false;
    return found.status();
  }
  RETURN_IF_ERROR(Merge(*found, n, in, out, assign));
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> CustomShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const CustomParam& param = CustomParamOf(attrs);
  SHAPE_ASSIGN_CHECK(out, out->size() - 1, Shape{1});
  if (!param.infers_shape || param.arguments.empty()) {
    return Ask(param, in, out, &CustomHost::InferShape, AssignShape);
  }
  for (size_t i = 0; i + 1 < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, (*in)[0]);
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> CustomType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const CustomParam& param = CustomParamOf(attrs);
  TYPE_ASSIGN_CHECK(out, out->size() - 1, DType::kInt64);
  if (!param.infers_type || param.arguments.empty()) {
    return Ask(param, in, out, &CustomHost::InferType, AssignType);
  }
  const DType type = (*in)[0];
  for (size_t i = 1; i < in->size(); ++i)
    if ((*in)[i] == DType::kUnknown) (*in)[i] = type;
  for (size_t i = 0; i + 1 < out->size(); ++i) TYPE_ASSIGN_CHECK(out, i, type);
  return AllKnown(*in) && AllKnown(*out);
}

std::vector<uint32_t> Auxiliary(const NodeAttrs& attrs) {
  const CustomParam& param = CustomParamOf(attrs);
  std::vector<uint32_t> indices;
  for (size_t i = param.arguments.size(); i < param.num_inputs(); ++i) indices.push_back(static_cast<uint32_t>(i));
  return indices;
}

struct Custom {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const CustomParam& param = CustomParamOf(attrs);
    ASSIGN_OR_RETURN(CustomHost* const host, HostOf(param.op));
    const size_t n = param.arguments.size(), outputs = param.outputs.size();
    CustomCall call = NewCall(param.op, ctx);
    call.instance = host->NextInstance(param.op);
    call.keep = req[outputs] != kNullOp;
    HostBlobs<D> blobs(ctx);
    for (size_t i = 0; i < in.size(); ++i) {
      ASSIGN_OR_RETURN(const TBlob blob, blobs.Input(in[i]));
      (i < n ? call.arguments : call.auxiliary).push_back(blob);
      if (i >= n) blobs.WriteBack(in[i], blob);
    }
    RETURN_IF_ERROR(AddResults(out.first(outputs), req.first(outputs), &blobs, &call));
    if (call.keep) RETURN_IF_ERROR(blobs.Set(out[outputs], static_cast<int64_t>(call.instance)));
    ASSIGN_OR_RETURN(call.completion, std::move(blobs).Finish(ctx.on_complete));
    host->Begin(std::move(call));
    return absl::OkStatus();
  }
};

struct BackwardCustom {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const CustomParam& param = CustomParamOf(attrs);
    ASSIGN_OR_RETURN(CustomHost* const host, HostOf(param.op));
    CustomCall call = NewCall(param.op, ctx);
    call.kind = CustomCall::kBackward;
    HostBlobs<D> blobs(ctx);
    size_t next = 0;
    // Takes the next input where it is needed, else a blob without data.
    const auto take = [&](bool is_there, bool is_needed, std::vector<TBlob>* to) -> absl::Status {
      TBlob blob;
      if (is_there) {
        const TBlob& input = in[next++];
        blob = {nullptr, input.shape, input.dtype, Device()};
        if (is_needed) {
          ASSIGN_OR_RETURN(blob, blobs.Input(input));
        }
      }
      to->push_back(blob);
      return absl::OkStatus();
    };
    for (const bool needed : param.needs_argument) RETURN_IF_ERROR(take(true, needed, &call.arguments));
    for (size_t i = 0; i < param.auxiliary.size(); ++i) {
      RETURN_IF_ERROR(take(true, true, &call.auxiliary));
      blobs.WriteBack(in[next - 1], call.auxiliary.back());
    }
    std::vector<TBlob> instance;
    RETURN_IF_ERROR(take(true, true, &instance));
    for (const bool needed : param.needs_out_grad) RETURN_IF_ERROR(take(needed, needed, &call.out_grads));
    for (const bool needed : param.needs_output) RETURN_IF_ERROR(take(needed, needed, &call.outputs));
    RETURN_IF_ERROR(AddResults(out, req, &blobs, &call));
    ASSIGN_OR_RETURN(call.completion, std::move(blobs).Finish(ctx.on_complete));
    call.instance = static_cast<uint64_t>(*instance[0].dptr<int64_t>());
    host->Begin(std::move(call));
    return absl::OkStatus();
  }
};

Gradients CustomGradient(const NodePtr& node, const Gradients& dy) {
  const CustomParam& param = CustomParamOf(node->attrs);
  std::vector<NodeEntry> inputs = node->inputs;
  const auto outputs = static_cast<uint32_t>(param.outputs.size());
  inputs.push_back(Output(node, outputs));
  for (uint32_t i = 0; i < outputs; ++i)
    if (param.needs_out_grad[i]) inputs.push_back(dy[i]);
  for (uint32_t i = 0; i < outputs; ++i)
    if (param.needs_output[i]) inputs.push_back(Output(node, i));
  Gradients gradients(node->num_inputs());
  if (param.arguments.empty()) return gradients;
  const NodeEntry backward = CallBackward<CustomParam>("_backward_Custom", std::move(inputs), node->attrs);
  for (uint32_t i = 0; i < param.arguments.size(); ++i) gradients[i] = Output(backward.node, i);
  return gradients;
}

uint32_t NumBackwardInputs(const NodeAttrs& attrs) {
  const CustomParam& param = CustomParamOf(attrs);
  const auto count = [](const std::vector<bool>& flags) { return std::count(flags.begin(), flags.end(), true); };
  return static_cast<uint32_t>(static_cast<int64_t>(param.num_inputs()) + 1 + count(param.needs_out_grad) +
                               count(param.needs_output));
}

std::vector<uint32_t> UnneededArguments(const NodeAttrs& attrs) {
  std::vector<uint32_t> indices;
  const std::vector<bool>& needed = CustomParamOf(attrs).needs_argument;
  for (uint32_t i = 0; i < needed.size(); ++i)
    if (!needed[i]) indices.push_back(i);
  return indices;
}

GLUOND_REGISTER_OP(Custom)
    .describe("An operator that a client computes: op_type names it, all other attributes go to the client.")
    .add_argument("data", "NDArray[]", "What the operator's client says that it takes.")
    .add_argument("op_type", "string", "Name that a client shares it under; see CustomOperatorSpec for others.")
    .set_attr_parser(ParseCustom)
    .set_num_inputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(CustomParamOf(attrs).num_inputs()); })
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(CustomParamOf(attrs).outputs.size() + 1); })
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs",
                                  [](const NodeAttrs& attrs) { return static_cast<uint32_t>(CustomParamOf(attrs).outputs.size()); })
    .set_attr<FListInputNames>("FListInputNames",
                               [](const NodeAttrs& attrs) {
                                 std::vector<std::string> names = CustomParamOf(attrs).arguments;
                                 const auto& auxiliary = CustomParamOf(attrs).auxiliary;
                                 names.insert(names.end(), auxiliary.begin(), auxiliary.end());
                                 return names;
                               })
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs& attrs) {
                                  std::vector<std::string> names = CustomParamOf(attrs).outputs;
                                  names.push_back("instance");
                                  return names;
                                })
    .set_attr<FMutateInputs>("FMutateInputs", Auxiliary)
    .infer(CustomShape, CustomType)
    .set_attr<FExecType>("FExecType", Async)
    .set_attr<FCustomOperator>("FCustomOperator", [](const NodeAttrs& attrs) { return CustomParamOf(attrs).op; })
    .set_attr<FAbandon>("FAbandon", AbandonCall<CustomParam>)
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient", CustomGradient)
    .compute<Custom>();

GLUOND_REGISTER_OP(_backward_Custom)
    .describe("The gradients of a custom operator's arguments.")
    .add_argument("data", "NDArray[]", "See ops/custom.cc.")
    .add_argument("op_type", "string", "As in Custom.")
    .set_attr_parser(ParseCustom)
    .set_num_inputs(NumBackwardInputs)
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(CustomParamOf(attrs).arguments.size()); })
    .set_attr<FIgnoreInputs>("FIgnoreInputs", UnneededArguments)
    .set_attr<FMutateInputs>("FMutateInputs", Auxiliary)
    .infer(ShapesOfInputs<0>, TypesOfInputs<0>)
    .set_attr<FExecType>("FExecType", Async)
    .set_attr<FAbandon>("FAbandon", AbandonCall<CustomParam>)
    .compute<BackwardCustom>();

}  // namespace
}  // namespace gluond::ops
