// OneCall: a graph of one application of an operator, for services that run operators without a model.

#ifndef SERVER_SERVICES_ONE_CALL_H_
#define SERVER_SERVICES_ONE_CALL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"

namespace gluond::server {

struct OneCall {
  Graph graph;  // The visible outputs.
  NodePtr node;
  std::vector<std::string> inputs;  // The variables that it reads, in the operator's order.
};

// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes, or the number of inputs.
absl::StatusOr<OneCall> MakeOneCall(const std::string& op, const AttrDict& attrs, size_t num_inputs);

}  // namespace gluond::server

#endif  // SERVER_SERVICES_ONE_CALL_H_
