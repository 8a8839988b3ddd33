// Reduce on a CPU: along x's rows by eight lanes, or by tiles of outputs.

namespace gluond::ops::reduce_internal {

template <class C>
using CpuAcc = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

// The axis that vectors run along, in tiles.
template <class C, class Body>
void ForTiles(const TBlob& x, int64_t begin, int64_t n, const Body& body) {
  alignas(64) C buffer[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = std::min(kTile, n - i);
    if (x.dtype == DTypeOf<C>) {
      body(i, count, static_cast<const C*>(x.data) + begin + i);
    } else {
      LoadTile(x, begin + i, count, buffer);
      body(i, count, static_cast<const C*>(buffer));
    }
  }
}

// Combines n elements from `begin` on with `acc`, by eight lanes.
template <class C, class R>
CpuAcc<C> Contiguous(const R& r, const TBlob& x, int64_t begin, int64_t n, CpuAcc<C> acc) {
  using A = CpuAcc<C>;
  constexpr int kLanes = 8;
  A lanes[kLanes];
  for (A& lane : lanes) lane = r.template Init<A>();
  ForTiles<C>(x, begin, n, [&](int64_t, int64_t count, const C* in) {
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = r.Combine(lanes[k], r.Map(static_cast<A>(in[j + k])));
    }
    for (; j < count; ++j) lanes[0] = r.Combine(lanes[0], r.Map(static_cast<A>(in[j])));
  });
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lanes[k] = r.Combine(lanes[k], lanes[k + step]);
  }
  return r.Combine(acc, lanes[0]);
}

// Reduces one output after the other, each along x's innermost axis.
template <class C, class R>
void InnerReduced(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, const Out<C>& y) {
  using A = CpuAcc<C>;
  const int64_t n = walk.reduced.row_size(), rows = walk.reduced.rows();
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, walk.reduced.size));
  constexpr int64_t kPieces = 64;
  if (walk.kept.size == 1 && rows == 1 && n >= kPieces * 2 * kTile) {
    A partial[kPieces];
    const int64_t piece = (n + kPieces - 1) / kPieces;
    Parallel(ctx, kPieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t from = std::min(n, p * piece);
        partial[p] = Contiguous<C>(r, x, from, std::min(piece, n - from), r.template Init<A>());
      }
    });
    A acc = r.template Init<A>();
    for (A p : partial) acc = r.Combine(acc, p);
    y.Set(0, Convert<C>(r.Final(acc, n)));
    return;
  }
  Parallel(ctx, walk.kept.size, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t base = walk.kept(o).at[0];
      A acc = r.template Init<A>();
      for (int64_t row = 0; row < rows; ++row) {
        acc = Contiguous<C>(r, x, base + walk.reduced.Row(row).at[0], n, acc);
      }
      y.Set(o, Convert<C>(r.Final(acc, walk.reduced.size)));
    }
  });
}

// Reduces a tile of outputs at a time, as x's innermost axis is kept.
template <class C, class R>
void InnerKept(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  using A = CpuAcc<C>;
  const int64_t n = walk.kept.row_size(), tiles = (n + kTile - 1) / kTile, count = walk.reduced.size;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count * std::min(n, kTile)));
  Parallel(ctx, walk.kept.rows() * tiles, grain, [&](int64_t begin, int64_t end) {
    alignas(64) A acc[kTile];
    alignas(64) C result[kTile];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t / tiles, from = t % tiles * kTile, width = std::min(kTile, n - from);
      const int64_t base = walk.kept.Row(row).at[0] + from;
      std::fill_n(acc, width, r.template Init<A>());
      for (int64_t k = 0; k < count; ++k) {
        ForTiles<C>(x, base + walk.reduced(k).at[0], width, [&](int64_t, int64_t w, const C* in) {
          for (int64_t j = 0; j < w; ++j) acc[j] = r.Combine(acc[j], r.Map(static_cast<A>(in[j])));
        });
      }
      for (int64_t j = 0; j < width; ++j) result[j] = Convert<C>(r.Final(acc[j], count));
      StoreTile(y, req, row * n + from, width, result);
    }
  });
}

template <class C, class R>
absl::Status Run(cpu, const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  if (walk.inner_reduced) {
    InnerReduced<C>(ctx, walk, r, x, Out<C>(y, req));
  } else {
    InnerKept<C>(ctx, walk, r, x, req, y);
  }
  return absl::OkStatus();
}

}  // namespace gluond::ops::reduce_internal
