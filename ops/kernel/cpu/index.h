// A CPU's look at indices.

namespace gluond::ops {

template <>
inline absl::StatusOr<int64_t> FirstOutside<cpu>(const OpContext&, const TBlob& indices, int64_t low, int64_t high) {
  const In<int64_t> index(indices);
  for (int64_t i = 0; i < indices.Size(); ++i) {
    if (index[i] < low || index[i] >= high) return i;
  }
  return -1;
}

template <>
inline absl::StatusOr<int64_t> IndexAt<cpu>(const OpContext&, const TBlob& indices, int64_t i) {
  return In<int64_t>(indices)[i];
}

}  // namespace gluond::ops
