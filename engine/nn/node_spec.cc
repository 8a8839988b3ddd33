#include "engine/nn/node_spec.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/nn/initializer.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

absl::StatusOr<double> Multiplier(const AttrDict& attrs, absl::string_view key) {
  const auto it = attrs.find(std::string_view(key.data(), key.size()));
  double value = 1;
  if (it != attrs.end() && !absl::SimpleAtod(it->second, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is '", Excerpt(it->second), "'; want a number"));
  }
  return value;
}

// A node may have a thousand inputs and outputs, but all nodes together have at most this many per node.
constexpr int64_t kEntriesPerNode = 16;

class NodeExpansion {
 public:
  NodeExpansion(const std::vector<NodeSpec>& specs, int64_t max_nodes) : specs_(specs), max_entries_(kEntriesPerNode * max_nodes) {}

  absl::Status Index(const std::vector<ModelInput>& inputs) {
    for (const ModelInput& input : inputs) {
      if (!made_.try_emplace(input.name, MakeVariable(input.name).node).second) {
        return absl::InvalidArgumentError(absl::StrCat("two inputs are named '", Excerpt(input.name), "'"));
      }
    }
    for (size_t i = 0; i < specs_.size(); ++i) {
      const NodeSpec& spec = specs_[i];
      if (spec.name.empty()) return absl::InvalidArgumentError(absl::StrCat("node ", i, " has no name"));
      if (!index_.try_emplace(spec.name, i).second || (!IsVariable(spec) && made_.contains(spec.name))) {
        return absl::InvalidArgumentError(absl::StrCat("two nodes are named '", Excerpt(spec.name), "'"));
      }
    }
    return absl::OkStatus();
  }

  // Kahn's algorithm: a node is made when its inputs are.
  absl::Status MakeAll(const absl::flat_hash_map<std::string, Parameter>& known) {
    std::vector<size_t> missing(specs_.size());
    std::vector<std::vector<size_t>> users(specs_.size());
    for (size_t i = 0; i < specs_.size(); ++i) {
      for (const EntrySpec& input : specs_[i].inputs) {
        const auto it = index_.find(input.node);
        if (it == index_.end()) {
          if (made_.contains(input.node)) continue;
          return At(specs_[i], absl::InvalidArgumentError(
                                   absl::StrCat("there is no node or input '", Excerpt(input.node), "'", Suggestion(input.node))));
        }
        ++missing[i];
        users[it->second].push_back(i);
      }
    }
    std::vector<size_t> ready;
    for (size_t i = specs_.size(); i-- > 0;)
      if (missing[i] == 0) ready.push_back(i);
    size_t num_made = 0;
    PassWork work;
    while (!ready.empty()) {
      const size_t i = ready.back();
      ready.pop_back();
      RETURN_IF_ERROR(work.Add(1 + specs_[i].inputs.size()));
      if (absl::Status status = Make(specs_[i], known); !status.ok()) return At(specs_[i], status);
      ++num_made;
      for (size_t user : users[i])
        if (--missing[user] == 0) ready.push_back(user);
    }
    if (num_made == specs_.size()) return absl::OkStatus();
    return Cycle(missing);
  }

  absl::StatusOr<NodeEntry> Entry(const EntrySpec& spec) const {
    const auto it = made_.find(spec.node);
    if (it == made_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no node '", Excerpt(spec.node), "'", Suggestion(spec.node)));
    }
    const uint32_t count = it->second->num_outputs();
    if (spec.index >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("node '", Excerpt(spec.node), "' has ", count, " outputs, got index ", spec.index));
    }
    return NodeEntry{it->second, spec.index};
  }

  // Every visible output that no node uses.
  std::vector<EntrySpec> Unused() const {
    absl::flat_hash_map<std::string, bool> used;
    for (const NodeSpec& spec : specs_)
      for (const EntrySpec& input : spec.inputs) used[input.node] = true;
    std::vector<EntrySpec> entries;
    for (const NodeSpec& spec : specs_) {
      if (IsVariable(spec) || used.contains(spec.name)) continue;
      const Node& node = *made_.at(spec.name);
      for (uint32_t i = 0; i < node.facts().num_visible; ++i) entries.push_back({spec.name, i});
    }
    return entries;
  }

  std::vector<Parameter> TakeParameters() { return std::move(parameters_); }

 private:
  static bool IsVariable(const NodeSpec& spec) { return spec.op.empty() || spec.op == "null"; }
  static absl::Status At(const NodeSpec& spec, const absl::Status& status) {
    return Annotate(status, absl::StrCat("node '", Excerpt(spec.name), "'"));
  }

  std::string Suggestion(absl::string_view name) const {
    std::vector<std::string> names;
    for (const auto& [known, i] : index_) names.push_back(known);
    for (const auto& [known, node] : made_) names.push_back(known);
    return DidYouMean(name, names);
  }

  absl::Status Make(const NodeSpec& spec, const absl::flat_hash_map<std::string, Parameter>& known) {
    if (IsVariable(spec)) {
      if (!spec.inputs.empty()) return absl::InvalidArgumentError("a variable has no inputs");
      if (made_.contains(spec.name)) return absl::OkStatus();  // An input of the model.
      return AddParameter(spec.name, spec.attrs, known);
    }
    std::vector<NodeEntry> inputs;
    for (const EntrySpec& input : spec.inputs) {
      ASSIGN_OR_RETURN(NodeEntry entry, Entry(input));
      inputs.push_back(std::move(entry));
    }
    RETURN_IF_ERROR(AddMissingInputs(spec, known, &inputs));
    ASSIGN_OR_RETURN(const NodePtr node, TryMakeNode(spec.op, spec.name, std::move(inputs), spec.attrs));
    made_[spec.name] = node;
    num_entries_ += int64_t{node->num_inputs()} + node->num_outputs();
    if (num_entries_ <= max_entries_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("the graph's nodes up to here have ", num_entries_,
                                                     " inputs and "
                                                     "outputs, more than ",
                                                     kEntriesPerNode, " for each of ", max_entries_ / kEntriesPerNode, " nodes"));
  }

  // As when MXNet composes symbols: "fc1" without a weight gets the variable "fc1_weight".
  absl::Status AddMissingInputs(const NodeSpec& spec, const absl::flat_hash_map<std::string, Parameter>& known,
                                std::vector<NodeEntry>* inputs) {
    ASSIGN_OR_RETURN(const Op* op, OfferedOp(spec.op));
    if (op->HasAttr("key_var_num_args")) return absl::OkStatus();
    NodeAttrs attrs;
    attrs.name = spec.name;
    attrs.dict = spec.attrs;
    RETURN_IF_ERROR(op->ParseAttrs(&attrs));
    const uint32_t count = op->num_inputs(attrs);
    if (count == kVarg || inputs->size() >= count) return absl::OkStatus();
    const std::vector<std::string> names = op->input_names(attrs, count);
    for (uint32_t i = static_cast<uint32_t>(inputs->size()); i < count; ++i) {
      NodeAttrs variable;
      variable.name = absl::StrCat(spec.name, "_", names[i]);
      if (const auto* set = op->GetAttr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose")) {
        (*set)(attrs, &variable, static_cast<int>(i));
      }
      if (made_.contains(variable.name) || index_.contains(variable.name)) {
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " '", names[i], "' is missing, and the name '",
                                                       Excerpt(variable.name), "' for its variable is taken"));
      }
      RETURN_IF_ERROR(Annotate(CheckNodeName(variable.name), absl::StrCat("input ", i, " is missing, and its variable")));
      RETURN_IF_ERROR(AddParameter(variable.name, variable.dict, known));
      inputs->push_back({made_.at(variable.name), 0});
    }
    return absl::OkStatus();
  }

  absl::Status AddParameter(const std::string& name, const AttrDict& attrs,
                            const absl::flat_hash_map<std::string, Parameter>& known) {
    Parameter parameter;
    parameter.dtype = DType::kFloat32;
    parameter.initializer = InitializerByName(name);
    if (const auto it = known.find(name); it != known.end()) {
      const Spec by_name = parameter.initializer;
      parameter = it->second;
      if (parameter.initializer.type.empty()) parameter.initializer = by_name;
    }
    parameter.name = name;
    if (const auto it = attrs.find("__shape__"); it != attrs.end()) {
      std::vector<int64_t> dims;
      RETURN_IF_ERROR(Annotate(param_internal::ParseText(it->second, &dims), "__shape__"));
      for (int64_t& d : dims)
        if (d == 0) d = Shape::kUnknown;  // MXNet's files write 0 for unknown.
      ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      if (!ShapeAssign(&parameter.shape, shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("__shape__ is ", shape.ToString(), ", the parameter's shape ", parameter.shape.ToString()));
      }
    }
    if (const auto it = attrs.find("__dtype__"); it != attrs.end() && it->second != "-1") {
      ASSIGN_OR_RETURN(parameter.dtype, ParseDType(it->second));
    }
    if (const auto it = attrs.find("__init__"); it != attrs.end()) {
      ASSIGN_OR_RETURN(parameter.initializer, ParseInitializer(it->second));
    }
    if (attrs.contains("__lr_mult__")) {
      ASSIGN_OR_RETURN(parameter.lr_mult, Multiplier(attrs, "__lr_mult__"));
    }
    if (attrs.contains("__wd_mult__")) {
      ASSIGN_OR_RETURN(parameter.wd_mult, Multiplier(attrs, "__wd_mult__"));
    }
    made_[name] = MakeVariable(name).node;
    parameters_.push_back(std::move(parameter));
    return absl::OkStatus();
  }

  absl::Status Cycle(const std::vector<size_t>& missing) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < specs_.size() && names.size() < 8; ++i) {
      if (missing[i] > 0) names.push_back(absl::StrCat("'", Excerpt(specs_[i].name), "'"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has a cycle; these nodes wait for each other or for it: ", absl::StrJoin(names, ", ")));
  }

  const std::vector<NodeSpec>& specs_;
  const int64_t max_entries_;
  int64_t num_entries_ = 0;  // Inputs and outputs of the nodes made.
  absl::flat_hash_map<std::string, size_t> index_;
  absl::flat_hash_map<std::string, NodePtr> made_;
  std::vector<Parameter> parameters_;
};

// Puts the parameters that the caller listed first, in that order: a reloaded model is as it was, and sums over its
// parameters have the same bits.
absl::Status OrderAs(const std::vector<Parameter>& listed, std::vector<Parameter>* parameters) {
  absl::flat_hash_map<std::string, size_t> place;
  for (const Parameter& parameter : listed) place.try_emplace(parameter.name, place.size());
  size_t num_found = 0;
  for (const Parameter& parameter : *parameters) num_found += place.contains(parameter.name);
  if (num_found < place.size()) {
    std::vector<std::string> names;
    for (const Parameter& parameter : *parameters) place.erase(parameter.name), names.push_back(parameter.name);
    const std::string& name = place.begin()->first;
    return absl::InvalidArgumentError(absl::StrCat("no node has the parameter '", Excerpt(name), "'", DidYouMean(name, names)));
  }
  const auto rank = [&place](const Parameter& p) {
    const auto it = place.find(p.name);
    return it == place.end() ? place.size() : it->second;
  };
  std::stable_sort(parameters->begin(), parameters->end(),
                   [&](const Parameter& a, const Parameter& b) { return rank(a) < rank(b); });
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNodeName(absl::string_view name) {
  constexpr size_t kMost = 128;
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isprint(c); });
  if (printable && !name.empty() && name.size() <= kMost && !absl::StrContains(name, ":")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", Excerpt(name), "' is no name of a node; want 1 to ", kMost, " printable characters without ':'"));
}

absl::StatusOr<const Op*> OfferedOp(absl::string_view name) {
  ASSIGN_OR_RETURN(const Op* op, Op::Get(name));
  if (!absl::StartsWith(op->name(), "_backward_")) return op;
  return absl::InvalidArgumentError(absl::StrCat("operator '", op->name(),
                                                 "' is a part of gradients, which the server "
                                                 "makes itself; differentiate the operator that it belongs to"));
}

absl::StatusOr<ModelDefinition> ExpandNodes(const std::vector<NodeSpec>& nodes, std::vector<ModelInput> inputs,
                                            const std::vector<EntrySpec>& outputs, const std::vector<Parameter>& parameters,
                                            int64_t max_nodes) {
  if (static_cast<int64_t>(nodes.size()) > max_nodes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the graph has ", nodes.size(), " nodes, at most ", max_nodes, " are allowed"));
  }
  absl::flat_hash_map<std::string, Parameter> known;
  for (const Parameter& parameter : parameters) {
    if (!known.try_emplace(parameter.name, parameter).second) {
      return absl::InvalidArgumentError(absl::StrCat("two parameters are named '", Excerpt(parameter.name), "'"));
    }
  }
  NodeExpansion expansion(nodes, max_nodes);
  RETURN_IF_ERROR(expansion.Index(inputs));
  RETURN_IF_ERROR(expansion.MakeAll(known));
  ModelDefinition definition;
  definition.inputs = std::move(inputs);
  for (const EntrySpec& output : outputs.empty() ? expansion.Unused() : outputs) {
    ASSIGN_OR_RETURN(NodeEntry entry, expansion.Entry(output));
    definition.outputs.push_back(std::move(entry));
    definition.output_names.push_back(output.index == 0 ? output.node : absl::StrCat(output.node, "_", output.index));
  }
  if (definition.outputs.empty()) return absl::InvalidArgumentError("the graph has no outputs");
  definition.parameters = expansion.TakeParameters();
  RETURN_IF_ERROR(OrderAs(parameters, &definition.parameters));
  MarkAuxiliary(&definition);
  return definition;
}

std::vector<NodeSpec> ListNodes(absl::Span<const NodeEntry> outputs) {
  std::vector<NodeSpec> specs;
  PostOrderVisit(outputs, [&specs](const NodePtr& node) {
    NodeSpec& spec = specs.emplace_back();
    spec.op = node->is_variable() ? "" : node->op()->name();
    spec.name = node->name();
    spec.attrs = node->attrs.dict;
    for (const NodeEntry& input : node->inputs) spec.inputs.push_back({input.node->name(), input.index});
  });
  return specs;
}

}  // namespace gluond
