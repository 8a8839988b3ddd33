// Update on a CPU: by tiles.

namespace gluond::ops::update_internal {

template <class C, int states, class F>
void UpdateRange(const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req, const TBlob& y, int64_t begin,
                 int64_t end) {
  C weight[kTile], grad[kTile], state[states == 0 ? 1 : states][kTile];
  const F local = f;
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t n = std::min(kTile, end - i);
    LoadTile(w, i, n, weight);
    LoadTile(g, i, n, grad);
    for (int k = 0; k < states; ++k) LoadTile(s[k], i, n, state[k]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      C now[states == 0 ? 1 : states];
      for (int k = 0; k < states; ++k) now[k] = state[k][j];
      local(weight[j], grad[j], now);
      for (int k = 0; k < states; ++k) state[k][j] = now[k];
    }
    StoreTile(y, req, i, n, weight);
    for (int k = 0; k < states; ++k) StoreTile(s[k], kWriteTo, i, n, state[k]);
  }
}

template <class C, int states, class F>
absl::Status Run(cpu, const OpContext& ctx, const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req,
                 const TBlob& y) {
  Parallel(ctx, y.Size(), kGrain, [&](int64_t begin, int64_t end) { UpdateRange<C, states>(f, w, g, s, req, y, begin, end); });
  return absl::OkStatus();
}

}  // namespace gluond::ops::update_internal
