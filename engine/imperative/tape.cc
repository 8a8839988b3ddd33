#include "engine/imperative/tape.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"

namespace gluond {

void Tape::Put(Array* array) const {
  if (array->entry && !array->recorded().is_freed) return;
  array->entry = {};
  if (array->mark == nullptr) return;
  auto variable = NewNode();
  variable->attrs.name = "variable";
  variable->mark = array->mark;
  variable->values = {array->value};
  array->entry = {std::move(variable), 0};
}

absl::Status Tape::Record(absl::Span<Array> inputs, Invocation* invoked, absl::Span<Array> outputs) const {
  const PreparedOp& op = *invoked->op;
  bool wanted = false;
  for (Array& input : inputs) {
    Put(&input);
    wanted = wanted || input.entry;
  }
  if (!wanted) return absl::OkStatus();
  if (*size_ >= most_nodes_) {
    return OverLimit("--max_session_arrays", "the tape holds ", size_->load(),
                     " recorded calls and variables, the "
                     "limit of --max_session_arrays; call backward, or record less at once");
  }
  const auto node = NewNode();
  node->attrs = op.node->attrs;
  node->training = invoked->training;
  absl::flat_hash_map<uint32_t, size_t> places;  // Where, among what the call has written, each input stands.
  for (size_t k = 0; k < op.facts().mutated.size(); ++k) places.try_emplace(op.facts().mutated[k], k);
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    Array& input = inputs[i];
    const ValuePtr* value = &input.value;
    if (!input.entry) {
      auto constant = NewNode();
      constant->attrs.name = "constant";
      constant->state = input.state;
      input.entry = {std::move(constant), 0};
      // The gradient reads the input's new value.
      if (const auto place = places.find(i); place != places.end()) value = &invoked->written[place->second];
    }
    if (op.gradient_reads_input[i]) {
      std::vector<ValuePtr>& values = input.recorded().values;
      values.resize(std::max<size_t>(values.size(), input.entry.index + 1));
      values[input.entry.index] = *value;
    }
    node->inputs.push_back(input.entry);
  }
  node->values.resize(op.facts().num_outputs);
  for (size_t i = 0; i < node->values.size(); ++i) {
    if (!op.gradient_reads_output[i]) continue;
    if (invoked->out[i] == nullptr) invoked->out[i] = std::make_shared<Value>();
    node->values[i] = invoked->out[i];
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) outputs[i].entry = {node, i};
  }
  return absl::OkStatus();
}

}  // namespace gluond
