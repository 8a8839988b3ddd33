// PassWatcher tells what each pass has done, as the work shows in the unit after the pass.
//
//   PassWatcher watcher(unit);
//   RETURN_IF_ERROR(RunPasses(Stage::kPlan, LeftOutPasses(), &unit,
//                             [&](const Pass& pass, PassTurn turn) { watcher.After(pass, turn); }));
//   const PassHistory history = watcher.Take();

#ifndef ENGINE_COMPILE_PASS_WATCHER_H_
#define ENGINE_COMPILE_PASS_WATCHER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/unit.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"

namespace gluond {

struct PassReport {
  struct Change {
    std::string node;
    std::string before, after;  // Operators. Empty: there was, or is, no such call.
  };
  static constexpr size_t kMostChanges = 100;

  std::string name;
  bool optional = false;
  bool once = false;  // The pass ran for all shapes of the inputs, and programs begin with what the pass has made.
  PassTurn turn = PassTurn::kRan;
  int64_t calls_before = 0, calls_after = 0;
  std::vector<Change> changes;  // The first kMostChanges: new calls come last.
  int64_t num_changes = 0;
  std::string effect;  // In words; empty: the pass has changed nothing.
};

// A call as a pass can change it. Renewed nodes with other inputs are the same calls.
struct ChangedCall {
  std::string name;
  const Op* op = nullptr;
  std::string attributes;

  template <class H>
  friend H AbslHashValue(H h, const ChangedCall& key) {
    return H::combine(std::move(h), key.name, key.op, key.attributes);
  }
  friend bool operator==(const ChangedCall& a, const ChangedCall& b) {
    return a.op == b.op && a.name == b.name && a.attributes == b.attributes;
  }
};

// The passes that have made a graph, in their order.
struct PassHistory {
  std::vector<PassReport> passes;
  absl::flat_hash_map<ChangedCall, std::string> made_by;  // The last pass that has made, or changed, a call of the graph.

  // Empty: no pass has.
  std::string PassOf(const Node& node) const;
  // The graph is what it was before all passes.
  void TakeBack(absl::string_view why);
};

class PassWatcher {
 public:
  // `before`: of the unit's graph, for programs of all shapes; that history goes on here.
  explicit PassWatcher(Unit& unit, PassHistory before = {});

  void After(const Pass& pass, PassTurn turn);

  PassHistory Take();

 private:
  using CallCounts = absl::flat_hash_map<ChangedCall, int64_t>;

  CallCounts Calls();
  void AddChanges(PassReport* report);

  Unit& unit_;
  PassHistory history_;
  int64_t num_calls_ = 0;
  CallCounts calls_;
  uint32_t num_constants_ = 0;
  size_t num_planned_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_COMPILE_PASS_WATCHER_H_
