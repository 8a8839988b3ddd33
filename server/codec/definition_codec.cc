#include "server/codec/definition_codec.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/block.h"
#include "engine/nn/initializer.h"
#include "engine/nn/node_spec.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/components.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

// The client's words about variables, by the variables' names.
using Variables = google::protobuf::RepeatedPtrField<v1::Variable>;
using Declarations = absl::flat_hash_map<absl::string_view, const v1::Variable*>;

constexpr int kMaxBlockDepth = 32;

absl::StatusOr<BlockSpec> BlockFromProto(const v1::Block& proto, int depth) {
  if (depth > kMaxBlockDepth) return Invalid("blocks are nested deeper than ", kMaxBlockDepth);
  BlockSpec block;
  block.type = proto.block();
  block.name = proto.name();
  ASSIGN_OR_RETURN(block.attrs, Annotate(CallAttrsFromProto(proto), absl::StrCat("block ", Excerpt(proto.block()))));
  for (const v1::Block& child : proto.children()) {
    ASSIGN_OR_RETURN(block.children.emplace_back(), BlockFromProto(child, depth + 1));
  }
  return block;
}

absl::StatusOr<Declarations> ByName(const Variables& variables, int64_t max_nodes) {
  if (variables.size() > max_nodes) {
    return OverLimit("--max_graph_nodes", "the request declares ", variables.size(), " variables, more than the ", max_nodes,
                     " of --max_graph_nodes; leave out what the graph says itself");
  }
  Declarations declared;
  declared.reserve(static_cast<size_t>(variables.size()));
  for (const v1::Variable& variable : variables) {
    if (variable.name().empty()) return Invalid("variables[", declared.size(), "] has no name");
    if (declared.try_emplace(variable.name(), &variable).second) continue;
    return Invalid("variable '", Excerpt(variable.name()), "' is declared twice");
  }
  return declared;
}

template <class StatusType>
StatusType InVariable(absl::string_view name, StatusType status) {
  return Annotate(std::move(status), absl::StrCat("variable '", Excerpt(name), "'"));
}

// An input as it is declared; without a declaration, nothing is known of it.
absl::StatusOr<ModelInput> InputNamed(const std::string& name, const Declarations& declared) {
  ModelInput input;
  input.name = name;
  const auto found = declared.find(name);
  if (found == declared.end()) return input;
  const v1::Variable& variable = *found->second;
  if (!variable.shape().empty()) {
    ASSIGN_OR_RETURN(input.shape, ShapeFromProto(variable.shape(), /*known=*/false));
  }
  if (variable.has_dtype()) {
    ASSIGN_OR_RETURN(input.dtype, FromProto(variable.dtype()));
  }
  return input;
}

// A tree's inputs: those declared as such, or the one called `data`.
absl::StatusOr<std::vector<ModelInput>> BlockInputs(const v1::DefineModelRequest& request, const Declarations& declared) {
  std::vector<ModelInput> inputs;
  for (const v1::Variable& variable : request.variables()) {
    if (variable.kind() == v1::Variable::INPUT || variable.name() == "data") {
      ASSIGN_OR_RETURN(inputs.emplace_back(), InputNamed(variable.name(), declared));
    }
  }
  if (inputs.empty()) inputs.push_back({"data", Shape(), DType::kFloat32});
  return inputs;
}

absl::Status ApplyDeclaration(const v1::Variable& declared, Parameter* parameter) {
  if (!declared.shape().empty()) {
    ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(declared.shape(), /*known=*/false));
    if (!ShapeAssign(&parameter->shape, shape)) {
      return Invalid("shape ", shape.ToString(), " is declared, but the graph says ", parameter->shape.ToString());
    }
  }
  if (declared.has_dtype()) {
    ASSIGN_OR_RETURN(parameter->dtype, FromProto(declared.dtype()));
  }
  if (declared.has_initializer()) {
    ASSIGN_OR_RETURN(Spec initializer, SpecFromProto(declared.initializer(), Initializers()));
    if (!initializer.type.empty()) parameter->initializer = std::move(initializer);  // An empty one says nothing.
  }
  for (const auto& [given, value] :
       {std::pair(declared.has_lr_mult(), declared.lr_mult()), std::pair(declared.has_wd_mult(), declared.wd_mult())}) {
    if (given && !(value >= 0 && value <= 1e30)) return Invalid("a multiplier is ", value, "; want a finite number of 0 or more");
  }
  if (declared.has_lr_mult()) parameter->lr_mult = declared.lr_mult();
  if (declared.has_wd_mult()) parameter->wd_mult = declared.wd_mult();
  if (!declared.has_grad_req()) return absl::OkStatus();
  if (parameter->auxiliary && declared.grad_req() != v1::Variable::NULL_) {
    return Invalid("an auxiliary state has no gradient; leave `grad_req` out");
  }
  parameter->grad_req = declared.grad_req() == v1::Variable::ADD     ? GradReq::kAdd
                        : declared.grad_req() == v1::Variable::WRITE ? GradReq::kWrite
                                                                     : GradReq::kNull;
  return absl::OkStatus();
}

absl::Status Unread(absl::string_view name, const ModelDefinition& definition) {
  std::vector<std::string> names;
  for (const Parameter& parameter : definition.parameters) names.push_back(parameter.name);
  for (const ModelInput& input : definition.inputs) names.push_back(input.name);
  return Invalid("variable '", Excerpt(name), "' is declared, but nothing reads it", DidYouMean(name, names));
}

absl::Status ApplyDeclarations(const Variables& variables, Declarations declared, ModelDefinition* definition) {
  for (Parameter& parameter : definition->parameters) {
    const auto found = declared.find(parameter.name);
    if (found == declared.end()) continue;
    RETURN_IF_ERROR(InVariable(parameter.name, ApplyDeclaration(*found->second, &parameter)));
    declared.erase(found);
  }
  for (const ModelInput& input : definition->inputs) declared.erase(input.name);
  for (const v1::Variable& variable : variables) {
    if (declared.contains(variable.name())) return Unread(variable.name(), *definition);
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelDefinition> FromGraph(const v1::DefineModelRequest& request, const Declarations& declared, int64_t max_nodes) {
  ASSIGN_OR_RETURN(GraphSpec graph, GraphFromProto(request.graph(), request.variables()));
  std::vector<ModelInput> inputs;
  for (const std::string& name : graph.inputs) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), InVariable(name, InputNamed(name, declared)));
  }
  // The client's nodes are counted; those for the parameters that they read come on top.
  const int64_t most = std::max(max_nodes, static_cast<int64_t>(graph.nodes.size()));
  ASSIGN_OR_RETURN(ModelDefinition definition, ExpandNodes(graph.nodes, std::move(inputs), graph.outputs, {}, most));
  if (!graph.output_names.empty()) definition.output_names = std::move(graph.output_names);
  return definition;
}

absl::Status TooManyNodes(int64_t nodes, int64_t max_nodes) {
  return OverLimit("--max_graph_nodes", "the graph has ", nodes, " nodes, more than the ", max_nodes,
                   " of --max_graph_nodes; make it smaller");
}

// A node may have thousands of outputs, which passes keep tables of.
absl::Status CheckOutputs(const ModelDefinition& definition, int64_t max_nodes) {
  constexpr int64_t kOutputsPerNode = 16;
  int64_t outputs = 0;
  PostOrderVisit(definition.outputs, [&outputs](const NodePtr& node) { outputs += node->num_outputs(); });
  if (outputs <= kOutputsPerNode * max_nodes) return absl::OkStatus();
  return OverLimit("--max_graph_nodes", "the graph's nodes have ", outputs, " outputs, more than ", kOutputsPerNode,
                   " for each of the ", max_nodes, " of --max_graph_nodes; make it smaller");
}

// Parses "split:1": a node, and which of its outputs.
absl::StatusOr<EntrySpec> ParseReference(absl::string_view text) {
  EntrySpec entry;
  const size_t colon = text.find(':');
  entry.node = std::string(text.substr(0, colon));
  RETURN_IF_ERROR(CheckNodeName(entry.node));
  if (colon == absl::string_view::npos) return entry;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &entry.index)) {
    return Invalid("reference '", Excerpt(text), "': want the name of a node, or name:number for another output");
  }
  return entry;
}

bool EndsLikeAParameter(absl::string_view name) {
  constexpr absl::string_view kEnds[] = {"weight", "bias", "gamma", "beta", "alpha"};
  return absl::c_any_of(kEnds, [name](absl::string_view end) { return absl::EndsWith(name, end); });
}

class GraphReader {
 public:
  explicit GraphReader(const google::protobuf::RepeatedPtrField<v1::Variable>& declared) {
    for (const v1::Variable& variable : declared) kinds_[variable.name()] = variable.kind();
  }

  absl::StatusOr<GraphSpec> Read(const v1::Graph& graph) && {
    if (graph.nodes().empty() && graph.outputs().empty()) return Invalid("the graph has no nodes and no outputs");
    for (const v1::Node& node : graph.nodes()) {
      if (!node.name().empty()) RETURN_IF_ERROR(AddName(node.name()));
    }
    for (const v1::Node& node : graph.nodes()) {
      NodeSpec spec;
      spec.name = node.name().empty() ? DefaultName(node.op()) : node.name();
      names_.insert(spec.name);
      RETURN_IF_ERROR(Annotate(ReadNode(node, &spec), absl::StrCat("node '", Excerpt(spec.name), "'")));
      graph_.nodes.push_back(std::move(spec));
    }
    for (const std::string& output : graph.outputs()) {
      ASSIGN_OR_RETURN(graph_.outputs.emplace_back(), Annotate(ParseReference(output), "outputs"));
      graph_.output_names.push_back(output);
    }
    AddVariables();
    return std::move(graph_);
  }

 private:
  absl::Status AddName(const std::string& name) {
    RETURN_IF_ERROR(CheckNodeName(name));
    if (names_.insert(name).second) return absl::OkStatus();
    return Invalid("two nodes are named '", Excerpt(name), "'");
  }

  // "convolution0", as MXNet's name manager says.
  std::string DefaultName(const std::string& op) {
    const std::string stem = absl::AsciiStrToLower(op);
    for (;;) {
      std::string name = absl::StrCat(stem, counts_[stem]++);
      if (!names_.contains(name)) return name;
    }
  }

  static absl::Status ReadNode(const v1::Node& node, NodeSpec* spec) {
    if (node.op().empty()) return Invalid("it has no `op`");
    spec->op = node.op();
    ASSIGN_OR_RETURN(spec->attrs, CallAttrsFromProto(node));
    for (const std::string& input : node.inputs()) {
      ASSIGN_OR_RETURN(spec->inputs.emplace_back(), ParseReference(input));
    }
    return absl::OkStatus();
  }

  // A name that is read and that no node has is a variable. One that is only an output has to be declared.
  void AddVariables() {
    std::vector<NodeSpec> parameters;
    for (const NodeSpec& node : graph_.nodes) {
      for (const EntrySpec& input : node.inputs) AddVariable(input.node, &parameters);
    }
    for (const EntrySpec& output : graph_.outputs) {
      if (kinds_.contains(output.node)) AddVariable(output.node, &parameters);
    }
    graph_.nodes.insert(graph_.nodes.begin(), parameters.begin(), parameters.end());
  }

  void AddVariable(const std::string& name, std::vector<NodeSpec>* parameters) {
    if (!names_.insert(name).second) return;
    const auto kind = kinds_.find(name);
    const bool any = kind == kinds_.end() || kind->second == v1::Variable::ANY;
    const bool is_input = any ? !EndsLikeAParameter(name) : kind->second == v1::Variable::INPUT;
    if (is_input) {
      graph_.inputs.push_back(name);
    } else {
      parameters->push_back({"", name, {}, {}});
    }
  }

  absl::flat_hash_map<std::string, v1::Variable::Kind> kinds_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, int> counts_;
  GraphSpec graph_;
};

}  // namespace

absl::StatusOr<ModelDefinition> DefinitionFromProto(const v1::DefineModelRequest& request, int64_t max_nodes) {
  ASSIGN_OR_RETURN(const Declarations declared, ByName(request.variables(), max_nodes));
  ModelDefinition definition;
  if (request.has_block()) {
    ASSIGN_OR_RETURN(const BlockSpec block, BlockFromProto(request.block(), 1));
    ASSIGN_OR_RETURN(std::vector<ModelInput> inputs, BlockInputs(request, declared));
    ASSIGN_OR_RETURN(definition, ExpandBlock(block, std::move(inputs), {.max_nodes = max_nodes}));
  } else if (request.has_graph()) {
    if (request.graph().nodes_size() > max_nodes) return TooManyNodes(request.graph().nodes_size(), max_nodes);
    ASSIGN_OR_RETURN(definition, FromGraph(request, declared, max_nodes));
  } else {
    return Invalid("want `block` or `graph`, got neither");
  }
  if (const int64_t nodes = CountOperators(definition); nodes > max_nodes) return TooManyNodes(nodes, max_nodes);
  RETURN_IF_ERROR(CheckOutputs(definition, max_nodes));
  RETURN_IF_ERROR(ApplyDeclarations(request.variables(), declared, &definition));
  return definition;
}

absl::StatusOr<ModelDefinition> DefinitionFromNodes(const std::vector<NodeSpec>& nodes, const std::vector<EntrySpec>& outputs,
                                                    const Variables& variables, int64_t max_nodes) {
  ASSIGN_OR_RETURN(const Declarations declared, ByName(variables, max_nodes));
  absl::flat_hash_set<absl::string_view> read;
  for (const NodeSpec& node : nodes) {
    if (!node.op.empty()) continue;
    read.insert(node.name);
    if (declared.contains(node.name)) continue;
    return Invalid("the graph's variable '", Excerpt(node.name),
                   "' is neither among the inputs nor among the parameters; add it to one of them");
  }
  std::vector<ModelInput> inputs;
  for (const v1::Variable& variable : variables) {
    if (variable.kind() != v1::Variable::INPUT || !read.contains(variable.name())) continue;
    ASSIGN_OR_RETURN(inputs.emplace_back(), InVariable(variable.name(), InputNamed(variable.name(), declared)));
  }
  const int64_t most = std::max(max_nodes, static_cast<int64_t>(nodes.size()));
  ASSIGN_OR_RETURN(ModelDefinition definition, ExpandNodes(nodes, std::move(inputs), outputs, {}, most));
  RETURN_IF_ERROR(ApplyDeclarations(variables, declared, &definition));
  return definition;
}

void GraphToProto(const ModelDefinition& definition, v1::Graph* graph) {
  for (const NodeSpec& spec : ListNodes(definition.outputs)) {
    if (spec.op.empty() || spec.op == "null") continue;
    v1::Node* node = graph->add_nodes();
    node->set_name(spec.name);
    node->set_op(spec.op);
    AttrDict attrs = spec.attrs;
    CustomToProto(&attrs, node);
    const Op* const op = Op::Find(spec.op);
    AttrsToProto(attrs, op == nullptr ? absl::Span<const ArgumentDoc>() : op->arguments(), node->mutable_attributes());
    for (const EntrySpec& input : spec.inputs) {
      node->add_inputs(input.index == 0 ? input.node : absl::StrCat(input.node, ":", input.index));
    }
  }
  for (const NodeEntry& output : definition.outputs) {
    graph->add_outputs(output.index == 0 ? output.node->name() : absl::StrCat(output.node->name(), ":", output.index));
  }
}

int64_t CountOperators(const ModelDefinition& definition) {
  int64_t count = 0;
  PostOrderVisit(definition.outputs, [&](const NodePtr& node) { count += !node->is_variable(); });
  return count;
}

absl::StatusOr<GraphSpec> GraphFromProto(const v1::Graph& graph, const google::protobuf::RepeatedPtrField<v1::Variable>& declared) {
  return GraphReader(declared).Read(graph);
}

}  // namespace gluond::server
