// Loops of the CPU, and how its threads share them.

// OpenMP's promise that a loop's iterations may be reordered to add up `var`.
#define SIMD_PRAGMA(text) _Pragma(#text)
#define SIMD_REDUCE(op, var) SIMD_PRAGMA(omp simd reduction(op : var))

namespace gluond::ops {

// Calls body(begin, end) over pieces of [0, n) of at least `grain`, at most `most` at a time; in place when the context
// has no threads.
template <class Body>
void Parallel(const OpContext& ctx, int64_t n, int64_t grain, const Body& body, int most = std::numeric_limits<int>::max()) {
  if (n <= 0) return;
  if (ctx.threads == nullptr || n <= grain) {
    body(int64_t{0}, n);
  } else {
    ctx.threads->ParallelFor(n, grain, body, most);
  }
}

template <class F>
absl::Status ForEachOn(cpu, const OpContext& ctx, int64_t n, const F& f, int64_t grain) {
  Parallel(ctx, n, grain, [&f](int64_t begin, int64_t end) {
    const F local = f;  // So that its members stay in registers.
    for (int64_t i = begin; i < end; ++i) local(i);
  });
  return absl::OkStatus();
}

inline constexpr int64_t kGrainBytes = int64_t{1} << 18;

inline absl::Status CopyBytes(cpu, const OpContext& ctx, const TBlob& x, const TBlob& y) {
  Parallel(ctx, static_cast<int64_t>(y.bytes()), kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(y.data) + begin, static_cast<const char*>(x.data) + begin, end - begin);
  });
  return absl::OkStatus();
}

inline absl::Status ZeroBytes(cpu, const OpContext& ctx, const TBlob& y) {
  Parallel(ctx, static_cast<int64_t>(y.bytes()), kGrainBytes,
           [&](int64_t begin, int64_t end) { std::memset(static_cast<char*>(y.data) + begin, 0, end - begin); });
  return absl::OkStatus();
}

}  // namespace gluond::ops
