// Attachments: the large byte fields of one message, kept beside it. The bytes of a tensor never pass through protobuf. On
// the way in they stay in the slices that gRPC received (wire_message.h takes them out). On the way out they are slices that
// hold a reference to the tensor's memory. In the message stands a short placeholder, which a client cannot make, since the
// placeholder holds a random number of this process.
//
//   const Bytes bytes = attachments.Get(tensor.raw());     // The field's bytes, wherever they are.
//   tensor.set_raw(attachments.Add(std::move(slice)));

#ifndef SERVER_WIRE_ATTACHMENTS_H_
#define SERVER_WIRE_ATTACHMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "grpcpp/support/slice.h"

namespace gluond::server {

using Slices = std::vector<grpc::Slice>;

// A view of bytes that lie in one or more pieces. Valid as long as the message and its Attachments.
class Bytes {
 public:
  explicit Bytes(absl::string_view bytes) : size_(bytes.size()) { pieces_.push_back(bytes); }
  explicit Bytes(const Slices& slices);

  size_t size() const { return size_; }
  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  // Where the bytes lie, or nullptr when they lie in several pieces.
  const char* contiguous() const { return pieces_.size() == 1 ? pieces_[0].data() : nullptr; }
  void CopyTo(void* to) const;
  // Leaves out the first `size` bytes, of which there are as many.
  void RemovePrefix(size_t size);
  uint32_t Crc32c() const;

 private:
  absl::InlinedVector<absl::string_view, 1> pieces_;
  size_t size_ = 0;
};

class Attachments {
 public:
  static constexpr size_t kPlaceholderSize = 20;

  // Returns the placeholder that stands for the bytes.
  std::string Add(Slices slices);
  std::string Add(grpc::Slice slice) { return Add(Slices{std::move(slice)}); }

  // The bytes that `field` stands for; nullptr when it is not a placeholder, but the bytes themselves.
  const Slices* Find(absl::string_view field) const;
  Bytes Get(absl::string_view field) const;

  bool empty() const { return attached_.empty(); }
  size_t size() const { return attached_.size(); }
  // Replaces the placeholders in `text`, a serialized message, by the lengths and checksums of the fields' bytes.
  void Summarize(std::string* text) const;

 private:
  std::vector<Slices> attached_;
};

}  // namespace gluond::server

#endif  // SERVER_WIRE_ATTACHMENTS_H_
