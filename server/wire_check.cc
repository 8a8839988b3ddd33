#include "server/wire_check.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/common.h"

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
  const std::string name = field == nullptr ? absl::StrCat("field ", number) : field->name();
  return parent.empty() ? name : absl::StrCat(parent, ".", name);
}

// What is wrong in [in.at, end), or nothing.
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
      } else if (field->type() == FieldDescriptor::TYPE_STRING &&
                 !google::protobuf::internal::IsStructurallyValidUTF8(in.text.data() + in.at,
                                                                      static_cast<int>(length))) {
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

// Counts down `left` for each message within [in.at, end) until it is negative or the text is read. What is broken ends
// the count: protobuf will say so.
void Count(Reader& in, size_t end, const Descriptor& type, int depth, int64_t* left) {
  while (in.at < end && *left >= 0 && depth <= kMaxNesting) {
    uint64_t tag = 0, length = 0;
    if (!in.Varint(&tag, end)) return;
    switch (tag & 7) {
      case 0:
        if (!in.Varint(&length, end)) return;
        continue;
      case 1: length = 8; break;
      case 5: length = 4; break;
      case 2:
        if (!in.Varint(&length, end)) return;
        break;
      default: return;
    }
    if (length > end - in.at) return;
    const size_t field_end = in.at + length;
    const FieldDescriptor* field = (tag & 7) == 2 ? type.FindFieldByNumber(static_cast<int>(tag >> 3)) : nullptr;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      --*left;
      Count(in, field_end, *field->message_type(), depth + 1, left);
    } else if (field != nullptr && field->is_repeated() && !field->is_packable()) {
      --*left;  // A string of its own.
    }
    in.at = field_end;
  }
}

}  // namespace

bool HoldsMoreMessages(absl::string_view message, const Descriptor& type, int64_t most) {
  Reader in{message};
  Count(in, message.size(), type, 0, &most);
  return most < 0;
}

std::string FindDamage(absl::string_view message, const Descriptor& type) {
  Reader in{message};
  const std::optional<std::string> damage = Check(in, message.size(), type, "", 0);
  return absl::StrCat(damage.value_or("its fields do not fit together"), ", at byte ", in.at, " of ", message.size());
}

}  // namespace gluond::server
