// Elements on a CPU: n at a time, through a buffer that stays in the first-level cache.

namespace gluond::ops {

inline constexpr int64_t kTile = 512;

// tile[j] = x[begin + j] for j in [0, n).
template <class C>
void LoadTile(const TBlob& x, int64_t begin, int64_t n, C* tile);
// y[begin + j] = tile[j], or += it.
template <class C>
void StoreTile(const TBlob& y, OpReqType req, int64_t begin, int64_t n, const C* tile);

}  // namespace gluond::ops
