#include "engine/passes/plan_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/arena_layout.h"
#include "engine/passes/in_place.h"
#include "engine/passes/pass_work.h"

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
  Planner(const IndexedGraph& graph, const Inferred& inferred, size_t num_first)
      : graph_(graph), inferred_(inferred), num_first_(num_first) {
    const uint32_t entries = graph.num_entries();
    plan_.offset.assign(entries, MemoryPlan::kNone);
    plan_.req.assign(entries, kNullOp);
    plan_.alias.assign(entries, -1);
    plan_.skipped.assign(graph.num_nodes(), true);
    bytes_.resize(entries);
    reads_.resize(entries);
    last_reader_.resize(entries);
    is_output_.resize(entries);
    is_early_.resize(entries);
    mutated_.resize(entries);
    storage_of_.assign(entries, kNoStorage);
    summed_in_place_.resize(graph.num_nodes());
  }

  absl::StatusOr<MemoryPlan> Plan() {
    for (const IndexedGraph::Input& output : graph_.outputs()) is_output_[output.entry] = true;
    FindEarly();
    RETURN_IF_ERROR(CountReads());
    RETURN_IF_ERROR(Measure());
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      RETURN_IF_ERROR(work_.Add(1 + graph_[id].inputs.size()));
      Place(id);
    }
    plan_.arena_bytes = layout_.bytes();
    return std::move(plan_);
  }

 private:
  bool Wanted(uint32_t entry) const { return reads_[entry] > 0 || is_output_[entry]; }
  // Nobody writes such an output again: it may lie where the caller wants it as soon as it is made.
  bool External(uint32_t entry) const { return is_output_[entry] && !mutated_[entry] && !is_early_[entry]; }
  // Such an output, placed already. (A variable may be an output, too.)
  bool IsMadeForCaller(uint32_t entry) const {
    return plan_.offset[entry] == MemoryPlan::kExternal && plan_.req[entry] == kWriteTo;
  }

  // The nodes that the first outputs need come before all others.
  void FindEarly() {
    const auto first = absl::MakeConstSpan(graph_.outputs()).first(num_first_),
               rest = absl::MakeConstSpan(graph_.outputs()).subspan(num_first_);
    uint32_t end = 0;
    for (const IndexedGraph::Input& output : first) end = std::max(end, output.node + 1);
    for (const IndexedGraph::Input& output : rest) is_early_[output.entry] = output.node < end;
    for (const IndexedGraph::Input& output : first) is_early_[output.entry] = false;
  }

  // Finds the nodes that have to run, and counts their reads. In reverse order: users first.
  absl::Status CountReads() {
    for (uint32_t id = graph_.num_nodes(); id-- > 0;) {
      const IndexedGraph::IndexedNode& indexed = graph_[id];
      RETURN_IF_ERROR(work_.Add(1 + indexed.inputs.size()));
      const Node& node = *indexed.node;
      if (node.is_variable()) continue;
      const OpFacts& facts = node.facts();
      bool runs = !facts.mutated.empty() || facts.async;  // A client may count on an async call.
      for (uint32_t i = 0; i < node.num_outputs(); ++i) runs = runs || Wanted(indexed.first_entry + i);
      if (!runs) continue;
      plan_.skipped[id] = false;
      for (const uint32_t i : facts.mutated) {
        if (i < indexed.inputs.size()) mutated_[indexed.inputs[i].entry] = true;
      }
      ForEachRead(indexed, [&](uint32_t entry) {
        if (reads_[entry]++ == 0) last_reader_[entry] = id;
      });
    }
    return absl::OkStatus();
  }

  // Calls read(entry) for each input that the node does not ignore.
  template <class Read>
  void ForEachRead(const IndexedGraph::IndexedNode& indexed, const Read& read) {
    const std::vector<uint32_t>& ignored = indexed.node->facts().ignored;
    ignored_.assign(ignored.empty() ? 0 : indexed.inputs.size(), false);
    for (const uint32_t i : ignored) {
      if (i < ignored_.size()) ignored_[i] = true;
    }
    for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
      if (ignored_.empty() || !ignored_[i]) read(indexed.inputs[i].entry);
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
    ForEachRead(indexed, [this](uint32_t entry) { Release(storage_of_[entry]); });
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
    return FitTogether(inferred_.shapes[a], inferred_.types[a], inferred_.shapes[b], inferred_.types[b]);
  }

  // The output of an identity has its input's memory, however many nodes read either: as long as one is to be read,
  // nobody writes there. An output of the graph has no part in the arena, nor in a variable, which is the caller's own.
  bool PlaceIdentity(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const uint32_t entry = indexed.first_entry;
    if (mutated_[entry]) return false;
    const auto owner_of = [this](uint32_t from) {
      return plan_.alias[from] >= 0 ? static_cast<uint32_t>(plan_.alias[from]) : from;
    };
    const std::optional<uint32_t> input = InputOfIdentity(indexed.node->facts(), [&](uint32_t i) {
      const uint32_t from = indexed.inputs[i].entry;
      return !mutated_[from] && SameSize(from, entry) && (!is_output_[entry] || IsMadeForCaller(owner_of(from)));
    });
    if (!input.has_value()) return false;
    const uint32_t from = indexed.inputs[*input].entry;
    if (storage_of_[from] != kNoStorage) {
      Share(entry, storage_of_[from], kWriteInplace);
      return true;
    }
    plan_.offset[entry] = MemoryPlan::kExternal;
    plan_.req[entry] = kWriteInplace;
    plan_.alias[entry] = static_cast<int32_t>(owner_of(from));
    return true;
  }

  // The memory of an input that only this node still reads.
  int32_t StorageOfDyingInput(uint32_t id, uint32_t output) const {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const uint32_t entry = indexed.first_entry + output;
    int32_t found = kNoStorage;
    if (mutated_[entry]) return found;
    const auto storage_of = [&](uint32_t input) -> std::optional<uint32_t> {
      const uint32_t from = indexed.inputs[input].entry;
      const int32_t storage = storage_of_[from];
      if (storage == kNoStorage || storages_[storage].kept || !SameSize(from, entry)) return std::nullopt;
      return static_cast<uint32_t>(storage);
    };
    // A storage that another output of this node has taken over is still to be read by that output's readers.
    const auto reads_left = [&](uint32_t storage) { return storages_[storage].pending; };
    ForEachPlaceToTakeOver(indexed.node->facts(), output, storage_of, reads_left, [&](uint32_t storage) {
      if (found == kNoStorage) found = static_cast<int32_t>(storage);
    });
    return found;
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
  const size_t num_first_;
  MemoryPlan plan_;
  ArenaLayout layout_;
  std::vector<bool> summed_in_place_;  // By node: a sum that kAddTo writes.
  std::vector<int64_t> bytes_;         // By entry, as are the following.
  std::vector<uint32_t> reads_;        // By nodes that run.
  std::vector<uint32_t> last_reader_;  // Valid where reads_ is not 0.
  std::vector<bool> is_output_;
  std::vector<bool> is_early_;  // An output that is made before the caller tells where it is to lie.
  std::vector<bool> mutated_;   // Some node writes it as its input.
  std::vector<int32_t> storage_of_;
  std::vector<Storage> storages_;
  std::vector<bool> ignored_;  // ForEachRead's, kept for its capacity.
  PassWork work_;
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const IndexedGraph& graph, const Inferred& inferred, size_t num_first) {
  return Planner(graph, inferred, num_first).Plan();
}

}  // namespace gluond
