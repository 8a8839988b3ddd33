// Update on a CPU: by tiles. Threads share the tiles of all weights, so that many small weights are one loop, and each element
// has the same place in its tile whichever weights stand beside.

#include "absl/container/inlined_vector.h"

namespace gluond::ops::update_internal {

template <class C, class F>
void UpdateRange(const F& f, const TBlob* x, OpReqType req, const TBlob& y, int64_t begin, int64_t end) {
  constexpr int kStates = F::kStates, kSpace = kStates == 0 ? 1 : kStates;
  C weight[kTile], grad[kTile], state[kSpace][kTile];
  const TBlob* const s = x + F::kFirstState;
  const F local = f;
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t n = std::min(kTile, end - i);
    LoadTile(x[F::kWeight], i, n, weight);
    LoadTile(x[1], i, n, grad);
    for (int k = 0; k < kStates; ++k) LoadTile(s[k], i, n, state[k]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      C now[kSpace];
      for (int k = 0; k < kStates; ++k) now[k] = state[k][j];
      local(weight[j], grad[j], now);
      for (int k = 0; k < kStates; ++k) state[k][j] = now[k];
    }
    StoreTile(y, req, i, n, weight);
    for (int k = 0; k < kStates; ++k) StoreTile(s[k], kWriteTo, i, n, state[k]);
  }
}

template <class C, class F, class Make>
absl::Status Run(cpu, const OpContext& ctx, const Make& make, const TBlob* in, absl::Span<const OpReqType> req,
                 absl::Span<const TBlob> out) {
  absl::InlinedVector<int64_t, 64> first = {0};  // Weight k has the tiles from first[k] to first[k + 1].
  for (size_t k = 0; k < out.size(); ++k) {
    first.push_back(first.back() + (req[k] == kNullOp ? 0 : (out[k].Size() + kTile - 1) / kTile));
  }
  Parallel(ctx, first.back(), kGrain / kTile, [&](int64_t begin, int64_t end) {
    for (size_t k = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1; first[k] < end; ++k) {
      const int64_t from = std::max(begin, first[k]), to = std::min(end, first[k + 1]);
      if (from >= to) continue;
      const TBlob* const x = in + k * F::kInputs;
      UpdateRange<C, F>(make(static_cast<int64_t>(k), x), x, req[k], out[k], (from - first[k]) * kTile,
                        std::min((to - first[k]) * kTile, out[k].Size()));
    }
  });
  return absl::OkStatus();
}

}  // namespace gluond::ops::update_internal
