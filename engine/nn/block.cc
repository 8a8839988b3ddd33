#include "engine/nn/block.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "engine/core/error_info.h"
#include "engine/core/op.h"
#include "engine/nn/cell.h"

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

// The children's names: given, or Gluon's, or their indices.
absl::StatusOr<std::vector<std::string>> ChildNames(const BlockSpec& block) {
  const std::vector<std::string> of_cell = CellChildNames(block.type);
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < block.children.size(); ++i) {
    const std::string& given = block.children[i].name;
    names.push_back(!given.empty() ? given : i < of_cell.size() ? of_cell[i] : absl::StrCat(i));
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

  // The block's output on `x`. Recursive, to a depth that the limit bounds. The error is that of the innermost block.
  absl::StatusOr<NodeEntry> Expand(const BlockSpec& block, const BlockScope& scope, NodeEntry x, int depth) {
    return Innermost(block, scope, [&]() -> absl::StatusOr<NodeEntry> {
      ASSIGN_OR_RETURN(const Children children, Enter(block, scope, depth));
      ASSIGN_OR_RETURN(const BlockCatalog::Entry* entry, Blocks().Find(block.type));
      return entry->make(block, scope, std::move(x), children);
    });
  }

  absl::StatusOr<std::unique_ptr<Cell>> MakeCell(const BlockSpec& block, const BlockScope& scope, int depth) {
    return Innermost(block, scope, [&]() -> absl::StatusOr<std::unique_ptr<Cell>> {
      ASSIGN_OR_RETURN(const Children children, Enter(block, scope, depth));
      RETURN_IF_ERROR(Blocks().Find(block.type).status());
      const absl::StatusOr<const CellCatalog::Entry*> entry = Cells().Find(block.type);
      if (!entry.ok()) {
        return absl::InvalidArgumentError("a child of a cell is a cell; put a layer that is none beside the cell");
      }
      return (*entry)->make(block, scope, children);
    });
  }

 private:
  class Children : public BlockChildren {
   public:
    Children(Expansion* expansion, const BlockSpec* block, const BlockScope* scope, std::vector<std::string> names, int depth)
        : expansion_(expansion), block_(block), scope_(scope), names_(std::move(names)), depth_(depth) {}

    absl::StatusOr<NodeEntry> Expand(size_t child, NodeEntry x) const override {
      return expansion_->Expand(block_->children[child], scope_->Child(names_[child]), std::move(x), depth_ + 1);
    }
    absl::StatusOr<std::unique_ptr<Cell>> MakeCell(size_t child) const override {
      return expansion_->MakeCell(block_->children[child], scope_->Child(names_[child]), depth_ + 1);
    }

   private:
    Expansion* const expansion_;
    const BlockSpec* const block_;
    const BlockScope* const scope_;
    const std::vector<std::string> names_;
    const int depth_;
  };

  // Checks the limits and the children's names.
  absl::StatusOr<Children> Enter(const BlockSpec& block, const BlockScope& scope, int depth) {
    if (depth > limits_.max_depth) {
      return absl::ResourceExhaustedError(absl::StrCat("blocks are nested over ", limits_.max_depth, " deep"));
    }
    if (scope.path().size() > kLongestPath) {
      return absl::InvalidArgumentError(
          absl::StrCat("the path of its name has ", scope.path().size(), " bytes, at most ", kLongestPath, " are allowed"));
    }
    if (++num_blocks_ > limits_.max_blocks) {
      return absl::ResourceExhaustedError(absl::StrCat("a model has at most ", limits_.max_blocks, " blocks"));
    }
    ASSIGN_OR_RETURN(std::vector<std::string> names, ChildNames(block));
    return Children(this, &block, &scope, std::move(names), depth);
  }

  template <class Make>
  auto Innermost(const BlockSpec& block, const BlockScope& scope, Make make) -> decltype(make()) {
    auto made = make();
    if (made.ok()) return made;
    if (error_.ok()) {
      error_ = Annotate(made.status(), absl::StrCat("block '", scope.path(), "' (", Excerpt(block.type), ")"));
    }
    return error_;
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
  std::vector<Parameter>& parameters = expanded_->definition.parameters;
  parameters.push_back(std::move(parameter));
  return MakeVariable(parameters.back().name);
}

absl::Status BlockScope::Count() const {
  if (++expanded_->num_nodes <= expanded_->max_nodes) return absl::OkStatus();
  return OverLimit("--max_graph_nodes", "the tree expands to more than the ", expanded_->max_nodes,
                   " operators of --max_graph_nodes; make it smaller, or its sequences shorter");
}

absl::StatusOr<NodeEntry> BlockScope::Call(absl::string_view op, absl::string_view suffix, std::vector<NodeEntry> inputs,
                                           AttrDict attrs) const {
  RETURN_IF_ERROR(Count());
  ASSIGN_OR_RETURN(NodePtr node, TryMakeNode(op, Join(suffix), std::move(inputs), std::move(attrs)));
  return NodeEntry{std::move(node), 0};
}

Formula BlockScope::NewFormula(std::string prefix) const {
  return Formula([scope = *this, prefix = std::move(prefix)](absl::string_view op, std::string suffix,
                                                             std::vector<NodeEntry> inputs, AttrDict attrs) {
    return scope.Call(op, absl::StrCat(prefix, suffix), std::move(inputs), std::move(attrs));
  });
}

absl::StatusOr<ModelDefinition> ExpandBlock(const BlockSpec& block, std::vector<ModelInput> inputs, const BlockLimits& limits) {
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tree of blocks has one input, got ", inputs.size(), "; define other graphs from nodes"));
  }
  ExpandedSoFar expanded = {{}, limits.max_nodes};
  ModelDefinition& definition = expanded.definition;
  definition.inputs = std::move(inputs);
  Expansion expansion(limits);
  ASSIGN_OR_RETURN(NodeEntry y, expansion.Expand(block, BlockScope(&expanded, ""), MakeVariable(definition.inputs[0].name), 1));
  definition.outputs = {std::move(y)};
  definition.output_names = {"output"};
  MarkAuxiliary(&definition);
  return std::move(definition);
}

}  // namespace gluond
