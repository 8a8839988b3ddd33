#include "server/services/one_call.h"

#include <utility>

#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/nn/node_spec.h"

namespace gluond::server {

absl::StatusOr<OneCall> MakeOneCall(const std::string& op_name, const AttrDict& attrs, size_t num_inputs) {
  ASSIGN_OR_RETURN(const Op* op, OfferedOp(op_name));
  NodeAttrs parsed;
  parsed.op = op;
  parsed.name = op_name;
  parsed.dict = attrs;
  RETURN_IF_ERROR(op->ParseAttrs(&parsed, num_inputs));
  const uint32_t want = op->num_inputs(parsed);
  if (want != kVarg && want != num_inputs) return Invalid("operator '", op_name, "' takes ", want, " inputs, got ", num_inputs);
  OneCall call;
  call.inputs = op->input_names(parsed, static_cast<uint32_t>(num_inputs));
  std::vector<NodeEntry> entries;
  for (const std::string& input : call.inputs) entries.push_back(MakeVariable(input));
  ASSIGN_OR_RETURN(call.node, TryMakeNode(op_name, op_name, std::move(entries), parsed.dict));
  for (uint32_t i = 0; i < call.node->facts().num_visible; ++i) {
    call.graph.outputs.push_back({call.node, i});
  }
  return call;
}

}  // namespace gluond::server
