#include "engine/passes/plan_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/arena_layout.h"

namespace gluond {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 62;
constexpr int32_t kNoStorage = -1;

// A range of the arena that holds one value after (or, for identities, beside) another.
struct Storage {
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t pending = 0;  // Reads of its entries by nodes that have not run yet.
  bool kept = false;     // Until the end of the run.
};

// Walks the nodes in the order in which they run.
class Planner {
 public:
  Planner(const IndexedGraph& graph, const Inferred& inferred) : graph_(graph), inferred_(inferred) {
    const uint32_t entries = graph.num_entries();
    plan_.offset.assign(entries, MemoryPlan::kNone);
    plan_.req.assign(entries, kNullOp);
    plan_.alias.assign(entries, -1);
    plan_.skipped.assign(graph.num_nodes(), true);
    bytes_.resize(entries);
    reads_.resize(entries);
    last_reader_.resize(entries);
    is_output_.resize(entries);
    mutated_.resize(entries);
    storage_of_.assign(entries, kNoStorage);
    summed_in_place_.resize(graph.num_nodes());
  }

  absl::StatusOr<MemoryPlan> Plan() {
    for (const IndexedGraph::Input& output : graph_.outputs()) is_output_[output.entry] = true;
    CountReads();
    RETURN_IF_ERROR(Measure());
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) Place(id);
    plan_.arena_bytes = layout_.bytes();
    return std::move(plan_);
  }

 private:
  bool Wanted(uint32_t entry) const { return reads_[entry] > 0 || is_output_[entry]; }
  // Nobody writes such an output again: it may lie where the caller wants it as soon as it is made.
  bool External(uint32_t entry) const { return is_output_[entry] && !mutated_[entry]; }
  // Such an output, placed already. (A variable may be an output, too.)
  bool IsMadeForCaller(uint32_t entry) const {
    return plan_.offset[entry] == MemoryPlan::kExternal && plan_.req[entry] == kWriteTo;
  }

  // Finds the nodes that have to run, and counts their reads. In reverse order: users first.
  void CountReads() {
    for (uint32_t id = graph_.num_nodes(); id-- > 0;) {
      const IndexedGraph::IndexedNode& indexed = graph_[id];
      const Node& node = *indexed.node;
      if (node.is_variable()) continue;
      const OpFacts& facts = node.facts();
      bool runs = !facts.mutated.empty() || facts.async;  // A client may count on an async call.
      for (uint32_t i = 0; i < node.num_outputs(); ++i) runs = runs || Wanted(indexed.first_entry + i);
      if (!runs) continue;
      plan_.skipped[id] = false;
      for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
        const uint32_t entry = indexed.inputs[i].entry;
        if (facts.Mutates(i)) mutated_[entry] = true;
        if (facts.Ignores(i)) continue;
        if (reads_[entry]++ == 0) last_reader_[entry] = id;
      }
    }
  }

  absl::Status Measure() {
    for (const IndexedGraph::IndexedNode& indexed : graph_.nodes()) {
      if (indexed.node->is_variable()) continue;
      for (uint32_t i = 0; i < indexed.node->num_outputs(); ++i) {
        const uint32_t entry = indexed.first_entry + i;
        const absl::StatusOr<int64_t> bytes = CheckedBytes(inferred_.shapes[entry], SizeOf(inferred_.types[entry]));
        if (!bytes.ok()) {
          return Annotate(bytes.status(), absl::StrCat("output ", i, " of node '", Excerpt(indexed.node->name()), "'"));
        }
        bytes_[entry] = *bytes;
        if (External(entry)) continue;
        plan_.unshared_bytes += *bytes;
        if (plan_.unshared_bytes > kMaxBytes - (kAlignment - 1)) {
          return absl::InvalidArgumentError("the graph's values take more than 2^62 bytes; use smaller shapes");
        }
      }
    }
    return absl::OkStatus();
  }

  void Place(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    if (indexed.node->is_variable()) {
      plan_.offset[indexed.first_entry] = MemoryPlan::kExternal;
      return;
    }
    if (plan_.skipped[id]) return;
    if (summed_in_place_[id]) {
      Share(indexed.first_entry, storage_of_[indexed.inputs[0].entry], kWriteInplace);
      plan_.skipped[id] = true;
    } else if (PlaceIdentity(id)) {
      plan_.skipped[id] = true;
    } else {
      for (uint32_t i = 0; i < indexed.node->num_outputs(); ++i) PlaceOutput(id, i);
    }
    for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
      if (!indexed.node->facts().Ignores(i)) Release(storage_of_[indexed.inputs[i].entry]);
    }
  }

  void PlaceOutput(uint32_t id, uint32_t output) {
    const uint32_t entry = graph_[id].first_entry + output;
    if (!Wanted(entry)) return;
    if (External(entry)) {
      plan_.offset[entry] = MemoryPlan::kExternal;
      plan_.req[entry] = kWriteTo;
    } else if (const int32_t sum = StorageToAddTo(id, entry); sum != kNoStorage) {
      summed_in_place_[last_reader_[entry]] = true;
      Share(entry, sum, kAddTo);
    } else if (const int32_t input = StorageOfDyingInput(id, output); input != kNoStorage) {
      Share(entry, input, kWriteInplace);
    } else {
      storages_.push_back({0, (bytes_[entry] + kAlignment - 1) / kAlignment * kAlignment, 0, mutated_[entry]});
      if (storages_.back().bytes > 0) storages_.back().offset = layout_.Take(storages_.back().bytes);
      Share(entry, static_cast<int32_t>(storages_.size()) - 1, kWriteTo);
    }
  }

  void Share(uint32_t entry, int32_t id, OpReqType req) {
    Storage& storage = storages_[id];
    storage_of_[entry] = id;
    storage.pending += reads_[entry];
    storage.kept = storage.kept || is_output_[entry];
    plan_.offset[entry] = storage.offset;
    plan_.req[entry] = req;
  }

  void Release(int32_t id) {
    if (id == kNoStorage) return;
    Storage& storage = storages_[id];
    if (--storage.pending == 0 && !storage.kept && storage.bytes > 0) layout_.GiveBack(storage.offset, storage.bytes);
  }

  bool SameSize(uint32_t a, uint32_t b) const {
    return inferred_.types[a] == inferred_.types[b] && inferred_.shapes[a].Size() == inferred_.shapes[b].Size();
  }

  // The output of an identity has its input's memory, however many nodes read either: as long as one is to be read,
  // nobody writes there. An output of the graph has no part in the arena, nor in a variable, which is the caller's own.
  bool PlaceIdentity(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const OpFacts& facts = indexed.node->facts();
    const uint32_t entry = indexed.first_entry;
    if (facts.num_outputs != 1 || mutated_[entry]) return false;
    for (const auto& [input, output, identity] : facts.in_place) {
      if (!identity || output != 0 || facts.Ignores(input) || facts.Mutates(input)) continue;
      const uint32_t from = indexed.inputs[input].entry;
      if (mutated_[from] || !SameSize(from, entry)) continue;
      const uint32_t owner = plan_.alias[from] >= 0 ? static_cast<uint32_t>(plan_.alias[from]) : from;
      if (is_output_[entry] && !IsMadeForCaller(owner)) continue;
      if (storage_of_[from] != kNoStorage) {
        Share(entry, storage_of_[from], kWriteInplace);
        return true;
      }
      plan_.offset[entry] = MemoryPlan::kExternal;
      plan_.req[entry] = kWriteInplace;
      plan_.alias[entry] = static_cast<int32_t>(owner);
      return true;
    }
    return false;
  }

  // The memory of an input that only this node still reads, through arguments that may all be this output's memory.
  int32_t StorageOfDyingInput(uint32_t id, uint32_t output) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const uint32_t entry = indexed.first_entry + output;
    if (mutated_[entry]) return kNoStorage;
    allowed_.clear();  // The storage of each argument that may be the output's memory.
    const OpFacts& facts = indexed.node->facts();
    for (const auto& [input, to, identity] : facts.in_place) {
      if (to != output || facts.Ignores(input)) continue;
      const uint32_t from = indexed.inputs[input].entry;
      if (storage_of_[from] != kNoStorage && SameSize(from, entry)) allowed_.push_back(storage_of_[from]);
    }
    std::sort(allowed_.begin(), allowed_.end());
    for (auto it = allowed_.begin(); it != allowed_.end();) {
      const int32_t storage = *it;
      const auto end = std::find_if(it, allowed_.end(), [=](int32_t other) { return other != storage; });
      // A storage that another output of this node has taken over is still to be read by that output's readers.
      if (static_cast<uint32_t>(end - it) == storages_[storage].pending && !storages_[storage].kept) return storage;
      it = end;
    }
    return kNoStorage;
  }

  // For a term that only a sum reads: the memory of the sum's other term, when that is there already and only the sum
  // still reads it. Adding to it makes the sum. Not where node `id` makes both: a kernel may write its outputs in any
  // order.
  int32_t StorageToAddTo(uint32_t id, uint32_t term) const {
    if (reads_[term] != 1 || is_output_[term] || mutated_[term]) return kNoStorage;
    const IndexedGraph::IndexedNode& sum = graph_[last_reader_[term]];
    if (!sum.node->facts().sum || sum.inputs.size() != 2) return kNoStorage;
    const IndexedGraph::Input& other_input = sum.inputs[sum.inputs[0].entry == term ? 1 : 0];
    if (other_input.node == id) return kNoStorage;
    const uint32_t other = other_input.entry;
    const int32_t storage = storage_of_[other];
    if (storage == kNoStorage || storages_[storage].kept || storages_[storage].pending != 1) return kNoStorage;
    if (External(sum.first_entry) || mutated_[sum.first_entry]) return kNoStorage;
    return SameSize(other, term) && SameSize(term, sum.first_entry) ? storage : kNoStorage;
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  MemoryPlan plan_;
  ArenaLayout layout_;
  std::vector<bool> summed_in_place_;  // By node: a sum that kAddTo writes.
  std::vector<int64_t> bytes_;         // By entry, as are the following.
  std::vector<uint32_t> reads_;        // By nodes that run.
  std::vector<uint32_t> last_reader_;  // Valid where reads_ is not 0.
  std::vector<bool> is_output_;
  std::vector<bool> mutated_;  // Some node writes it as its input.
  std::vector<int32_t> storage_of_;
  std::vector<Storage> storages_;
  std::vector<int32_t> allowed_;  // StorageOfDyingInput's, kept for its capacity.
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const IndexedGraph& graph, const Inferred& inferred) {
  return Planner(graph, inferred).Plan();
}

}  // namespace gluond
