// Models' definitions, and graphs of operators, between the wire and the engine. A definition is a tree of blocks, or operators
// that read each other.

#ifndef SERVER_CODEC_DEFINITION_CODEC_H_
#define SERVER_CODEC_DEFINITION_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/definition.h"
#include "engine/nn/node_spec.h"
#include "gluond/v1/graph.pb.h"
#include "gluond/v1/model.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: names the node, block or variable and what is wrong with it. NOT_FOUND: an unknown operator or block.
// RESOURCE_EXHAUSTED: more nodes than `max_nodes`; names the flag.
absl::StatusOr<ModelDefinition> DefinitionFromProto(const v1::DefineModelRequest& request, int64_t max_nodes);

// The model of nodes that are there already, as ListNodes gives them. `variables` has all variables that they read:
// those of kind INPUT are the model's inputs, in this order, and all others its parameters. INVALID_ARGUMENT: a variable
// of the nodes that is not in `variables`, or one in `variables` that they do not read; a declaration that does not fit.
absl::StatusOr<ModelDefinition> DefinitionFromNodes(const std::vector<NodeSpec>& nodes, const std::vector<EntrySpec>& outputs,
                                                    const google::protobuf::RepeatedPtrField<v1::Variable>& variables,
                                                    int64_t max_nodes);

// The operators of a definition, and its outputs.
void GraphToProto(const ModelDefinition& definition, v1::Graph* graph);
int64_t CountOperators(const ModelDefinition& definition);

// A graph of operators from the wire, as the engine's list of nodes.
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

#endif  // SERVER_CODEC_DEFINITION_CODEC_H_
