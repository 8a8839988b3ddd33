// Update: one step of an optimizer, element by element: f(w, g, s) sets the new weight w and states s from the old
// ones and the gradient g. States are written where they lie, the weight to an output that may be the weight itself.
//
//   struct Momentum {
//     double lr, momentum;
//     template <class C> HOST_DEVICE void operator()(C& w, C g, C* s) const { w += s[0] = C(momentum) * s[0] - C(lr)
//     * g; }
//   };
//   return Update<D, 1>(ctx, Momentum{lr, momentum}, weight, grad, {&mean}, req, out);

#ifndef OPS_KERNEL_UPDATE_H_
#define OPS_KERNEL_UPDATE_H_

#include "ops/kernel/map.h"

namespace gluond::ops {

namespace update_internal {

template <class C, int states, class F>
void UpdateRange(const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req, const TBlob& y,
                 int64_t begin, int64_t end) {
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
struct UpdateElement {
  F f;
  In<C> w, g;
  In<C> old[states == 0 ? 1 : states];
  Out<C> s[states == 0 ? 1 : states];
  Out<C> y;

  HOST_DEVICE void operator()(int64_t i) const {
    C now[states == 0 ? 1 : states];
    for (int k = 0; k < states; ++k) now[k] = old[k][i];
    C weight = w[i];
    f(weight, g[i], now);
    for (int k = 0; k < states; ++k) s[k].Set(i, now[k]);
    y.Set(i, weight);
  }
};

}  // namespace update_internal

// `s`: pointer to `states` tensors. All of one number of elements; y may be w.
template <class D, int states, class F>
absl::Status Update(const OpContext& ctx, const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req,
                    const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) {
    using C = decltype(c);
    if constexpr (std::is_same_v<D, cpu>) {
      Parallel(ctx, y.Size(), kGrain, [&](int64_t begin, int64_t end) {
        update_internal::UpdateRange<C, states>(f, w, g, s, req, y, begin, end);
      });
      return absl::OkStatus();
    } else {
      update_internal::UpdateElement<C, states, F> element{f, In<C>(w), In<C>(g), {}, {}, Out<C>(y, req)};
      for (int k = 0; k < states; ++k) {
        element.old[k] = In<C>(s[k]);
        element.s[k] = Out<C>(s[k], kWriteTo);
      }
      return ForEach<D>(ctx, y.Size(), element);
    }
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_UPDATE_H_
