#include "engine/nn/block.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

// The names of all nodes and parameters in a block begin with its path.
constexpr size_t kLongestPath = 512;

absl::Status CheckChildName(absl::string_view name) {
  bool good = !name.empty() && name.size() <= 128;
  for (char c : name) good = good && (absl::ascii_isalnum(c) || c == '_' || c == '-');
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a child is named '", Excerpt(name), "'; want 1 to 128 letters, digits, '_' or '-'"));
}

// The children's names: given, or their indices.
absl::StatusOr<std::vector<std::string>> ChildNames(const BlockSpec& block) {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < block.children.size(); ++i) {
    const std::string& given = block.children[i].name;
    names.push_back(given.empty() ? absl::StrCat(i) : given);
    RETURN_IF_ERROR(CheckChildName(names.back()));
    if (!seen.insert(names.back()).second) {
      return absl::InvalidArgumentError(absl::StrCat("two children are named '", names.back(), "'"));
    }
  }
  return names;
}

class Expansion {
 public:
  explicit Expansion(const BlockLimits& limits) : limits_(limits) {}

  // Recursive, to a depth that the limit bounds. The error is that of the innermost block.
  absl::StatusOr<NodeEntry> Expand(const BlockSpec& block, const BlockScope& scope, NodeEntry x, int depth) {
    absl::StatusOr<NodeEntry> y = ExpandOne(block, scope, std::move(x), depth);
    if (y.ok()) return y;
    if (error_.ok()) {
      error_ = Annotate(y.status(), absl::StrCat("block '", scope.path(), "' (", Excerpt(block.type), ")"));
    }
    return error_;
  }

 private:
  absl::StatusOr<NodeEntry> ExpandOne(const BlockSpec& block, const BlockScope& scope, NodeEntry x, int depth) {
    if (depth > limits_.max_depth) {
      return absl::ResourceExhaustedError(absl::StrCat("blocks are nested over ", limits_.max_depth, " deep"));
    }
    if (scope.path().size() > kLongestPath) {
      return absl::InvalidArgumentError(absl::StrCat("the path of its name has ", scope.path().size(),
                                                     " bytes, at most ", kLongestPath, " are allowed"));
    }
    if (++num_blocks_ > limits_.max_blocks) {
      return absl::ResourceExhaustedError(absl::StrCat("a model has at most ", limits_.max_blocks, " blocks"));
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ChildNames(block));
    ASSIGN_OR_RETURN(const BlockCatalog::Entry* entry, Blocks().Find(block.type));
    return entry->make(block, scope, std::move(x), [&](size_t child, NodeEntry input) {
      return Expand(block.children[child], scope.Child(names[child]), std::move(input), depth + 1);
    });
  }

  const BlockLimits limits_;
  int64_t num_blocks_ = 0;
  absl::Status error_;
};

}  // namespace

std::string BlockScope::Join(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

NodeEntry BlockScope::NewParameter(absl::string_view name, Parameter parameter) const {
  parameter.name = Join(name);
  if (!parameter.differentiable || parameter.auxiliary) parameter.grad_req = GradReq::kNull;
  definition_->parameters.push_back(std::move(parameter));
  return MakeVariable(definition_->parameters.back().name);
}

absl::StatusOr<NodeEntry> BlockScope::Call(absl::string_view op, absl::string_view suffix,
                                           std::vector<NodeEntry> inputs, AttrDict attrs) const {
  ASSIGN_OR_RETURN(NodePtr node, TryMakeNode(op, Join(suffix), std::move(inputs), std::move(attrs)));
  return NodeEntry{std::move(node), 0};
}

absl::StatusOr<ModelDefinition> ExpandBlock(const BlockSpec& block, std::vector<ModelInput> inputs,
                                            const BlockLimits& limits) {
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tree of blocks has one input, got ", inputs.size(), "; define other graphs from nodes"));
  }
  ModelDefinition definition;
  definition.inputs = std::move(inputs);
  Expansion expansion(limits);
  ASSIGN_OR_RETURN(NodeEntry y, expansion.Expand(block, BlockScope(&definition, ""),
                                                 MakeVariable(definition.inputs[0].name), 1));
  definition.outputs = {std::move(y)};
  definition.output_names = {"output"};
  MarkAuxiliary(&definition);
  return definition;
}

}  // namespace gluond
