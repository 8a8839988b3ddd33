// A Unit is a graph on its way to a program, with all that is known of the graph. Passes (pipeline.h) replace the graph, and
// never change its nodes.

#ifndef ENGINE_COMPILE_UNIT_H_
#define ENGINE_COMPILE_UNIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/row_chains.h"

namespace gluond {

class Allocator;
class HostCharge;

// The uses for which a graph is compiled.
struct UnitOptions {
  Device device = {};
  bool is_train = false;
  // The graph's first outputs, before which nothing of the others is computed (ExecutorOptions::pause_after). 0: the order is free.
  size_t num_first = 0;
  // The sizes of inputs may be open: the graph is rewritten for all of them, and gets no plan.
  bool open_shapes = false;
  // The caller computes what follows from constants, and takes the graph as it was where a value is not finite.
  bool checks_values = false;
  // The variables that stay the same from run to run, as parameters do. Only predictions have any.
  std::shared_ptr<const absl::flat_hash_set<std::string>> constants = nullptr;
  // Pays for the memory of compiling, and outlives the unit. Null: nobody pays.
  Allocator* payer = nullptr;
};

class Unit {
 public:
  Unit(Graph graph, Signatures known, UnitOptions options);

  const UnitOptions& options() const { return options_; }
  bool has_constants() const { return options_.constants != nullptr && !options_.constants->empty(); }

  const Graph& graph() const { return graph_; }
  // Charges the payer for all that passes and the program will take at most, before there is any of it. RESOURCE_EXHAUSTED: as
  // HostCharge's.
  absl::Status Pay();
  // Takes what a pass has made of the graph, or the pass's error, and pays for the new graph.
  absl::Status Replace(absl::StatusOr<Graph> graph);
  // The graph's nodes, and the graph as arrays: until it is replaced.
  const NodeOrder& order();
  const IndexedGraph& indexed();
  // The shapes and types of all entries, or with open_shapes of those that follow. Errors as InferShapeType's.
  absl::StatusOr<const Inferred*> inferred();

  // Makes `entries`, which follow from constants alone, the graph's first outputs.
  absl::Status LeadWith(std::vector<NodeEntry> entries);
  // So many of the graph's first outputs are nobody's but the program's, which may keep their values.
  uint32_t num_constants() const { return num_constants_; }
  // By node: whether only those outputs need the node.
  const std::vector<bool>& computes_constants();

  // The charge, which the program that is made of the unit goes on with.
  const std::shared_ptr<HostCharge>& charge() const { return charge_; }
  // The bytes of the graph's nodes that passes have made: whoever gave the first graph does not have them.
  int64_t made_bytes() const { return made_bytes_; }

  // Why a pass has left something undone, for reports: set by the pass, and taken by whoever watches.
  std::string note;

  MemoryPlan plan;
  std::vector<RowChain> chains;

 private:
  void Set(Graph graph);

  Graph graph_;
  Signatures known_;
  const UnitOptions options_;
  uint32_t num_constants_ = 0;
  // These are of the graph as it is, and made when first asked for.
  std::unique_ptr<const NodeOrder> order_;
  std::unique_ptr<const IndexedGraph> indexed_;
  std::unique_ptr<const Inferred> inferred_;
  std::vector<bool> computes_constants_;

  const std::shared_ptr<HostCharge> charge_;
  std::unique_ptr<const NodeOrder> given_;  // The first graph's nodes, where somebody pays.
  int64_t made_bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_COMPILE_UNIT_H_
