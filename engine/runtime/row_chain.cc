#include "engine/runtime/row_chain.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "engine/core/batch_axis.h"
#include "engine/core/mutex.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

using Operand = RowChain::Operand;

constexpr size_t kAlign = 64;
// Most bytes that a chain's steps read whole, for each chunk, and most that one step reads and writes for a row: both stay
// in a processor's cache.
constexpr int64_t kMostWholeBytes = 1 << 20;
constexpr int64_t kMostRowBytes = 1 << 19;
// Kernels may put what they read whole into another form, and do so for each chunk where it may change: most bytes of it.
constexpr int64_t kMostFormedBytes = 1 << 16;
// Bytes that all steps read and write for a chunk, about: enough to be worth a thread's way to it.
constexpr int64_t kChunkBytes = 1 << 19;
// Where there are more, their number is a multiple of this, so that as many threads have equal parts.
constexpr int64_t kEven = 4;

int64_t RowBytes(const Shape& shape, DType dtype) { return shape.Size(1, shape.ndim()) * SizeOf(dtype); }

int64_t ChunksOf(int64_t rows, int64_t row_bytes) {
  // A row has kChunkBytes at most for each of its steps, so that the product is far from any limit.
  const int64_t wanted = std::max<int64_t>(1, std::min(rows, rows * row_bytes / kChunkBytes));
  return std::min(rows, wanted <= kEven ? wanted : (wanted - 1) / kEven * kEven + kEven);
}

// Space for one chunk, whose parts are given back and used again.
class LocalSpace {
 public:
  size_t Take(size_t bytes) {
    for (auto [at, size] : free_) {
      if (size < bytes) continue;
      free_.erase(at);
      if (size > bytes) free_[at + bytes] = size - bytes;
      return at;
    }
    return std::exchange(end_, end_ + bytes);
  }
  void Give(size_t at, size_t bytes) { free_[at] = bytes; }
  size_t bytes() const { return end_; }

 private:
  std::map<size_t, size_t> free_;  // The bytes of the free parts, by place.
  size_t end_ = 0;
};

class Finder {
 public:
  Finder(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan, const std::vector<uint32_t>& nodes)
      : graph_(graph),
        inferred_(inferred),
        plan_(plan),
        nodes_(nodes),
        made_by_(graph.num_entries(), Program::kNever),
        read_last_(graph.num_entries(), 0) {
    for (uint32_t step = 0; step < nodes.size(); ++step) {
      const IndexedGraph::IndexedNode& node = graph[nodes[step]];
      for (uint32_t i = 0; i < node.node->num_outputs(); ++i) made_by_[node.first_entry + i] = step;
      for (const IndexedGraph::Input& input : node.inputs) read_last_[input.entry] = step;
    }
    // Nobody else sees what lies in a chunk's space: no output of the graph, and no node that does not run, such as an
    // identity in place.
    for (const IndexedGraph::Input& output : graph.outputs()) read_last_[output.entry] = Program::kNever;
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      if (!plan.skipped[id]) continue;
      for (const IndexedGraph::Input& input : graph[id].inputs) read_last_[input.entry] = Program::kNever;
    }
  }

  std::vector<RowChain> Find() const {
    std::vector<RowChain> chains;
    for (uint32_t first = 0; first < nodes_.size();) {
      const uint32_t last = EndOf(first);
      if (last - first > 1) {
        RowChain chain = Make(first, last);
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
    const int batches = node.node->op()->GetAttr<TBatchInputs>("TBatchInputs", 0);
    if (batches == 0 || facts.async || facts.random || !facts.mutated.empty()) return 0;
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

  bool IsBatch(uint32_t step, uint32_t input) const {
    return static_cast<int>(input) < graph_[nodes_[step]].node->op()->GetAttr<TBatchInputs>("TBatchInputs", 0);
  }

  int64_t WholeBytes(uint32_t step) const {
    const std::vector<IndexedGraph::Input>& inputs = graph_[nodes_[step]].inputs;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const uint32_t entry = inputs[i].entry;
      if (!IsBatch(step, i)) bytes += inferred_.shapes[entry].Size() * SizeOf(inferred_.types[entry]);
    }
    return bytes;
  }

  // The end of the chain that begins with `first`.
  uint32_t EndOf(uint32_t first) const {
    const int64_t rows = RowsOf(first);
    uint32_t step = first;
    if (rows < 2) return step;
    for (int64_t whole = 0; step < nodes_.size() && RowsOf(step) == rows; ++step) {
      const std::vector<IndexedGraph::Input>& inputs = graph_[nodes_[step]].inputs;
      for (uint32_t i = 0; i < inputs.size(); ++i) {
        if (IsBatch(step, i)) continue;
        const uint32_t made = made_by_[inputs[i].entry];
        if (made != Program::kNever && made >= first) return step;  // It is whole after the chain only.
      }
      whole += WholeBytes(step);
      if (whole > kMostWholeBytes) return step;
    }
    return step;
  }

  RowChain Make(uint32_t first, uint32_t last) const {
    RowChain chain;
    chain.first = first;
    chain.last = last;
    chain.rows = RowsOf(first);
    for (uint32_t step = first; step < last; ++step) chain.whole_bytes += WholeBytes(step);
    int64_t row_bytes = 0;
    for (uint32_t step = first; step < last; ++step) {
      ForEachBatch(step, [&](uint32_t entry) { row_bytes += RowBytes(inferred_.shapes[entry], inferred_.types[entry]); });
    }
    chain.chunks = ChunksOf(chain.rows, row_bytes);
    LocalSpace space;
    std::map<uint32_t, Operand> locals;  // By entry.
    for (uint32_t step = first; step < last; ++step) {
      const IndexedGraph::IndexedNode& node = graph_[nodes_[step]];
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const uint32_t entry = node.inputs[i].entry;
        const auto local = locals.find(entry);
        chain.ins.push_back(local != locals.end() ? local->second : IsBatch(step, i) ? Rows(entry) : Operand());
      }
      for (uint32_t i = 0; i < node.node->num_outputs(); ++i) {
        const uint32_t entry = node.first_entry + i;
        Operand out = plan_.req[entry] == kNullOp ? Operand() : Rows(entry);
        if (out.kind == Operand::kRows && IsLocal(entry, last)) {
          out.kind = Operand::kLocal;
          if (const std::optional<uint32_t> in = InPlaceInput(step, i, out, locals)) {
            out.offset = locals.at(*in).offset;
            out.req = kWriteInplace;
            locals.erase(*in);
          } else {
            out.offset = space.Take(LocalBytes(out, chain));
            out.req = kWriteTo;
          }
          locals[entry] = out;
        }
        chain.outs.push_back(out);
      }
      std::erase_if(locals, [&](const auto& local) {
        if (read_last_[local.first] > step) return false;
        space.Give(local.second.offset, LocalBytes(local.second, chain));
        return true;
      });
    }
    chain.local_bytes = space.bytes();
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

  Operand Rows(uint32_t entry) const {
    Operand rows;
    rows.kind = Operand::kRows;
    rows.row_bytes = RowBytes(inferred_.shapes[entry], inferred_.types[entry]);
    return rows;
  }
  // The bytes for the most rows that a chunk has.
  static size_t LocalBytes(const Operand& operand, const RowChain& chain) {
    const int64_t rows = (chain.rows - 1) / chain.chunks + 1;
    return (static_cast<size_t>(rows * operand.row_bytes) + kAlign - 1) / kAlign * kAlign;
  }
  // An output of a step of the chain that nobody reads after it.
  bool IsLocal(uint32_t entry, uint32_t last) const { return plan_.offset[entry] >= 0 && read_last_[entry] < last; }

  // The local entry whose memory output `index` takes over.
  std::optional<uint32_t> InPlaceInput(uint32_t step, uint32_t index, const Operand& out,
                                       const std::map<uint32_t, Operand>& locals) const {
    const IndexedGraph::IndexedNode& node = graph_[nodes_[step]];
    if (plan_.req[node.first_entry + index] != kWriteInplace) return std::nullopt;
    for (const OpFacts::InPlace& pair : node.node->facts().in_place) {
      if (pair.output != index || pair.input >= node.inputs.size()) continue;
      const uint32_t entry = node.inputs[pair.input].entry;
      const auto local = locals.find(entry);
      if (plan_.offset[entry] != plan_.offset[node.first_entry + index] || local == locals.end()) continue;
      if (local->second.row_bytes == out.row_bytes) return entry;
    }
    return std::nullopt;
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const MemoryPlan& plan_;
  const std::vector<uint32_t>& nodes_;
  // By entry: steps. kNever as the last one to read it: something that is no step does.
  std::vector<uint32_t> made_by_, read_last_;
};

// The scratch space of a chunk's steps: a part of the lane's and, where that does not do, more of it.
class ChunkScratch final : public Scratch {
 public:
  ChunkScratch(char* begin, size_t bytes, Mutex* mu, Scratch* more) : begin_(begin), bytes_(bytes), mu_(mu), more_(more) {}

  absl::StatusOr<void*> Get(size_t bytes) override {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    const size_t at = std::exchange(taken_, taken_ + bytes);
    most_ = std::max(most_, taken_);
    if (taken_ <= bytes_) return begin_ + at;
    MutexLock lock(*mu_);
    return more_->Get(bytes);
  }
  void Reset() { taken_ = 0; }
  size_t most() const { return most_; }

 private:
  char* const begin_;
  const size_t bytes_;
  Mutex* const mu_;
  Scratch* const more_;
  size_t taken_ = 0, most_ = 0;
};

// One operand in memory that others see.
struct Range {
  const char* begin;
  const char* end;
  int64_t row_bytes;  // 0: it is read whole.
};

// A Worker computes chunks, one after the other: it has their memory, and the blobs of the step under way.
class Worker {
 public:
  Worker(const Program& program, const RowChain& chain, const OpContext& context, char* space, ChunkScratch* scratch)
      : program_(program), chain_(chain), context_(context), space_(space), scratch_(scratch) {
    context_.threads = nullptr;
    context_.scratch = scratch;
  }

  // Rows [begin, end). Returns the step that failed, too.
  std::pair<absl::Status, uint32_t> Compute(int64_t begin, int64_t end) {
    const uint32_t first_in = program_.steps[chain_.first].first_in, first_out = program_.steps[chain_.first].first_out;
    for (uint32_t i = chain_.first; i < chain_.last; ++i) {
      const Step& step = program_.steps[i];
      ins_.clear();
      outs_.clear();
      reqs_.clear();
      for (uint32_t k = step.first_in; k < step.first_in + step.num_in; ++k) {
        ins_.push_back(Part(program_.ins[k], chain_.ins[k - first_in], begin, end));
      }
      for (uint32_t k = step.first_out; k < step.first_out + step.num_out; ++k) {
        const Operand& out = chain_.outs[k - first_out];
        outs_.push_back(Part(program_.outs[k], out, begin, end));
        reqs_.push_back(out.kind == Operand::kLocal ? out.req : program_.reqs[k]);
      }
      scratch_->Reset();
      absl::Status status = RunKernel(step.node->attrs, context_, ins_, reqs_, outs_);
      if (!status.ok()) return {std::move(status), i};
    }
    return {absl::OkStatus(), chain_.first};
  }

 private:
  TBlob Part(TBlob blob, const Operand& operand, int64_t begin, int64_t end) const {
    if (operand.kind == Operand::kWhole) return blob;
    blob.shape[0] = end - begin;
    if (operand.kind == Operand::kLocal) {
      blob.data = space_ + operand.offset;
    } else if (blob.data != nullptr) {
      blob.data = static_cast<char*>(blob.data) + begin * operand.row_bytes;
    }
    return blob;
  }

  const Program& program_;
  const RowChain& chain_;
  OpContext context_;
  char* const space_;
  ChunkScratch* const scratch_;
  absl::InlinedVector<TBlob, 4> ins_, outs_;
  absl::InlinedVector<OpReqType, 4> reqs_;
};

}  // namespace

std::vector<RowChain> FindRowChains(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan,
                                    const std::vector<uint32_t>& nodes) {
  return Finder(graph, inferred, plan, nodes).Find();
}

bool MayComputeByRows(const Program& program, const RowChain& chain, bool has_constants) {
  if (!has_constants && chain.whole_bytes > kMostFormedBytes) return false;
  absl::InlinedVector<Range, 32> read, written;
  const auto add = [](const TBlob& blob, const Operand& operand, absl::InlinedVector<Range, 32>* ranges) {
    if (operand.kind == Operand::kLocal || blob.data == nullptr) return;
    const char* const begin = static_cast<const char*>(blob.data);
    ranges->push_back({begin, begin + blob.bytes(), operand.kind == Operand::kWhole ? 0 : operand.row_bytes});
  };
  const uint32_t first_in = program.steps[chain.first].first_in, first_out = program.steps[chain.first].first_out;
  for (size_t k = 0; k < chain.ins.size(); ++k) add(program.ins[first_in + k], chain.ins[k], &read);
  for (size_t k = 0; k < chain.outs.size(); ++k) {
    if (program.reqs[first_out + k] != kNullOp) add(program.outs[first_out + k], chain.outs[k], &written);
  }
  // The same rows in the same place are the same chunk's.
  const auto apart = [](const Range& a, const Range& b) {
    return a.end <= b.begin || b.end <= a.begin || (a.begin == b.begin && a.row_bytes == b.row_bytes && a.row_bytes > 0);
  };
  return std::all_of(written.begin(), written.end(), [&](const Range& to) {
    const auto apart_from = [&](const Range& other) { return apart(to, other); };
    return std::all_of(read.begin(), read.end(), apart_from) && std::all_of(written.begin(), written.end(), apart_from);
  });
}

int ChunksAtOnce(const RowChain& chain, const OpContext& context) {
  const int threads = context.threads == nullptr ? 1 : context.threads->count();
  return static_cast<int>(std::min<int64_t>({chain.chunks, threads, 64}));
}

absl::Status ComputeByRows(const Program& program, const OpContext& context, int at_once, void* space, RowChain* chain,
                           const Cancellation* cancellation, uint32_t* failed) {
  const size_t bytes = ChunkSpace(*chain);
  std::atomic<uint64_t> free = ~uint64_t{0} >> (64 - at_once);  // A bit for each part of the space.
  Mutex mu, scratch_mu;
  absl::Status status;  // Guarded by mu, as are *failed and chain->scratch_bytes.
  const auto run = [&](int64_t begin, int64_t end) {
    uint64_t seen = free.load();
    while (seen == 0 || !free.compare_exchange_weak(seen, seen & (seen - 1))) seen = free.load();
    const int slot = std::countr_zero(seen);
    char* const own = static_cast<char*>(space) + bytes * static_cast<size_t>(slot);
    ChunkScratch scratch(own + chain->local_bytes, bytes - chain->local_bytes, &scratch_mu, context.scratch);
    Worker worker(program, *chain, context, own, &scratch);
    std::pair<absl::Status, uint32_t> done = {absl::OkStatus(), chain->first};
    for (int64_t i = begin; i < end && done.first.ok(); ++i) {
      if (cancellation != nullptr) done.first = cancellation->Check();
      if (!done.first.ok()) break;
      done = worker.Compute(i * chain->rows / chain->chunks, (i + 1) * chain->rows / chain->chunks);
    }
    {
      MutexLock lock(mu);
      chain->scratch_bytes = std::max(chain->scratch_bytes, scratch.most());
      if (!done.first.ok() && status.ok()) std::tie(status, *failed) = std::move(done);
    }
    free.fetch_or(uint64_t{1} << slot);
  };
  if (context.threads == nullptr) {
    run(0, chain->chunks);
  } else {
    context.threads->ParallelFor(chain->chunks, 1, run, at_once);
  }
  return status;
}

}  // namespace gluond
