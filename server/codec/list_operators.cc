// list_operators prints the operators of this build as JSON, and its layers, losses, optimizers and the like, for programs that write
// functions of a client's language.
//
//   {"operators": [{"operator": {...}, "calls": [{"given": {...}, "call": {"inputs": [...], "outputs": [...]}}]}], "components": [...]}
//
// An operator is described as by ListOperators, a component as by ListComponents. An operator's calls are examples: one for each choice of the attributes that decide which
// inputs and outputs there are. Required attributes have some value there.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/operator.pb.h"
#include "google/protobuf/util/json_util.h"
#include "server/codec/describe_operator.h"

namespace gluond::server {
namespace {

constexpr uint32_t kMostExampleInputs = 8;  // Where an operator takes any number.

// Values of an attribute, of which each makes another call. size: of tuples. number: of the attribute; of two numbers the later one
// is larger, as `high` after `low`, and of two tuples smaller, as `pad` after `kernel`.
std::vector<std::string> ExamplesOf(const v1::Operator::Parameter& parameter, int size, int number) {
  const std::string& type = parameter.type();
  std::vector<std::string> values;
  if (parameter.values_size() > 0) {
    values.assign(parameter.values().begin(), parameter.values().end());
  } else if (absl::StartsWith(type, "dtype")) {
    values = {"float32"};
  } else if (absl::StartsWith(type, "boolean")) {
    values = {"False", "True"};
  } else if (absl::StartsWith(type, "tuple")) {
    const int element = std::max(1, 10 - number);
    values = {size == 1 ? absl::StrCat("(", element, ",)") : absl::StrCat("(", element, ", ", element + 1, ")")};
  } else if (absl::StartsWith(type, "float")) {
    values = {"1"};
  } else {
    values = {absl::StrCat(number)};
    if (parameter.decides()) values = {"1", "2"};
  }
  if (!parameter.decides()) values.resize(1);
  return values;
}

// All choices of the attributes that decide, with the required ones, and with the tuples that are empty otherwise, too.
std::vector<AttrDict> ChoicesOf(const v1::Operator& op, int size, bool with_tuples) {
  std::vector<AttrDict> choices(1);
  int number = 0;
  for (const v1::Operator::Parameter& parameter : op.parameters()) {
    const bool is_choice = parameter.decides() && !absl::StartsWith(parameter.type(), "dtype");
    const bool is_empty = with_tuples && parameter.default_value() == "()";
    if (!(parameter.required() || is_choice || is_empty) || parameter.name() == op.variable_inputs()) continue;
    ++number;
    std::vector<AttrDict> next;
    for (const AttrDict& choice : choices) {
      for (const std::string& value : ExamplesOf(parameter, size, number)) {
        next.push_back(choice);
        next.back()[parameter.name()] = value;
      }
    }
    choices = std::move(next);
  }
  return choices;
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

// The example, or nothing where the operator refuses it.
void AddExample(const v1::Operator& op, const AttrDict& attributes, uint32_t inputs, std::vector<std::string>* calls) {
  v1::Command::DescribeCall describe;
  describe.set_op(op.name());
  for (const auto& [name, text] : attributes) (*describe.mutable_attributes())[name].set_string_value(text);
  const std::string given = ToJson(describe);
  describe.set_num_inputs(inputs);
  absl::StatusOr<v1::CallType> call = DescribeCall(describe);
  if (!call.ok()) return;
  call->clear_dtypes();
  call->clear_input_attributes();
  calls->push_back(absl::StrCat("{\"given\": ", given, ", \"call\": ", ToJson(*call), "}"));
}

std::string CallsToJson(const v1::Operator& op) {
  const auto& last = op.inputs();
  const bool is_variadic = !last.empty() && absl::StartsWith(last.rbegin()->type(), "NDArray[]");
  std::vector<std::string> calls;
  for (const bool with_tuples : {false, true}) {
    if (!calls.empty()) continue;
    for (int size = 1; size <= 2; ++size) {
      for (const AttrDict& choice : ChoicesOf(op, size, with_tuples)) {
        for (uint32_t inputs = 1; inputs <= (is_variadic ? kMostExampleInputs : 1); ++inputs)
          AddExample(op, choice, inputs, &calls);
      }
    }
  }
  return absl::StrJoin(calls, ", ");
}

absl::Status PrintOperators() {
  RETURN_IF_ERROR(CheckRegistry());
  std::vector<std::string> operators;
  for (const std::string& name : Op::ListNames()) {
    if (absl::StartsWith(name, "_backward")) continue;
    v1::Operator op;
    DescribeOp(*Op::Find(name), /*full=*/true, &op);
    op.clear_call();
    operators.push_back(absl::StrCat("{\"operator\": ", ToJson(op), ", \"calls\": [", CallsToJson(op), "]}"));
  }
  v1::ListComponentsResponse response;
  RETURN_IF_ERROR(DescribeComponents(v1::ListComponentsRequest::ALL, &response));
  std::vector<std::string> components;
  for (const v1::ListComponentsResponse::Entry& entry : response.components()) components.push_back(ToJson(entry));
  std::cout << "{\"operators\": [\n"
            << absl::StrJoin(operators, ",\n") << "],\n\"components\": [\n"
            << absl::StrJoin(components, ",\n") << "]}\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace gluond::server

int main() {
  const absl::Status status = gluond::server::PrintOperators();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
