// SliceCursor reads the protobuf wire format from the slices of a ByteBuffer, where they lie. Every read is bounded by
// the buffer's end and says whether it could be done.

#ifndef SERVER_WIRE_SLICE_CURSOR_H_
#define SERVER_WIRE_SLICE_CURSOR_H_

#include <cstdint>
#include <string>

#include "server/wire/attachments.h"

namespace gluond::server {

class SliceCursor {
 public:
  explicit SliceCursor(const Slices& slices);

  size_t position() const { return position_; }
  size_t size() const { return size_; }

  // A varint of at most 10 bytes; as a tag or a length, which protobuf reads as 32 bits, of at most 5.
  bool Varint(uint64_t* value, int most_bytes = 10);
  bool Varint32(uint64_t* value) { return Varint(value, 5); }
  // Appends the next n bytes to `out`.
  bool Copy(size_t n, std::string* out);
  // Gives references to the next n bytes. Copies only pieces so small that gRPC keeps them inline.
  bool Take(size_t n, Slices* out);

 private:
  // Calls f(slice, offset, length) for the pieces of the next n bytes.
  template <class F>
  bool ForPieces(size_t n, F f);

  const Slices& slices_;
  size_t slice_ = 0;   // The slice of the next byte.
  size_t offset_ = 0;  // The place of the next byte in that slice.
  size_t position_ = 0;
  size_t size_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_WIRE_SLICE_CURSOR_H_
