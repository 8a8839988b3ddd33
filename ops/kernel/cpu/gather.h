// Slices on a CPU: whole ones.

namespace gluond::ops {
namespace {

// Copies x[o, index[i], :] to y[o, i, :]. False where that is better done element by element.
bool CopySlices(cpu, const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                const TBlob& y) {
  const In<int64_t> at(index);
  const int64_t bytes = g.inner * SizeOf(y.dtype);
  const char* const from = static_cast<const char*>(x.data);
  char* const to = static_cast<char*>(y.data);
  const int64_t grain = std::max<int64_t>(1, kGrain / g.inner);
  Parallel(ctx, g.outer * g.indices, grain, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t row = s / g.indices * g.n + Place(at[s % g.indices], g.n, mode);
      std::memcpy(to + s * bytes, from + row * bytes, static_cast<size_t>(bytes));
    }
  });
  return true;
}

absl::Status AddSlices(cpu, const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy,
                       const TBlob& index, OpReqType /*req*/, const TBlob& dx) {
  return DispatchType(dx.dtype, [&](auto t) {
    using T = decltype(t);
    using C = Acc<T>;
    const In<int64_t> at(index);
    const T* const from = static_cast<const T*>(dy.data);
    T* const to = static_cast<T*>(dx.data);
    // Each piece of work adds all slices to its own columns.
    const int64_t grain = std::max<int64_t>(16, kGrain / std::max<int64_t>(1, g.outer * g.indices));
    Parallel(ctx, g.inner, grain, [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s < g.outer * g.indices; ++s) {
        const int64_t row = s / g.indices * g.n + Place(at[s % g.indices], g.n, mode);
        const T* const u = from + s * g.inner;
        T* const v = to + row * g.inner;
        for (int64_t j = begin; j < end; ++j) v[j] = Convert<T>(WrappingAdd(Convert<C>(v[j]), Convert<C>(u[j])));
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace gluond::ops
