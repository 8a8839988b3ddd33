// Units of a recurrent step on a CPU: a thread for whole sequences.

namespace gluond::ops {

// Units [from, to) of sequences [begin, end).
template <class F>
void RunCells(const F& f, int64_t begin, int64_t end, int64_t from, int64_t to) {
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
absl::Status ForEachUnitOn(cpu, const OpContext& ctx, int64_t batch, const F& f) {
  constexpr int64_t kGrainUnits = 4096;  // Each costs some five exponentials.
  Parallel(ctx, batch, 1 + kGrainUnits / (f.units + 1), [&f](int64_t begin, int64_t end) { RunCells(f, begin, end, 0, f.units); });
  return absl::OkStatus();
}

}  // namespace gluond::ops
