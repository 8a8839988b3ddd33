// Units of a recurrent step on a GPU: a thread for each.

namespace gluond::ops {

template <class F>
struct RnnUnit {
  F f;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = i / f.units, j = i % f.units;
    if (f.Active(n)) {
      f(n, j);
    } else {
      f.Hold(n, j);
    }
  }
};

template <class F>
absl::Status ForEachUnitOn(gpu, const OpContext& ctx, int64_t batch, const F& f) {
  return ForEach<gpu>(ctx, batch * f.units, RnnUnit<F>{f});
}

}  // namespace gluond::ops
