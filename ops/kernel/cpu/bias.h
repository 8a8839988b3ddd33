// A bias on a CPU: by tiles.

namespace gluond::ops {

template <class C>
absl::Status AddToRowsOn(cpu, const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  const int64_t cols = bias.Size();
  Parallel(ctx, y.Size() / cols, 1 + kGrain / cols, [&](int64_t begin, int64_t end) {
    C tile[kTile];
    for (int64_t col = 0; col < cols; col += kTile) {
      const int64_t n = std::min(kTile, cols - col);
      LoadTile(bias, col, n, tile);
      for (int64_t row = begin; row < end; ++row) StoreTile(y, kAddTo, row * cols + col, n, tile);
    }
  });
  return absl::OkStatus();
}

}  // namespace gluond::ops
