// Units of a recurrent step on a CPU: a thread for whole sequences. Cells that are bound by arithmetic take two thirds of the
// time with AVX-512; the others wait for memory, and wider vectors cross more lines of the cache.

#include "ops/kernel/cpu/onednn.h"

namespace gluond::ops {

// Units [from, to) of sequences [begin, end), in the instructions of the function that this becomes a part of.
template <class F>
[[gnu::always_inline]] inline void RunCellsHere(const F& f, int64_t begin, int64_t end, int64_t from, int64_t to) {
  const F local = f;  // So that its members stay in registers.
  for (int64_t n = begin; n < end; ++n) {
    if (local.Active(n)) {
#pragma GCC ivdep
      for (int64_t j = from; j < to; ++j) local(n, j);
    } else {
      for (int64_t j = from; j < to; ++j) local.Hold(n, j);
    }
  }
}

template <class F>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void RunCellsAvx512(const F& f, int64_t begin, int64_t end,
                                                                                  int64_t from, int64_t to) {
  RunCellsHere(f, begin, end, from, to);
}

template <class F>
void RunCells(const F& f, int64_t begin, int64_t end, int64_t from, int64_t to) {
  if constexpr (F::kIsBoundByArithmetic) {
    if (HasAvx512()) return RunCellsAvx512(f, begin, end, from, to);
  }
  RunCellsHere(f, begin, end, from, to);
}

template <class F>
absl::Status ForEachUnitOn(cpu, const OpContext& ctx, int64_t batch, const F& f) {
  constexpr int64_t kGrainUnits = 4096;  // Each costs some five exponentials.
  Parallel(ctx, batch, 1 + kGrainUnits / (f.units + 1), [&f](int64_t begin, int64_t end) { RunCells(f, begin, end, 0, f.units); });
  return absl::OkStatus();
}

}  // namespace gluond::ops
