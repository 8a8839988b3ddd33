// Map on a CPU: by tiles, in the type that f computes in.

namespace gluond::ops::map_internal {

template <class F, class C, size_t... k>
void MapRange(const F& f, const TBlob* x, OpReqType req, const TBlob& y, int64_t begin, int64_t end, std::index_sequence<k...>) {
  constexpr size_t kInputs = sizeof...(k);
  alignas(64) C buffer[kInputs + 1][kTile];
  const bool direct = y.dtype == DTypeOf<C> && req != kAddTo;
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t n = std::min(kTile, end - i);
    const auto load = [&](size_t input) -> const C* {
      if (x[input].dtype == DTypeOf<C>) return static_cast<const C*>(x[input].data) + i;
      LoadTile(x[input], i, n, buffer[input]);
      return buffer[input];
    };
    C* const out = direct ? static_cast<C*>(y.data) + i : buffer[kInputs];
    if constexpr (std::is_same_v<F, Identity>) {  // Elements go through one buffer at most.
      direct ? LoadTile(x[0], i, n, out) : StoreTile(y, req, i, n, load(0));
      continue;
    }
    const C* const in[kInputs + 1] = {load(k)..., nullptr};
    const F local = f;  // So that its members stay in registers.
                        // An output that is also an input is so element by element.
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) out[j] = local(in[k][j]...);
    if (!direct) StoreTile(y, req, i, n, out);
  }
}

template <class C, class F, size_t... k>
absl::Status Run(cpu, const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y,
                 std::index_sequence<k...> inputs) {
  Parallel(ctx, y.Size(), kGrain, [&](int64_t begin, int64_t end) { MapRange<F, C>(f, x, req, y, begin, end, inputs); });
  return absl::OkStatus();
}

}  // namespace gluond::ops::map_internal
