// Cell: a recurrent network's step, which is unrolled to operators. A tree has a cell where it has a block; the cell
// then has the attribute `length`, reads a sequence, and its output is the sequence of its outputs:
//
//   BlockSpec net{"LSTMCell", "", {{"hidden_size", "20"}, {"length", "8"}}};  // (batch, 8, in) to (batch, 8, 20).
//
// Children of a cell are cells, without `length`. The first states are zeros, the last ones are not seen.

#ifndef ENGINE_NN_CELL_H_
#define ENGINE_NN_CELL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/nn/block.h"

namespace gluond {

// A cell unrolls one sequence.
class Cell {
 public:
  using Entries = std::vector<NodeEntry>;

  explicit Cell(BlockScope scope) : scope_(std::move(scope)) {}
  virtual ~Cell() = default;

  // Each state is (batch, size).
  virtual std::vector<int64_t> StateSizes() const = 0;
  // The output of the next step, of `x` (batch, size); `states` become those after it. INVALID_ARGUMENT: the cell must
  // see whole sequences.
  virtual absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) = 0;
  // The outputs of all steps, from zeros as states.
  virtual absl::StatusOr<Entries> Unroll(Entries steps);
  // The output for a sequence whose steps lie along `axis`.
  virtual absl::StatusOr<NodeEntry> UnrollSequence(NodeEntry x, int64_t length, int axis);
  // In Gluon's words: a row of cells, or one in both directions. Some cells cannot be around one.
  virtual bool IsRow() const { return false; }
  virtual bool IsBidirectional() const { return false; }

 protected:
  const BlockScope& scope() const { return scope_; }
  // The formula of the next step.
  Formula NextStep();

 private:
  const BlockScope scope_;
  int steps_ = 0;
};

using CellCatalog = Catalog<absl::StatusOr<std::unique_ptr<Cell>>(const BlockSpec&, const BlockScope&, const BlockChildren&)>;
const CellCatalog& Cells();

// The names of a cell's children that have none, in Gluon: attributes of the Python object. Empty: their indices.
std::vector<std::string> CellChildNames(absl::string_view type);

}  // namespace gluond

#endif  // ENGINE_NN_CELL_H_
