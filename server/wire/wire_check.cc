#include "server/wire/wire_check.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/text.h"
#include "google/protobuf/message.h"

namespace gluond::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int kMaxNesting = 100;  // protobuf's own limit.

struct Reader {
  absl::string_view text;
  size_t at = 0;

  bool Varint(uint64_t* value, size_t end, int most_bytes = 10) {
    *value = 0;
    for (int shift = 0; shift < 7 * most_bytes && at < end; shift += 7) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      *value |= uint64_t{byte & 0x7fu} << (shift < 63 ? shift : 63);
      if (byte < 0x80) return true;
    }
    return false;
  }
  // A tag or a length.
  bool Varint32(uint64_t* value, size_t end) { return Varint(value, end, 5); }
};

std::string Path(const std::string& parent, const FieldDescriptor* field, uint64_t number) {
  const std::string name = field == nullptr ? absl::StrCat("field ", number) : std::string(field->name());
  return parent.empty() ? name : absl::StrCat(parent, ".", name);
}

// The damage in [in.at, end), or nothing.
std::optional<std::string> Check(Reader& in, size_t end, const Descriptor& type, const std::string& path, int depth) {
  const std::string here = path.empty() ? std::string("the message") : path;
  if (depth > kMaxNesting) return absl::StrCat(here, " is nested deeper than ", kMaxNesting);
  while (in.at < end) {
    uint64_t tag = 0, length = 0;
    if (!in.Varint32(&tag, end) || tag > 0xffffffffu || (tag >> 3) == 0) {
      return absl::StrCat("a broken field number in ", here);
    }
    const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    const std::string name = Path(path, field, tag >> 3);
    switch (tag & 7) {
      case 0:
        if (!in.Varint(&length, end)) return absl::StrCat(name, " ends in the middle of a number");
        continue;
      case 1: length = 8; break;
      case 5: length = 4; break;
      case 2:
        if (!in.Varint32(&length, end)) return absl::StrCat(name, " has no length");
        break;
      default: return absl::StrCat(name, " has the unknown wire type ", tag & 7);
    }
    if (length > end - in.at) return absl::StrCat(name, " is longer than what holds it");
    const size_t field_end = in.at + length;
    if ((tag & 7) == 2 && field != nullptr) {
      if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        if (auto damage = Check(in, field_end, *field->message_type(), name, depth + 1)) return damage;
      } else if (field->type() == FieldDescriptor::TYPE_STRING && !IsUtf8(in.text.substr(in.at, length))) {
        return absl::StrCat(name, " is not UTF-8");
      } else if (field->is_packable() && field->is_repeated() && field->type() != FieldDescriptor::TYPE_FLOAT &&
                 field->type() != FieldDescriptor::TYPE_DOUBLE) {
        for (uint64_t value; in.at < field_end;) {
          if (!in.Varint(&value, field_end)) return absl::StrCat(name, " ends in the middle of a number");
        }
      }
    }
    in.at = field_end;
  }
  return std::nullopt;
}

// Bytes that the parts of a parsed message take.
constexpr int64_t kString = 56;       // With its place in an arena's list of things to destroy.
constexpr size_t kInlineString = 15;  // Longer strings have blocks of their own.
constexpr int64_t kBlock = 24;        // Beside a block's bytes: what the allocator adds.
constexpr int64_t kElement = 24;      // In an array of pointers that doubles as it grows.
constexpr int64_t kGrowth = 3;        // Times the numbers of an array that grows.
constexpr int64_t kMapNode = 40;      // With its place in the table.
constexpr int64_t kUnknown = 48;      // A field that the type does not have.

int64_t StringBytes(size_t length) { return kString + (length > kInlineString ? static_cast<int64_t>(length) + kBlock : 0); }

int64_t NumberBytes(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return 1;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE: return 8;
    default: return 4;
  }
}

// Adds up the memory that a message takes.
class Weighing {
 public:
  explicit Weighing(absl::string_view text) : in_{text} {}

  // The fields in [at, end), and the object of `type` that holds them. False: they are broken.
  bool Message(size_t end, const Descriptor& type, int depth) {
    bytes_ += ObjectBytes(type);
    while (in_.at < end) {
      uint64_t tag = 0, length = 0;
      if (depth > kMaxNesting || !in_.Varint(&tag, end)) return false;
      const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
      const uint64_t wire_type = tag & 7;
      if (wire_type == 0 || wire_type == 2) {
        if (!in_.Varint(&length, end)) return false;
      } else if (wire_type != 1 && wire_type != 5) {
        return false;
      }
      if (wire_type != 2) {
        Number(field);
        length = wire_type == 1 ? 8 : wire_type == 5 ? 4 : 0;
      }
      if (length > end - in_.at) return false;
      const size_t field_end = in_.at + length;
      if (wire_type == 2 && !Field(field_end, field, depth)) return false;
      in_.at = field_end;
    }
    return true;
  }

  int64_t bytes() const { return bytes_; }

 private:
  void Number(const FieldDescriptor* field) {
    if (field == nullptr) {
      bytes_ += kUnknown;
    } else if (field->is_repeated()) {
      bytes_ += kGrowth * NumberBytes(*field);
    }
  }

  // A field of [at, end) that has a length.
  bool Field(size_t end, const FieldDescriptor* field, int depth) {
    const size_t length = end - in_.at;
    if (field == nullptr) {
      bytes_ += kUnknown + StringBytes(length);
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      bytes_ += field->is_map() ? kMapNode : field->is_repeated() ? kElement : 0;
      return Message(end, *field->message_type(), depth + 1);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      bytes_ += StringBytes(length) + (field->is_repeated() ? kElement : 0);
    } else if (field->is_packable()) {
      bytes_ += PackedBytes(in_.text.substr(in_.at, length), *field);
    }
    return true;
  }

  static int64_t PackedBytes(absl::string_view packed, const FieldDescriptor& field) {
    const auto length = static_cast<int64_t>(packed.size());
    switch (field.type()) {
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED32:
      case FieldDescriptor::TYPE_SFIXED64: return length;
      default: break;
    }
    const int64_t count = std::count_if(packed.begin(), packed.end(), [](char c) { return (c & 0x80) == 0; });
    return kGrowth * count * NumberBytes(field);
  }

  // The key and the value of a map's entry lie in the map's node.
  int64_t ObjectBytes(const Descriptor& type) {
    if (type.map_key() != nullptr) return 0;
    const auto [known, is_new] = objects_.try_emplace(&type, 0);
    if (is_new) {
      const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
      known->second = prototype == nullptr ? kUnknown : static_cast<int64_t>(prototype->SpaceUsedLong());
    }
    return known->second;
  }

  Reader in_;
  int64_t bytes_ = 0;
  absl::flat_hash_map<const Descriptor*, int64_t> objects_;
};

}  // namespace

int64_t ParsedBytes(absl::string_view message, const Descriptor& type) {
  Weighing weighing(message);
  weighing.Message(message.size(), type, 0);
  return weighing.bytes();
}

std::string FindDamage(absl::string_view message, const Descriptor& type) {
  Reader in{message};
  const std::optional<std::string> damage = Check(in, message.size(), type, "", 0);
  return absl::StrCat(damage.value_or("its fields do not fit together"), ", at byte ", in.at, " of ", message.size());
}

}  // namespace gluond::server
