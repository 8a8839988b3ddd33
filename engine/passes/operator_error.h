// Messages about one operator call: they name the node, the operator and the argument.

#ifndef ENGINE_PASSES_OPERATOR_ERROR_H_
#define ENGINE_PASSES_OPERATOR_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "engine/core/graph.h"

namespace gluond {

// "variable 'x'" or "node 'conv1' (Convolution)".
std::string Describe(const Node& node);

// "input 1 'weight'". Requires: an operator's node.
std::string ArgumentText(const Node& node, bool is_input, uint32_t i);

// "Error in operator conv1 (Convolution): ...". A rule knows its arguments by number: where its message begins with
// "input 1" or "output 0", the argument's name is put in. Requires: an operator's node.
absl::Status OperatorError(const Node& node, const absl::Status& status);

}  // namespace gluond

#endif  // ENGINE_PASSES_OPERATOR_ERROR_H_
