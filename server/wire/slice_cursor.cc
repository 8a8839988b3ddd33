#include "server/wire/slice_cursor.h"

#include <algorithm>

namespace gluond::server {

SliceCursor::SliceCursor(const Slices& slices) : slices_(slices) {
  for (const grpc::Slice& slice : slices) size_ += slice.size();
}

template <class F>
bool SliceCursor::ForPieces(size_t n, F f) {
  if (n > size_ - position_) return false;
  position_ += n;
  while (n > 0) {
    const grpc::Slice& slice = slices_[slice_];
    const size_t length = std::min(n, slice.size() - offset_);
    if (length > 0) f(slice, offset_, length);
    n -= length;
    offset_ += length;
    if (offset_ == slice.size()) {
      ++slice_;
      offset_ = 0;
    }
  }
  return true;
}

bool SliceCursor::Varint(uint64_t* value, int most_bytes) {
  *value = 0;
  for (int shift = 0; shift < 7 * most_bytes; shift += 7) {
    uint8_t byte = 0;
    if (!ForPieces(1, [&](const grpc::Slice& s, size_t offset, size_t) { byte = s.begin()[offset]; })) return false;
    *value |= uint64_t{byte & 0x7fu} << (shift < 63 ? shift : 63);
    if (byte < 0x80) return true;
  }
  return false;
}

bool SliceCursor::Copy(size_t n, std::string* out) {
  return ForPieces(n, [&](const grpc::Slice& s, size_t offset, size_t length) {
    out->append(reinterpret_cast<const char*>(s.begin()) + offset, length);
  });
}

bool SliceCursor::Take(size_t n, Slices* out) {
  return ForPieces(n, [&](const grpc::Slice& s, size_t offset, size_t length) {
    const grpc_slice whole = s.c_slice();  // Holds a reference of its own.
    out->emplace_back(grpc_slice_sub(whole, offset, offset + length), grpc::Slice::STEAL_REF);
    grpc_slice_unref(whole);
  });
}

}  // namespace gluond::server
