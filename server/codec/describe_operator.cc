#include "server/codec/describe_operator.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/known_outputs.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/nn/block.h"
#include "engine/nn/initializer.h"
#include "engine/nn/loss.h"
#include "engine/nn/node_spec.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

// One attribute of an operator or component.
void DescribeParameter(const ArgumentDoc& doc, v1::Operator::Parameter* proto) {
  proto->set_name(doc.name);
  proto->set_type(doc.type);
  proto->set_default_value(doc.default_text);
  proto->set_required(doc.required);
  proto->set_description(doc.description);
  if (!absl::StartsWith(doc.type, "{")) return;
  // As in "{'max', 'avg'} or None".
  const absl::string_view names = absl::string_view(doc.type).substr(1, doc.type.find('}') - 1);
  for (absl::string_view name : absl::StrSplit(names, ", ")) {
    absl::ConsumePrefix(&name, "'");
    absl::ConsumeSuffix(&name, "'");
    proto->add_values(std::string(name));
  }
}

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

void DescribeOp(const Op& op, bool full, v1::Operator* proto) {
  proto->set_name(op.name());
  for (const std::string& alias : op.aliases()) proto->add_aliases(alias);
  proto->set_description(op.description());
  proto->set_differentiable(op.HasAttr("FGradient"));
  if (op.kernel(DeviceType::kCpu) != nullptr) proto->add_devices("cpu");
  if (op.kernel(DeviceType::kGpu) != nullptr) proto->add_devices("gpu");
  if (const auto* count = op.GetAttr<key_var_num_args>("key_var_num_args"); count != nullptr) {
    proto->set_variable_inputs(*count);
  }
  if (!full) return;
  for (const ArgumentDoc& doc : op.arguments()) {
    if (absl::StartsWith(doc.type, "NDArray")) {
      v1::Operator::Argument* input = proto->add_inputs();
      input->set_name(doc.name);
      input->set_type(doc.type);
      input->set_description(doc.description);
    } else {
      v1::Operator::Parameter* parameter = proto->add_parameters();
      DescribeParameter(doc, parameter);
      parameter->set_decides(doc.decides);
    }
  }
  NodeAttrs attrs;
  attrs.op = &op;
  if (!op.ParseAttrs(&attrs).ok()) return;  // Required attributes decide its outputs.
  const std::vector<std::string> names = op.output_names(attrs);
  const size_t visible = std::min<size_t>(attrs.facts->num_visible, names.size());
  for (size_t i = 0; i < visible; ++i) proto->add_outputs(names[i]);
  const uint32_t num_inputs = op.num_inputs(attrs);
  if (num_inputs != kVarg) *proto->mutable_call() = DescribeCall(attrs, num_inputs);
}

absl::Status DescribeComponents(v1::ListComponentsRequest::Family wanted, v1::ListComponentsResponse* response) {
  using Request = v1::ListComponentsRequest;
  if (!Request::Family_IsValid(wanted)) {
    return Invalid("family is ", static_cast<int>(wanted), "; want ", Request::ALL, " (all) to ", Request::Family_MAX);
  }
  const auto add = [wanted, response](Request::Family family, const auto& catalog) {
    if (wanted != Request::ALL && wanted != family) return;
    for (const auto& entry : catalog.entries()) {
      v1::ListComponentsResponse::Entry* proto = response->add_components();
      proto->set_family(family);
      proto->set_name(entry.name);
      for (const std::string& alias : entry.aliases) proto->add_aliases(alias);
      proto->set_description(entry.description);
      for (const ArgumentDoc& doc : entry.attributes) DescribeParameter(doc, proto->add_arguments());
    }
  };
  add(Request::OPTIMIZER, Optimizers());
  add(Request::LOSS, Losses());
  add(Request::INITIALIZER, Initializers());
  add(Request::METRIC, Metrics());
  add(Request::LR_SCHEDULE, LrSchedules());
  add(Request::BLOCK, Blocks());
  return absl::OkStatus();
}

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

// FNV-1a, whose results are the same everywhere.
void OperatorHash::Add(const v1::Operator& op) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    (void)op.SerializeToCodedStream(&out);
  }
  // The length keeps the end of one description apart from the beginning of the next.
  for (const char c : absl::StrCat(text.size(), ":", text)) {
    state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
}

std::string OperatorHash::Digits() const { return absl::StrFormat("%016x", state_); }

const std::string& RegistryHash() {
  static const std::string& digits = *new std::string([] {
    OperatorHash hash;
    for (const std::string& name : Op::ListNames()) {
      v1::Operator op;
      DescribeOp(*Op::Find(name), /*full=*/true, &op);
      hash.Add(op);
    }
    return hash.Digits();
  }());
  return digits;
}

}  // namespace gluond::server
