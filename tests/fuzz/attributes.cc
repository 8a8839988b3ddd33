// Attributes of operators, from JSON's values to parsed parameters: each operator's parser takes any text or refuses it,
// and can then say what the call takes and gives, and make its gradient.

#include "engine/core/op.h"
#include "engine/imperative/prepared_op.h"
#include "gluond/v1/graph.pb.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/describe_operator.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

using Code = absl::StatusCode;

AttrDict SentBack(const Op& op, const AttrDict& attrs) {
  server::ProtoAttributes values;
  server::AttrsToProto(attrs, op.arguments(), &values);
  const absl::StatusOr<AttrDict> back = server::AttrsFromProto(values);
  Require(back.ok(), back.status().ToString());
  return *back;
}

// A name that is none stands for some operator, too.
const Op& OpOf(const std::string& name) {
  static const std::vector<std::string>& names = *new std::vector<std::string>(Op::ListNames());
  const Op* op = Op::Find(name);
  return op != nullptr ? *op : *Op::Find(names[(name.empty() ? 0 : static_cast<unsigned char>(name[0])) % names.size()]);
}

void Run(const v1::Node& node) {
  const absl::StatusOr<AttrDict> dict = server::AttrsFromProto(node.attributes());
  RequireCode(dict.status(), {Code::kInvalidArgument});
  if (!dict.ok()) return;
  const Op& op = OpOf(node.op());
  const AttrDict once = SentBack(op, *dict);  // A text that reads as a number may be written in another way, once.
  Require(SentBack(op, once) == once, "attributes are what they were");

  NodeAttrs attrs;
  attrs.dict = *dict;
  RequireCode(op.ParseAttrs(&attrs), {Code::kInvalidArgument});
  v1::Command::DescribeCall describe;
  describe.set_op(op.name());
  describe.set_num_inputs(static_cast<uint32_t>(node.inputs_size()));
  for (const auto& [name, text] : *dict) (*describe.mutable_attributes())[name].set_string_value(text);
  const absl::StatusOr<v1::CallType> type = server::DescribeCall(describe);
  RequireCode(type.status(), {Code::kInvalidArgument});
  if (!type.ok()) return;
  // A gradient's attributes are the operator's: that its own nodes refuse them is a mistake of ours, which ends the process.
  RequireCode(PrepareOp(op.name(), *dict, static_cast<size_t>(type->inputs_size())).status(), {Code::kInvalidArgument});
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(v1::Node, Run, OperatorWords())
