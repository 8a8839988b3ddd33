// A graph of operators from the wire, as the engine's list of nodes.

#ifndef SERVER_CODEC_GRAPH_CODEC_H_
#define SERVER_CODEC_GRAPH_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/node_spec.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::server {

struct GraphSpec {
  std::vector<NodeSpec> nodes;      // Those for parameters that nodes name, too.
  std::vector<std::string> inputs;  // In order of first use.
  std::vector<EntrySpec> outputs;
  std::vector<std::string> output_names;  // As the client wrote them; empty: the default outputs.
};

// `declared` has the kinds of some variables (Variable.Kind); the others are inputs, unless their names end like the
// name of a parameter. INVALID_ARGUMENT: a malformed name or reference, two nodes of one name, a value of an attribute.
absl::StatusOr<GraphSpec> GraphFromProto(const v1::Graph& graph, const google::protobuf::RepeatedPtrField<v1::Variable>& declared);

}  // namespace gluond::server

#endif  // SERVER_CODEC_GRAPH_CODEC_H_
