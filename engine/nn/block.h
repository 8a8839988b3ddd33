// Blocks: layers that expand to operators. A tree of BlockSpecs, as a client sends it, becomes a ModelDefinition.
//
//   BlockSpec net{"HybridSequential", "", {}, {
//       {"Dense", "", {{"units", "128"}, {"activation", "relu"}}},
//       {"Dense", "", {{"units", "10"}}}}};
//   ASSIGN_OR_RETURN(ModelDefinition definition, ExpandBlock(net, {{"data", {-1, 784}}}));
//   // Parameters: 0.weight, 0.bias, 1.weight, 1.bias.
//
// A parameter's structural name is the path of its block, child names (or indices) joined by dots, and its own name.

#ifndef ENGINE_NN_BLOCK_H_
#define ENGINE_NN_BLOCK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/catalog.h"
#include "engine/nn/definition.h"
#include "engine/nn/formula.h"

namespace gluond {

class Cell;

struct BlockSpec {
  std::string type;       // "Dense".
  std::string name = {};  // Unique among siblings; empty: the index, or a name that Gluon gives (cell.h).
  AttrDict attrs = {};
  std::vector<BlockSpec> children = {};
};

struct BlockLimits {
  int max_depth = 64;
  int64_t max_blocks = 1 << 16;
  int64_t max_nodes = 1 << 20;  // Calls of operators.
};

// INVALID_ARGUMENT: a wrong attribute, number of children or name, with the path of the block. NOT_FOUND: an unknown
// block type or operator. RESOURCE_EXHAUSTED: over a limit.
// `inputs` has one element, unless the tree is made for more. The output is named "output".
absl::StatusOr<ModelDefinition> ExpandBlock(const BlockSpec& block, std::vector<ModelInput> inputs, const BlockLimits& limits = {});

// An Expansion's result so far, and how much more it may have.
struct ExpandedSoFar {
  ModelDefinition definition;
  int64_t max_nodes;
  int64_t num_nodes = 0;
};

// A BlockScope takes the operators and parameters of one block. `path` is "" for the root.
class BlockScope {
 public:
  BlockScope(ExpandedSoFar* expanded, std::string path) : expanded_(expanded), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  BlockScope Child(absl::string_view name) const { return {expanded_, Join(name)}; }

  // A new parameter "<path>.<name>", as a variable of the graph.
  NodeEntry NewParameter(absl::string_view name, Parameter parameter) const;
  // Output 0 of a call of `op`, its node named "<path>.<suffix>". RESOURCE_EXHAUSTED: too many calls.
  absl::StatusOr<NodeEntry> Call(absl::string_view op, absl::string_view suffix, std::vector<NodeEntry> inputs,
                                 AttrDict attrs = {}) const;
  // Counts as much work as a call makes. RESOURCE_EXHAUSTED: too many calls.
  absl::Status Count() const;
  // Calls in this scope, their suffixes after `prefix`.
  Formula NewFormula(std::string prefix = "") const;

 private:
  std::string Join(absl::string_view name) const;

  ExpandedSoFar* expanded_;
  std::string path_;
};

// The children of a block that is being expanded.
class BlockChildren {
 public:
  virtual ~BlockChildren() = default;
  // The output of a child on input `x`.
  virtual absl::StatusOr<NodeEntry> Expand(size_t child, NodeEntry x) const = 0;
  // A child of a cell. INVALID_ARGUMENT: it is no cell.
  virtual absl::StatusOr<std::unique_ptr<Cell>> MakeCell(size_t child) const = 0;
};

// Expands one block on input `x`.
using BlockCatalog = Catalog<absl::StatusOr<NodeEntry>(const BlockSpec&, const BlockScope&, NodeEntry x, const BlockChildren&)>;
const BlockCatalog& Blocks();

}  // namespace gluond

#endif  // ENGINE_NN_BLOCK_H_
