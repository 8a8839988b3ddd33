#include "server/wire/wire_message.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/fair_semaphore.h"
#include "server/wire/wire_check.h"

namespace gluond::server {
namespace {

static_assert(kShortMessage <= kAttachmentBytes, "what has attachments is weighed");

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// Only a message that is itself large can hold a large field, so the walk goes no deeper than the large ones do.
// Real messages hold their tensors within 4 levels; below this depth, fields are copied and protobuf judges.
constexpr int kMaxDepth = 16;

// Reads the protobuf wire format from slices, where they lie. Every read is bounded by their end and says whether it could be
// done.
class SliceCursor {
 public:
  explicit SliceCursor(const Slices& slices) : slices_(slices), size_(Bytes(slices).size()) {}

  size_t position() const { return position_; }
  size_t size() const { return size_; }

  // A varint of at most 10 bytes; as a tag or a length, which protobuf reads as 32 bits, of at most 5.
  bool Varint(uint64_t* value, int most_bytes = 10) {
    *value = 0;
    for (int shift = 0; shift < 7 * most_bytes; shift += 7) {
      uint8_t byte = 0;
      if (!ForPieces(1, [&](const grpc::Slice& s, size_t offset, size_t) { byte = s.begin()[offset]; })) return false;
      *value |= uint64_t{byte & 0x7fu} << (shift < 63 ? shift : 63);
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Varint32(uint64_t* value) { return Varint(value, 5); }
  // Appends the next n bytes to `out`.
  bool Copy(size_t n, std::string* out) {
    return ForPieces(n, [&](const grpc::Slice& s, size_t offset, size_t length) {
      out->append(reinterpret_cast<const char*>(s.begin()) + offset, length);
    });
  }
  // Gives references to the next n bytes. Copies only pieces so small that gRPC keeps them inline.
  bool Take(size_t n, Slices* out) {
    return ForPieces(n,
                     [&](const grpc::Slice& s, size_t offset, size_t length) { out->push_back(s.sub(offset, offset + length)); });
  }

 private:
  // Calls f(slice, offset, length) for the pieces of the next n bytes.
  template <class F>
  bool ForPieces(size_t n, F f) {
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

  const Slices& slices_;
  const size_t size_;
  size_t slice_ = 0;   // The slice of the next byte.
  size_t offset_ = 0;  // The place of the next byte in that slice.
  size_t position_ = 0;
};

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

absl::Status Broken(const SliceCursor& in, absl::string_view what) {
  return Invalid(what, " at byte ", in.position(), " of ", in.size());
}

const FieldDescriptor* Field(const Descriptor& type, uint64_t tag) {
  const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
  return field != nullptr && !field->is_packed() ? field : nullptr;
}

// Copies a field that is not length-delimited.
absl::Status CopyScalar(SliceCursor& in, uint64_t wire_type, std::string* rest) {
  uint64_t value = 0;
  switch (wire_type) {
    case kVarint:
      if (!in.Varint(&value)) return Broken(in, "a number without end");
      AppendVarint(value, rest);
      return absl::OkStatus();
    case kFixed64: return in.Copy(8, rest) ? absl::OkStatus() : Broken(in, "a field longer than the message");
    case kFixed32: return in.Copy(4, rest) ? absl::OkStatus() : Broken(in, "a field longer than the message");
  }
  return Broken(in, absl::StrCat("wire type ", wire_type, ", which no message of ours has,"));
}

absl::Status CutMessage(SliceCursor& in, size_t end, const Descriptor& type, int depth, std::string* rest,
                        Attachments* attachments) {
  while (in.position() < end) {
    uint64_t tag = 0;
    if (!in.Varint32(&tag) || tag > 0xffffffffu || (tag >> 3) == 0) return Broken(in, "a broken field number");
    AppendVarint(tag, rest);
    if ((tag & 7) != kLength) {
      RETURN_IF_ERROR(CopyScalar(in, tag & 7, rest));
      if (in.position() > end) return Broken(in, "a field longer than its message");
      continue;
    }
    uint64_t length = 0;
    if (!in.Varint32(&length) || in.position() > end || length > end - in.position()) {
      return Broken(in, absl::StrCat("field ", tag >> 3, " of ", type.name(), " is longer than its message"));
    }
    const FieldDescriptor* field = length >= kAttachmentBytes ? Field(type, tag) : nullptr;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_BYTES) {
      Slices slices;
      in.Take(length, &slices);
      AppendVarint(Attachments::kPlaceholderSize, rest);
      rest->append(attachments->Add(std::move(slices)));
    } else if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE && depth < kMaxDepth) {
      std::string nested;
      RETURN_IF_ERROR(CutMessage(in, in.position() + length, *field->message_type(), depth + 1, &nested, attachments));
      AppendVarint(nested.size(), rest);
      rest->append(nested);
    } else {
      AppendVarint(length, rest);
      in.Copy(length, rest);
    }
  }
  return absl::OkStatus();
}

// A message being put together: finished slices, then text.
struct Woven {
  Slices slices;
  std::string text;
  size_t slices_size = 0;

  size_t size() const { return slices_size + text.size(); }
  void Flush() {
    if (text.empty()) return;
    slices_size += text.size();
    slices.emplace_back(text);
    text.clear();
  }
  void Append(const Slices& more) {
    Flush();
    for (const grpc::Slice& slice : more) {
      slices_size += slice.size();
      slices.push_back(slice);
    }
  }
};

void WeaveMessage(SliceCursor& in, size_t end, const Descriptor& type, const Attachments& attachments, Woven* out) {
  while (in.position() < end) {
    uint64_t tag = 0;
    in.Varint(&tag);
    AppendVarint(tag, &out->text);
    if ((tag & 7) != kLength) {
      (void)CopyScalar(in, tag & 7, &out->text);
      continue;
    }
    uint64_t length = 0;
    in.Varint(&length);
    const FieldDescriptor* field = length >= Attachments::kPlaceholderSize ? Field(type, tag) : nullptr;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      Woven nested;
      WeaveMessage(in, in.position() + length, *field->message_type(), attachments, &nested);
      AppendVarint(nested.size(), &out->text);
      if (!nested.slices.empty()) out->Append(nested.slices);
      out->text.append(nested.text);
      continue;
    }
    std::string value;
    in.Copy(length, &value);
    const Slices* slices = attachments.Find(value);
    if (slices == nullptr) {
      AppendVarint(length, &out->text);
      out->text.append(value);
    } else {
      AppendVarint(Bytes(*slices).size(), &out->text);
      out->Append(*slices);
    }
  }
}

// A message within a message takes two bytes on the wire and hundreds in memory; graphs' nodes, the densest sensible
// messages, take some twenty times their bytes.
constexpr int64_t kMayTakeAnyway = 1 << 20;

absl::Status CheckWeight(int64_t parsed, size_t bytes) {
  if (parsed <= kMayTakeAnyway || parsed / kMostParsedPerByte < static_cast<int64_t>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the request's ", bytes, " bytes hold so many messages (nodes, attributes, tensors, ...) that they would take ",
                   parsed, " bytes in memory, more than ", kMostParsedPerByte, " times as many; send it in parts"));
}

absl::Status Refusal(const Message& message, absl::string_view why) {
  return Invalid("the request is not a ", message.GetTypeName(), ": ", why, "; is the client's proto another one?");
}

absl::Status ParseText(const std::string& text, Message* message) {
  if (message->ParseFromString(text)) return absl::OkStatus();
  return Refusal(*message, FindDamage(text, *message->GetDescriptor()));
}

// `text`: the message without its attachments. `bytes`: the size of the whole.
absl::Status WeighAndParse(const std::string& text, size_t bytes, Message* message, const ChargeParsed& charge) {
  const int64_t parsed = ParsedBytes(text, *message->GetDescriptor());
  RETURN_IF_ERROR(CheckWeight(parsed, bytes));
  if (charge != nullptr) RETURN_IF_ERROR(charge(parsed + static_cast<int64_t>(text.size())));
  return ParseText(text, message);
}

}  // namespace

absl::Status Cut(const Slices& slices, const Descriptor& type, std::string* rest, Attachments* attachments) {
  SliceCursor in(slices);
  return CutMessage(in, in.size(), type, 0, rest, attachments);
}

absl::Status ParseMessage(const Slices& slices, Message* message, Attachments* attachments, const ChargeParsed& charge) {
  std::string text;
  const Bytes bytes(slices);
  if (bytes.size() < kShortMessage) {
    const char* const all = bytes.contiguous();
    if (all != nullptr && message->ParseFromArray(all, static_cast<int>(bytes.size()))) return absl::OkStatus();
    text.resize(bytes.size());
    bytes.CopyTo(text.data());
    return ParseText(text, message);
  }
  if (absl::Status status = Cut(slices, *message->GetDescriptor(), &text, attachments); !status.ok()) {
    return Refusal(*message, status.message());
  }
  if (text.size() <= kLongText) return WeighAndParse(text, bytes.size(), message, charge);
  absl::Status status;
  FairSemaphore::OfLongWork().Do([&] { status = WeighAndParse(text, bytes.size(), message, charge); });
  return status;
}

Slices Weave(std::string rest, const Descriptor& type, const Attachments& attachments) {
  const Slices slices = {grpc::Slice(rest)};
  SliceCursor in(slices);
  Woven out;
  WeaveMessage(in, in.size(), type, attachments, &out);
  out.Flush();
  return std::move(out.slices);
}

Slices SerializeMessage(const Message& message, const Attachments& attachments) {
  return Weave(message.SerializeAsString(), *message.GetDescriptor(), attachments);
}

absl::Status TooLongForName(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the request has ", bytes, " bytes, and ", kMostShort, " are enough for a name"));
}

absl::StatusOr<Slices> InflateShort(const Slices& slices, Encoding encoding, const ChargeInflated& charge) {
  const absl::Status too_large = absl::ResourceExhaustedError(
      absl::StrCat("the request has more than ", kMostShort, " bytes once it is inflated, and these are enough for a name"));
  return Inflate(slices, encoding, kMostShort, too_large, charge);
}

absl::Status ParseShortMessage(const Slices& slices, Message* message, Encoding encoding) {
  if (const auto bytes = static_cast<int64_t>(Bytes(slices).size()); bytes > kMostShort) return TooLongForName(bytes);
  ASSIGN_OR_RETURN(const Slices inflated, InflateShort(slices, encoding, [](int64_t) { return absl::OkStatus(); }));
  Attachments none;
  return ParseMessage(inflated, message, &none);
}

}  // namespace gluond::server
