// Commands as bytes. Frequent ones are written by hand: a message object would cost more than the call.

#ifndef GLUOND_CLIENT_CPP_SESSION_WIRE_H_
#define GLUOND_CLIENT_CPP_SESSION_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"

namespace gluond::client {

inline void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// A field of a number.
inline void AppendNumber(int field, uint64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3, out);
  AppendVarint(value, out);
}

// The head of a field of so many bytes, which follow it.
inline void AppendHead(int field, size_t size, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(size, out);
}

inline void AppendBytes(int field, absl::string_view bytes, std::string* out) {
  AppendHead(field, bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

// A repeated field of numbers, packed.
inline void AppendPacked(int field, absl::Span<const uint64_t> values, std::string* out) {
  if (values.empty()) return;
  std::string packed;
  for (const uint64_t value : values) AppendVarint(value, &packed);
  AppendBytes(field, packed, out);
}

// A Command that has the message as its field number `field`.
inline std::string CommandOf(int field, absl::string_view message) {
  std::string command;
  command.reserve(message.size() + 12);
  AppendBytes(field, message, &command);
  return command;
}

inline std::string CommandOf(int field, const google::protobuf::MessageLite& message) {
  return CommandOf(field, message.SerializeAsString());
}

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_WIRE_H_
