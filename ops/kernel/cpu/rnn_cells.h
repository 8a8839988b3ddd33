// Units of a recurrent step on a CPU: a thread for whole sequences.

namespace gluond::ops {

template <class F>
absl::Status ForEachUnitOn(cpu, const OpContext& ctx, int64_t batch, const F& f) {
  constexpr int64_t kGrainUnits = 4096;  // Each costs some five exponentials.
  Parallel(ctx, batch, 1 + kGrainUnits / (f.units + 1), [&f](int64_t begin, int64_t end) {
    const F local = f;
    for (int64_t n = begin; n < end; ++n) {
      if (local.Active(n)) {
#pragma GCC ivdep
        for (int64_t j = 0; j < local.units; ++j) local(n, j);
      } else {
        for (int64_t j = 0; j < local.units; ++j) local.Hold(n, j);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace gluond::ops
