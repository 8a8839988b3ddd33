// Broadcast on a CPU: by rows of the walk.

namespace gluond::ops::broadcast_internal {

// One tensor of a row of the walk: tiles in place, converted, or of one value over and over.
template <class C>
class RowTiles {
 public:
  RowTiles(const TBlob& x, int64_t stride) : x_(x), stride_(stride) {}
  void Begin(int64_t offset, int64_t n) {
    offset_ = offset;
    if (stride_ == 0) std::fill_n(tile_, std::min(n, kTile), LoadAs<C>(x_.dtype, x_.data, offset));
  }
  const C* Tile(int64_t i, int64_t n) {
    if (stride_ == 0) return tile_;
    if (x_.dtype == DTypeOf<C>) return static_cast<const C*>(x_.data) + offset_ + i;
    LoadTile(x_, offset_ + i, n, tile_);
    return tile_;
  }

 private:
  const TBlob& x_;
  const int64_t stride_;
  int64_t offset_ = 0;
  alignas(64) C tile_[kTile];
};

template <class F, class C>
void Rows(const F& f, const Walk<2>& walk, const TBlob* x, OpReqType req, const TBlob& y, int64_t begin, int64_t end) {
  const int64_t n = walk.row_size();
  const bool direct = y.dtype == DTypeOf<C> && req != kAddTo;
  RowTiles<C> a(x[0], walk.row_stride(0)), b(x[1], walk.row_stride(1));
  alignas(64) C buffer[kTile];
  const F local = f;
  for (int64_t row = begin; row < end; ++row) {
    const auto offset = walk.Row(row);
    a.Begin(offset.at[0], n);
    b.Begin(offset.at[1], n);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t count = std::min(kTile, n - i);
      const C *const u = a.Tile(i, count), *const v = b.Tile(i, count);
      C* const out = direct ? static_cast<C*>(y.data) + row * n + i : buffer;
#pragma GCC ivdep
      for (int64_t j = 0; j < count; ++j) out[j] = local(u[j], v[j]);
      if (!direct) StoreTile(y, req, row * n + i, count, out);
    }
  }
}

template <class C, class F>
absl::Status Run(cpu, const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if (x[0].shape == x[1].shape) {
    return map_internal::Run<C>(cpu(), ctx, f, x, req, y, std::make_index_sequence<2>());
  }
  const Walk<2> walk = BroadcastWalk(x, y.shape);
  const int64_t grain = std::max<int64_t>(1, kGrain / walk.row_size());
  Parallel(ctx, walk.rows(), grain, [&](int64_t begin, int64_t end) { Rows<F, C>(f, walk, x, req, y, begin, end); });
  return absl::OkStatus();
}

}  // namespace gluond::ops::broadcast_internal
