// Functions that the kernels on oneDNN share. oneDNN throws; nothing that it throws leaves CallOneDnn.

#ifndef OPS_KERNEL_CPU_ONEDNN_H_
#define OPS_KERNEL_CPU_ONEDNN_H_

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "engine/core/op_context.h"
#include "engine/core/status_macros.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "ops/kernel/launch.h"

namespace gluond::ops {

inline const dnnl::engine& CpuEngine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Bytes that a primitive's code, and the arguments of one piece, take about: oneDNN does not tell.
constexpr size_t kCodeBytes = 16 << 10, kPieceBytes = 4 << 10;

inline bool HasAvx512() {
  static const bool has = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) &
                           static_cast<unsigned>(dnnl::cpu_isa::avx512_core)) == static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return has;
}

// Runs primitives before execute() returns.
inline dnnl::stream& CpuStream() {
  thread_local dnnl::stream stream(CpuEngine());
  return stream;
}

// body() -> absl::Status, with oneDNN's exceptions as INTERNAL, and RESOURCE_EXHAUSTED where it has no memory. oneDNN
// makes and runs primitives for the calling thread alone. A team of oneDNN's would wait for each of the team's threads,
// and the kernel may have put off a thread. A kernel that wants more threads cuts its work into pieces (ForEachPiece).
template <class Body>
absl::Status CallOneDnn(absl::string_view what, Body body) {
  thread_local const bool is_alone = (omp_set_num_threads(1), true);
  (void)is_alone;
  try {
    return body();
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat(what, ": oneDNN: ", error.what());
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": the host has no memory left"));
  }
}

// Temporary space of a piece, handed out bit by bit.
class PieceSpace {
 public:
  explicit PieceSpace(void* begin) : next_(static_cast<char*>(begin)) {}
  // The space that Bind takes for it.
  static size_t BytesOf(const dnnl::memory& memory) { return (memory.get_desc().get_size() + 63) / 64 * 64; }
  void Bind(dnnl::memory& memory) {
    memory.set_data_handle(next_);
    next_ += BytesOf(memory);
  }

 private:
  char* next_;
};

// Calls piece(i, PieceSpace) -> absl::Status for i in [0, n), spread over the threads, each within CallOneDnn and with
// `bytes` of temporary space, which pieces use one after the other. Returns a failure of one of them.
template <class Piece>
absl::Status ForEachPiece(const OpContext& ctx, absl::string_view what, int64_t n, size_t bytes, const Piece& piece) {
  const int slots = ctx.threads == nullptr ? 1 : static_cast<int>(std::min<int64_t>({n, ctx.threads->count(), 64}));
  char* space = nullptr;
  if (bytes > 0) {
    ASSIGN_OR_RETURN(void* const taken, ctx.scratch->Get(bytes * static_cast<size_t>(slots)));
    space = static_cast<char*>(taken);
  }
  std::atomic<uint64_t> free = ~uint64_t{0} >> (64 - slots);  // A bit for each slot.
  Mutex mu;
  absl::Status status;  // Guarded by mu.
  const auto run = [&](int64_t begin, int64_t end) {
    uint64_t seen = free.load();
    while (seen == 0 || !free.compare_exchange_weak(seen, seen & (seen - 1))) seen = free.load();
    const int slot = std::countr_zero(seen);
    for (int64_t i = begin; i < end; ++i) {
      const absl::Status done = CallOneDnn(what, [&] { return piece(i, PieceSpace(space + bytes * static_cast<size_t>(slot))); });
      if (done.ok()) continue;
      MutexLock lock(mu);
      status = done;
    }
    free.fetch_or(uint64_t{1} << slot);
  };
  Parallel(ctx, n, 1, run, slots);
  return status;
}

// The number of pieces that work of so many multiplications is cut into, none of less than `least`.
inline int64_t PiecesOf(double multiplications, double least) {
  return static_cast<int64_t>(std::clamp(multiplications / least, 1.0, 16.0));
}

// Primitives take their temporary memory from the lane, not from malloc.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Points `memory` to temporary space of its size.
inline absl::Status BindScratch(const OpContext& ctx, dnnl::memory& memory) {
  const size_t bytes = memory.get_desc().get_size();
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(bytes));
  memory.set_data_handle(space);
  return absl::OkStatus();
}

// oneDNN's memory objects want a mutable pointer to memory that they only read, too.
inline void Bind(dnnl::memory& memory, const void* data) { memory.set_data_handle(const_cast<void*>(data)); }

inline dnnl::memory Unbound(const dnnl::memory::desc& desc) { return {desc, CpuEngine(), nullptr}; }

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CPU_ONEDNN_H_
