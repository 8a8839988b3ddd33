#include "engine/runtime/row_chain.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "engine/core/mutex.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

using Operand = RowChain::Operand;

constexpr size_t kAlign = 64;
// Kernels may put what they read whole into another form, and do so for each chunk where it may change: most bytes of it.
constexpr int64_t kMostFormedBytes = 1 << 16;

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
  bool written;
};

// A Worker computes chunks, one after the other: it has their memory, and the blobs of the step under way.
class Worker {
 public:
  Worker(const Program& program, const RowChain& chain, const OpContext& context, KernelCache* kernels, char* space,
         ChunkScratch* scratch)
      : program_(program), chain_(chain), context_(context), space_(space), scratch_(scratch) {
    context_.threads = nullptr;
    context_.scratch = scratch;
    context_.kernels = kernels;
  }

  // Rows [begin, end). Returns the step that failed, too.
  std::pair<absl::Status, uint32_t> Compute(int64_t begin, int64_t end) {
    for (uint32_t i = chain_.first; i < chain_.last; ++i) {
      Bind(program_.steps[i], begin, end);
      scratch_->Reset();
      absl::Status status = RunKernel(program_.steps[i].node->attrs, context_, ins_, reqs_, outs_);
      if (!status.ok()) return {std::move(status), i};
    }
    return {absl::OkStatus(), chain_.first};
  }

  // Prepares the kernels for so many rows. Errors as Program::Prepare's.
  absl::Status Prepare(int64_t rows) {
    for (uint32_t i = chain_.first; i < chain_.last; ++i) {
      Bind(program_.steps[i], 0, rows);
      RETURN_IF_ERROR(Program::PrepareCall(*program_.steps[i].node, context_, ins_, reqs_, outs_));
    }
    return absl::OkStatus();
  }

 private:
  // The step's operands for rows [begin, end).
  void Bind(const Step& step, int64_t begin, int64_t end) {
    const uint32_t first_in = program_.steps[chain_.first].first_in, first_out = program_.steps[chain_.first].first_out;
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
  }
  TBlob Part(TBlob blob, const Operand& operand, int64_t begin, int64_t end) const {
    if (operand.kind == Operand::kWhole) return blob;
    blob.shape[0] = end - begin;
    if (operand.kind == Operand::kLocal) {
      blob.data = space_ == nullptr ? nullptr : space_ + operand.offset;
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

bool MayComputeByRows(const Program& program, const RowChain& chain, bool has_constants) {
  if (!has_constants && chain.whole_bytes > kMostFormedBytes) return false;
  absl::InlinedVector<Range, 32> ranges;
  const auto add = [&ranges](const TBlob& blob, const Operand& operand, bool written) {
    if (operand.kind == Operand::kLocal || blob.data == nullptr || blob.bytes() == 0) return;
    const char* const begin = static_cast<const char*>(blob.data);
    ranges.push_back({begin, begin + blob.bytes(), operand.kind == Operand::kWhole ? 0 : operand.row_bytes, written});
  };
  const uint32_t first_in = program.steps[chain.first].first_in, first_out = program.steps[chain.first].first_out;
  for (size_t k = 0; k < chain.ins.size(); ++k) add(program.ins[first_in + k], chain.ins[k], false);
  for (size_t k = 0; k < chain.outs.size(); ++k) {
    if (program.reqs[first_out + k] != kNullOp) add(program.outs[first_out + k], chain.outs[k], true);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // Ranges that overlap, one with the next, are a group. Where one of them is written, all must be the same rows in the same
  // place: these are the same chunk's.
  for (size_t first = 0, last; first < ranges.size(); first = last) {
    const char* end = ranges[first].end;
    bool written = false, same = true;
    for (last = first; last < ranges.size() && ranges[last].begin < end; ++last) {
      const Range& range = ranges[last];
      end = std::max(end, range.end);
      written = written || range.written;
      same = same && range.begin == ranges[first].begin && range.row_bytes == ranges[first].row_bytes && range.row_bytes > 0;
    }
    if (written && !same) return false;
  }
  return true;
}

int ChunksAtOnce(const RowChain& chain, const OpContext& context) {
  const int threads = context.threads == nullptr ? 1 : context.threads->count();
  return static_cast<int>(std::min<int64_t>({chain.chunks, threads, 64}));
}

absl::Status PrepareByRows(Program* program, const RowChain& chain, const OpContext& context) {
  const int at_once = ChunksAtOnce(chain, context);
  program->GrowChunkKernels(at_once);
  for (int chunk = 0; chunk < at_once; ++chunk) {
    Worker worker(*program, chain, context, &program->chunk_kernels[static_cast<size_t>(chunk)], nullptr, nullptr);
    // Some chunks have one row more where the rows do not divide evenly.
    for (int64_t rows = chain.rows / chain.chunks; rows <= (chain.rows - 1) / chain.chunks + 1; ++rows) {
      RETURN_IF_ERROR(worker.Prepare(rows));
    }
  }
  return absl::OkStatus();
}

absl::Status ComputeByRows(Program* program, const OpContext& context, int at_once, void* space, RowChain* chain,
                           const Cancellation* cancellation, uint32_t* failed) {
  const size_t bytes = ChunkSpace(*chain);
  program->GrowChunkKernels(at_once);
  std::atomic<uint64_t> free = ~uint64_t{0} >> (64 - at_once);  // A bit for each part of the space.
  Mutex mu, scratch_mu;
  absl::Status status;  // Guarded by mu, as are *failed and chain->scratch_bytes.
  const auto run = [&](int64_t begin, int64_t end) {
    uint64_t seen = free.load();
    while (seen == 0 || !free.compare_exchange_weak(seen, seen & (seen - 1))) seen = free.load();
    const int slot = std::countr_zero(seen);
    char* const own = static_cast<char*>(space) + bytes * static_cast<size_t>(slot);
    ChunkScratch scratch(own + chain->local_bytes, bytes - chain->local_bytes, &scratch_mu, context.scratch);
    Worker worker(*program, *chain, context, &program->chunk_kernels[static_cast<size_t>(slot)], own, &scratch);
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
