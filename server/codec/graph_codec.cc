#include "server/codec/graph_codec.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/attrs_codec.h"

namespace gluond::server {
namespace {

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
  for (const char* end : {"weight", "bias", "gamma", "beta", "alpha"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return false;
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

absl::StatusOr<GraphSpec> GraphFromProto(const v1::Graph& graph, const google::protobuf::RepeatedPtrField<v1::Variable>& declared) {
  return GraphReader(declared).Read(graph);
}

}  // namespace gluond::server
