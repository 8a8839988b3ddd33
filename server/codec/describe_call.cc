#include "server/codec/describe_call.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/core/known_outputs.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/nn/node_spec.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

v1::CallType::Shape ShapeToProto(OutputShape shape) {
  switch (shape) {
    case OutputShape::kInferred: return v1::CallType::INFERRED;
    case OutputShape::kFirst: return v1::CallType::FIRST;
    case OutputShape::kBroadcast: return v1::CallType::BROADCAST;
  }
  return v1::CallType::INFERRED;
}

void DescribeVariables(const NodeAttrs& attrs, uint32_t num_inputs, v1::CallType* type) {
  const auto* on_compose = attrs.op->GetAttr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose");
  if (on_compose == nullptr) return;
  for (uint32_t i = 0; i < num_inputs; ++i) {
    NodeAttrs variable;
    (*on_compose)(attrs, &variable, static_cast<int>(i));
    auto& attributes = *type->add_input_attributes()->mutable_attributes();
    for (const auto& [name, text] : variable.dict) attributes[name] = text;
  }
}

void DescribeOutputs(const NodeAttrs& attrs, uint32_t num_inputs, v1::CallType* type) {
  std::vector<std::string> outputs = attrs.op->output_names(attrs);
  outputs.resize(std::min<size_t>(outputs.size(), attrs.facts->num_visible));
  for (std::string& name : outputs) type->add_outputs(std::move(name));
  type->set_shape(ShapeToProto(OutputShapeOf(attrs)));
  for (const DType first : kAllDTypes) {
    const DType output = OutputTypeOf(attrs, num_inputs, first);
    if (output != DType::kUnknown) (*type->mutable_dtypes())[static_cast<int>(first)] = ToProto(output);
  }
}

}  // namespace

v1::CallType DescribeCall(const NodeAttrs& attrs, uint32_t num_inputs) {
  v1::CallType type;
  for (std::string& name : attrs.op->input_names(attrs, num_inputs)) type.add_inputs(std::move(name));
  for (const uint32_t i : attrs.facts->mutated) type.add_auxiliary(i);
  DescribeVariables(attrs, num_inputs, &type);
  DescribeOutputs(attrs, num_inputs, &type);
  return type;
}

absl::StatusOr<v1::CallType> DescribeCall(const v1::Command::DescribeCall& describe) {
  ASSIGN_OR_RETURN(const Op* op, OfferedOp(describe.op()));
  NodeAttrs attrs;
  ASSIGN_OR_RETURN(attrs.dict, CallAttrsFromProto(describe));
  RETURN_IF_ERROR(op->ParseAttrs(&attrs, describe.num_inputs()));
  uint32_t num_inputs = op->num_inputs(attrs);
  if (num_inputs == kVarg) num_inputs = describe.num_inputs();
  if (num_inputs > kMostInputs) return Invalid("`num_inputs` is ", num_inputs, ", expected at most ", kMostInputs);
  return DescribeCall(attrs, num_inputs);
}

}  // namespace gluond::server
