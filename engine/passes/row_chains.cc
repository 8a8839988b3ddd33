#include "engine/passes/row_chains.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/core/batch_axis.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/passes/arena_layout.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

using ChainOperand = RowChain::Operand;

constexpr uint32_t kNoStep = static_cast<uint32_t>(-1);
constexpr int64_t kAlign = 64;
// Most bytes that a chain's steps read whole, for each chunk, and most that one step reads and writes for a row: both stay
// in a processor's cache.
constexpr int64_t kMostWholeBytes = 1 << 20;
constexpr int64_t kMostRowBytes = 1 << 19;
// Bytes that all steps read and write for a chunk, about: enough to be worth a thread's way to it.
constexpr int64_t kChunkBytes = 1 << 19;
// Bytes that one step reads and writes for a chunk, on average: a call of a kernel takes as long as some thousands of them.
constexpr int64_t kStepBytes = 1 << 12;
// Where there are more, their number is a multiple of this, so that as many threads have equal parts.
constexpr int64_t kEven = 4;

// How many of its first inputs the call takes in rows (TBatchInputs).
int BatchInputs(const Node& node) {
  static const OpMap<TBatchInputs> batch_inputs("TBatchInputs");
  return batch_inputs.Get(node.op(), 0);
}

int64_t RowBytes(const Shape& shape, DType dtype) { return shape.Size(1, shape.ndim()) * SizeOf(dtype); }

int64_t ChunksOf(int64_t rows, int64_t row_bytes, int64_t steps) {
  // A row has kMostRowBytes at most for each of its steps, so that the product is far from any limit.
  const int64_t bytes = rows * row_bytes;
  const int64_t wanted = std::max<int64_t>(1, std::min({rows, bytes / kChunkBytes, bytes / (steps * kStepBytes)}));
  return std::min(rows, wanted <= kEven ? wanted : (wanted - 1) / kEven * kEven + kEven);
}

class Finder {
 public:
  Finder(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan, const std::vector<bool>& apart)
      : graph_(graph),
        inferred_(inferred),
        plan_(plan),
        apart_(apart),
        made_by_(graph.num_entries(), kNoStep),
        read_last_(graph.num_entries(), 0) {
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      if (!plan.skipped[id]) nodes_.push_back(id);
    }
    for (uint32_t step = 0; step < nodes_.size(); ++step) {
      const IndexedGraph::IndexedNode& node = graph[nodes_[step]];
      for (uint32_t i = 0; i < node.node->num_outputs(); ++i) made_by_[node.first_entry + i] = step;
      for (const IndexedGraph::Input& input : node.inputs) read_last_[input.entry] = step;
    }
    // Nobody else sees what lies in a chunk's space: no output of the graph, and no node that does not run, such as an
    // identity in place.
    for (const IndexedGraph::Input& output : graph.outputs()) read_last_[output.entry] = kNoStep;
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      if (!plan.skipped[id]) continue;
      for (const IndexedGraph::Input& input : graph[id].inputs) read_last_[input.entry] = kNoStep;
    }
  }

  absl::StatusOr<std::vector<RowChain>> Find() {
    std::vector<RowChain> chains;
    for (uint32_t first = 0; first < nodes_.size();) {
      ASSIGN_OR_RETURN(const uint32_t last, EndOf(first));
      if (last - first > 1) {
        ASSIGN_OR_RETURN(RowChain chain, Make(first, last));
        if (chain.chunks > 1) chains.push_back(std::move(chain));
      }
      first = std::max(last, first + 1);
    }
    return chains;
  }

 private:
  // The rows of the step's batches; 0: it is no such step.
  int64_t RowsOf(uint32_t step) const {
    const IndexedGraph::IndexedNode& node = graph_[nodes_[step]];
    const OpFacts& facts = node.node->facts();
    const int batches = BatchInputs(*node.node);
    if (apart_[nodes_[step]] || batches == 0 || facts.async || facts.random || !facts.mutated.empty()) return 0;
    int64_t rows = -1, bytes = 0;
    const auto add = [&](uint32_t entry) {
      const Shape& shape = inferred_.shapes[entry];
      if (shape.ndim() < 2 || (rows >= 0 && shape[0] != rows)) return false;
      rows = shape[0];
      bytes += RowBytes(shape, inferred_.types[entry]);
      return bytes <= kMostRowBytes;
    };
    for (int i = 0; i < batches; ++i) {
      if (!add(node.inputs[static_cast<size_t>(i)].entry)) return 0;
    }
    for (uint32_t i = 0; i < node.node->num_outputs(); ++i) {
      const OpReqType req = plan_.req[node.first_entry + i];
      if (req == kAddTo || (req != kNullOp && !add(node.first_entry + i))) return 0;
    }
    return rows;
  }

  bool IsBatch(uint32_t step, uint32_t input) const { return static_cast<int>(input) < BatchInputs(*graph_[nodes_[step]].node); }

  int64_t WholeBytes(uint32_t step) const {
    const absl::Span<const IndexedGraph::Input> inputs = graph_[nodes_[step]].inputs;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const uint32_t entry = inputs[i].entry;
      if (!IsBatch(step, i)) bytes += inferred_.shapes[entry].Size() * SizeOf(inferred_.types[entry]);
    }
    return bytes;
  }

  // The end of the chain that begins with `first`.
  absl::StatusOr<uint32_t> EndOf(uint32_t first) {
    const int64_t rows = RowsOf(first);
    uint32_t step = first;
    if (rows < 2) return step;
    for (int64_t whole = 0; step < nodes_.size() && RowsOf(step) == rows; ++step) {
      const absl::Span<const IndexedGraph::Input> inputs = graph_[nodes_[step]].inputs;
      RETURN_IF_ERROR(work_.Add(1 + inputs.size()));
      for (uint32_t i = 0; i < inputs.size(); ++i) {
        if (IsBatch(step, i)) continue;
        const uint32_t made = made_by_[inputs[i].entry];
        if (made != kNoStep && made >= first) return step;  // It is whole after the chain only.
      }
      whole += WholeBytes(step);
      if (whole > kMostWholeBytes) return step;
    }
    return step;
  }

  absl::StatusOr<RowChain> Make(uint32_t first, uint32_t last) {
    RowChain chain;
    chain.first = first;
    chain.last = last;
    chain.rows = RowsOf(first);
    for (uint32_t step = first; step < last; ++step) chain.whole_bytes += WholeBytes(step);
    int64_t row_bytes = 0;
    for (uint32_t step = first; step < last; ++step) {
      ForEachBatch(step, [&](uint32_t entry) { row_bytes += RowBytes(inferred_.shapes[entry], inferred_.types[entry]); });
    }
    chain.chunks = ChunksOf(chain.rows, row_bytes, last - first);
    ArenaLayout space;
    Locals locals;
    const auto give_back = [&](const ChainOperand& local) {
      if (const int64_t bytes = LocalBytes(local, chain); bytes > 0) space.GiveBack(static_cast<int64_t>(local.offset), bytes);
    };
    for (uint32_t step = first; step < last; ++step) {
      const IndexedGraph::IndexedNode& node = graph_[nodes_[step]];
      RETURN_IF_ERROR(work_.Add(1 + node.inputs.size()));
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const uint32_t entry = node.inputs[i].entry;
        const auto local = locals.find(entry);
        chain.ins.push_back(local != locals.end() ? local->second : IsBatch(step, i) ? Rows(entry) : ChainOperand());
      }
      for (uint32_t i = 0; i < node.node->num_outputs(); ++i) {
        const uint32_t entry = node.first_entry + i;
        ChainOperand out = plan_.req[entry] == kNullOp ? ChainOperand() : Rows(entry);
        if (out.kind == ChainOperand::kRows && IsLocal(entry, last)) {
          out.kind = ChainOperand::kLocal;
          if (const auto in = TakenOver(step, entry, out, locals); in != locals.end()) {
            out.offset = in->second.offset;
            out.req = kWriteInplace;
            locals.erase(in);
          } else {
            const int64_t bytes = LocalBytes(out, chain);
            out.offset = bytes > 0 ? static_cast<size_t>(space.Take(bytes)) : 0;
            out.req = kWriteTo;
          }
          if (read_last_[entry] > step) locals[entry] = out;
        }
        chain.outs.push_back(out);
      }
      for (uint32_t i = 0; i < node.node->num_outputs(); ++i) {  // Nobody reads these.
        const ChainOperand& out = chain.outs[chain.outs.size() - node.node->num_outputs() + i];
        if (out.kind == ChainOperand::kLocal && read_last_[node.first_entry + i] <= step) give_back(out);
      }
      for (const IndexedGraph::Input& input : node.inputs) {
        const auto local = locals.find(input.entry);
        if (local == locals.end() || read_last_[input.entry] > step) continue;
        give_back(local->second);
        locals.erase(local);
      }
    }
    chain.local_bytes = static_cast<size_t>(space.bytes());
    return chain;
  }

  template <class Body>
  void ForEachBatch(uint32_t step, const Body& body) const {
    const IndexedGraph::IndexedNode& node = graph_[nodes_[step]];
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      if (IsBatch(step, i)) body(node.inputs[i].entry);
    }
    for (uint32_t i = 0; i < node.node->num_outputs(); ++i) {
      if (plan_.req[node.first_entry + i] != kNullOp) body(node.first_entry + i);
    }
  }

  ChainOperand Rows(uint32_t entry) const {
    ChainOperand rows;
    rows.kind = ChainOperand::kRows;
    rows.row_bytes = RowBytes(inferred_.shapes[entry], inferred_.types[entry]);
    return rows;
  }
  // The bytes for the most rows that a chunk has.
  static int64_t LocalBytes(const ChainOperand& operand, const RowChain& chain) {
    const int64_t rows = (chain.rows - 1) / chain.chunks + 1;
    return (rows * operand.row_bytes + kAlign - 1) / kAlign * kAlign;
  }
  // An output of a step of the chain that nobody reads after it.
  bool IsLocal(uint32_t entry, uint32_t last) const { return plan_.offset[entry] >= 0 && read_last_[entry] < last; }

  using Locals = absl::flat_hash_map<uint32_t, ChainOperand>;  // By entry: what later steps read.

  // The input whose memory the plan gives to the output `entry`, where that input is local, too.
  Locals::iterator TakenOver(uint32_t step, uint32_t entry, const ChainOperand& out, Locals& locals) const {
    if (plan_.req[entry] != kWriteInplace) return locals.end();
    for (const IndexedGraph::Input& input : graph_[nodes_[step]].inputs) {
      if (plan_.offset[input.entry] != plan_.offset[entry]) continue;
      const auto local = locals.find(input.entry);
      if (local != locals.end() && local->second.row_bytes == out.row_bytes && out.row_bytes > 0) return local;
    }
    return locals.end();
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const MemoryPlan& plan_;
  const std::vector<bool>& apart_;
  PassWork work_;
  std::vector<uint32_t> nodes_;  // By step.
  // By entry: steps. kNoStep as the last one to read it: something that is no step does.
  std::vector<uint32_t> made_by_, read_last_;
};

}  // namespace

absl::StatusOr<std::vector<RowChain>> FindRowChains(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan,
                                                    const std::vector<bool>& apart) {
  return Finder(graph, inferred, plan, apart).Find();
}

}  // namespace gluond
