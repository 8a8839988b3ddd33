#include "server/codec/describe_operator.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/nn/block.h"
#include "engine/nn/initializer.h"
#include "engine/nn/loss.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "server/codec/describe_call.h"

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

}  // namespace gluond::server
