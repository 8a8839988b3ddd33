// Update on a GPU: an element at a time.

namespace gluond::ops::update_internal {

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

template <class C, int states, class F>
absl::Status Run(gpu, const OpContext& ctx, const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req,
                 const TBlob& y) {
  UpdateElement<C, states, F> element{f, In<C>(w), In<C>(g), {}, {}, Out<C>(y, req)};
  for (int k = 0; k < states; ++k) {
    element.old[k] = In<C>(s[k]);
    element.s[k] = Out<C>(s[k], kWriteTo);
  }
  return ForEach<gpu>(ctx, y.Size(), element);
}

}  // namespace gluond::ops::update_internal
