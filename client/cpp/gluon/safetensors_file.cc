// The format of the Python package `safetensors`: u64 length of the header; the header, in JSON; the bytes, without gaps.
//
//   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "text"}}
//
// Bytes are those that the server writes (engine/store/safetensors.h): large elements first, so that each begins at a multiple of
// its size.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/gluon/file_formats.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

constexpr uint64_t kMostHeader = 100'000'000;  // The Python package's own bound.
constexpr size_t kMostRank = 32;
constexpr char kMetadata[] = "__metadata__";

constexpr std::pair<absl::string_view, DType> kDTypes[] = {
    {"F32", DType::kFloat32}, {"F64", DType::kFloat64}, {"F16", DType::kFloat16}, {"BF16", DType::kBfloat16}, {"U8", DType::kUint8},
    {"I8", DType::kInt8},     {"I32", DType::kInt32},   {"I64", DType::kInt64},   {"BOOL", DType::kBool}};

absl::string_view SafetensorsName(DType dtype) {
  for (const auto& [name, each] : kDTypes) {
    if (each == dtype) return name;
  }
  return "";
}

void AppendQuoted(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out->append(escape);
      continue;
    }
    if (c == '"' || c == '\\') out->push_back('\\');
    out->push_back(c);
  }
  out->push_back('"');
}

void AppendUtf8(uint32_t code, std::string* out) {
  const auto tail = [&](int shift) { out->push_back(static_cast<char>(0x80 | (code >> shift & 0x3f))); };
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6)), tail(0);
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | code >> 12)), tail(6), tail(0);
  } else {
    out->push_back(static_cast<char>(0xf0 | code >> 18)), tail(12), tail(6), tail(0);
  }
}

struct HeaderEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

// Reads the header, which has no other members than the format's own.
class HeaderReader {
 public:
  HeaderReader(absl::string_view text, const std::string& what) : text_(text), what_(what) {}

  absl::StatusOr<std::vector<HeaderEntry>> Read() {
    std::vector<HeaderEntry> entries;
    std::set<std::string> names;
    GLUOND_RETURN_IF_ERROR(Members([&](const std::string& name) -> absl::Status {
      if (!names.insert(name).second) return Broken(absl::StrCat("the name '", name, "' is there twice"));
      if (name == kMetadata) {
        return Members([&](const std::string&) { return String().status(); });
      }
      GLUOND_ASSIGN_OR_RETURN(entries.emplace_back(), ReadEntry(name));
      return absl::OkStatus();
    }));
    Skip();
    if (at_ != text_.size()) return Wanted("the end of the header");
    return entries;
  }

 private:
  absl::Status Broken(const std::string& why) const {
    return absl::DataLossError(absl::StrCat(what_, " is no file of safetensors, or a damaged one: ", why));
  }
  absl::Status Wanted(absl::string_view wanted) const {
    return Broken(absl::StrCat("its header wants ", wanted, " at byte ", 8 + at_));
  }

  void Skip() {
    while (at_ < text_.size() && absl::string_view(" \t\r\n").find(text_[at_]) != absl::string_view::npos) ++at_;
  }
  bool Take(char wanted) {
    Skip();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // Calls read(name) before the value of each member of an object.
  template <class Read>
  absl::Status Members(const Read& read) {
    if (!Take('{')) return Wanted("'{'");
    if (Take('}')) return absl::OkStatus();
    do {
      GLUOND_ASSIGN_OR_RETURN(const std::string name, String());
      if (!Take(':')) return Wanted("':'");
      GLUOND_RETURN_IF_ERROR(read(name));
    } while (Take(','));
    return Take('}') ? absl::OkStatus() : Wanted("'}' or ','");
  }

  absl::StatusOr<HeaderEntry> ReadEntry(const std::string& name) {
    HeaderEntry entry;
    entry.name = name;
    std::set<std::string> members;
    GLUOND_RETURN_IF_ERROR(Members([&](const std::string& member) -> absl::Status {
      if (!members.insert(member).second) return Broken(absl::StrCat("array '", name, "' has '", member, "' twice"));
      if (member == "dtype") return ReadDType(&entry);
      if (member == "shape") {
        GLUOND_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, Numbers(kMostRank));
        entry.shape.assign(sizes.begin(), sizes.end());
        return absl::OkStatus();
      }
      if (member == "data_offsets") {
        GLUOND_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, Numbers(2));
        if (offsets.size() != 2) return Broken(absl::StrCat("array '", name, "' wants two data_offsets"));
        entry.begin = offsets[0], entry.end = offsets[1];
        return absl::OkStatus();
      }
      return Broken(absl::StrCat("array '", name, "' has a '", member, "', expected dtype, shape and data_offsets"));
    }));
    if (members.size() != 3) {
      return Broken(
          absl::StrCat("array '", name, "' has only ", absl::StrJoin(members, ", "), ", expected dtype, shape and data_offsets"));
    }
    uint64_t bytes = static_cast<uint64_t>(ElementSize(entry.dtype));
    for (const int64_t size : entry.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
        return Broken(absl::StrCat("no array has the shape ", ToString(entry.shape)));
      }
    }
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
      return Broken(absl::StrCat("array '", name, "' of shape ", ToString(entry.shape), " has ", bytes, " bytes, but lies at [",
                                 entry.begin, ", ", entry.end, "]"));
    }
    return entry;
  }

  absl::Status ReadDType(HeaderEntry* entry) {
    GLUOND_ASSIGN_OR_RETURN(const std::string text, String());
    for (const auto& [name, dtype] : kDTypes) {
      if (name == text) return entry->dtype = dtype, absl::OkStatus();
    }
    return Broken(absl::StrCat("array '", entry->name, "' has the dtype '", text, "', which this client does not have"));
  }

  absl::StatusOr<std::vector<uint64_t>> Numbers(size_t most) {
    std::vector<uint64_t> numbers;
    if (!Take('[')) return Wanted("'['");
    if (Take(']')) return numbers;
    do {
      Skip();
      const size_t begin = at_;
      uint64_t number = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        const uint64_t digit = static_cast<uint64_t>(text_[at_] - '0');
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, digit, &number) || number > INT64_MAX) {
          return Wanted("a smaller number");
        }
      }
      if (at_ == begin) return Wanted("a number of digits");
      if (numbers.size() == most) return Wanted(absl::StrCat("at most ", most, " numbers"));
      numbers.push_back(number);
    } while (Take(','));
    if (!Take(']')) return Wanted("']' or ','");
    return numbers;
  }

  absl::StatusOr<std::string> String() {
    if (!Take('"')) return Wanted("a string");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return Wanted("an escape");
      if (text_[at_] != '\\') {
        out.push_back(text_[at_++]);
        continue;
      }
      GLUOND_RETURN_IF_ERROR(Escape(&out));
    }
    if (at_ == text_.size()) return Wanted("the end of a string");
    ++at_;
    if (!IsUtf8(out)) return Broken("a name is not UTF-8");
    return out;
  }

  absl::Status Escape(std::string* out) {
    static constexpr absl::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (++at_ == text_.size()) return Wanted("an escape");
    const size_t simple = kFrom.find(text_[at_]);
    if (simple != absl::string_view::npos) return ++at_, out->push_back(kTo[simple]), absl::OkStatus();
    uint32_t code = 0, low = 0;
    if (text_[at_] != 'u' || !Hex(&code)) return Wanted("an escape");
    if (code >= 0xd800 && code < 0xdc00) {
      if (text_.substr(at_, 2) != "\\u" || (++at_, !Hex(&low)) || low < 0xdc00 || low >= 0xe000) {
        return Wanted("the second half of a surrogate pair");
      }
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      return Wanted("the first half of a surrogate pair");
    }
    return AppendUtf8(code, out), absl::OkStatus();
  }

  // The four digits after the `u` at at_, and moves behind them.
  bool Hex(uint32_t* code) {
    if (text_.size() - at_ < 5) return false;
    *code = 0;
    ++at_;
    for (const char c : text_.substr(at_, 4)) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) return false;
      *code = *code << 4 | static_cast<uint32_t>(digit);
    }
    at_ += 4;
    return true;
  }

  const absl::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

}  // namespace

bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xc2 && first < 0xe0 ? 2
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xf0 && first < 0xf5 ? 4
                                                          : 0;
    if (length == 0 || length > text.size() - i) return false;
    uint32_t code = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3fu);
    }
    const bool is_too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (is_too_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

absl::StatusOr<std::string> WriteSafetensors(const NamedTensors& tensors) {
  std::set<absl::string_view> names = {kMetadata};
  for (const auto& [name, tensor] : tensors) {
    if (!IsUtf8(name)) return absl::InvalidArgumentError("Save: a name is not UTF-8, which safetensors want");
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("Save: the name '", name, "' is ",
                                                     name == kMetadata ? "the format's own" : "there twice", "; choose another"));
    }
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ElementSize(tensors[a].second.dtype()) > ElementSize(tensors[b].second.dtype());
  });
  std::vector<uint64_t> begin(tensors.size());
  uint64_t size = 0;
  for (const size_t i : order) begin[i] = std::exchange(size, size + tensors[i].second.bytes().size());
  std::string header = "{";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    if (i > 0) header.push_back(',');
    AppendQuoted(name, &header);
    absl::StrAppend(&header, ":{\"dtype\":\"", SafetensorsName(tensor.dtype()), "\",\"shape\":[",
                    absl::StrJoin(tensor.shape(), ","), "],\"data_offsets\":[", begin[i], ",", begin[i] + tensor.bytes().size(),
                    "]}");
  }
  header.push_back('}');
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  if (length > kMostHeader) {
    return absl::InvalidArgumentError(absl::StrCat("Save: the names and shapes of ", tensors.size(), " arrays take ", length,
                                                   " bytes; safetensors have at most ", kMostHeader));
  }
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.reserve(sizeof(length) + length + size);
  bytes += header;
  for (const size_t i : order) bytes.append(tensors[i].second.bytes().data(), tensors[i].second.bytes().size());
  return bytes;
}

// MXNet's files have zeros where the header begins.
bool IsSafetensors(absl::string_view bytes) { return bytes.size() > 8 && bytes[8] == '{'; }

absl::StatusOr<NamedTensors> ReadSafetensors(absl::string_view bytes, const std::string& what) {
  const auto broken = [&](const std::string& why) {
    return absl::DataLossError(absl::StrCat(what, " is no file of safetensors, or a damaged one: ", why));
  };
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) return broken(absl::StrCat("it has only ", bytes.size(), " bytes"));
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (length > bytes.size() || length > kMostHeader) {
    return broken(absl::StrCat("a header of ", length, " bytes is announced, but ", bytes.size(), " follow, and at most ",
                               kMostHeader, " are allowed"));
  }
  GLUOND_ASSIGN_OR_RETURN(const std::vector<HeaderEntry> entries, HeaderReader(bytes.substr(0, length), what).Read());
  bytes.remove_prefix(length);
  std::vector<const HeaderEntry*> order;
  for (const HeaderEntry& entry : entries) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const HeaderEntry* const entry : order) {
    if (entry->begin != at) return broken(absl::StrCat("array '", entry->name, "' begins at ", entry->begin, ", expected ", at));
    at = entry->end;
  }
  if (at != bytes.size()) return broken(absl::StrCat("its arrays have ", at, " bytes, but ", bytes.size(), " follow the header"));
  NamedTensors tensors;
  for (const HeaderEntry& entry : entries) {
    std::string values(bytes.substr(entry.begin, entry.end - entry.begin));
    if (entry.dtype == DType::kBool && std::any_of(values.begin(), values.end(), [](char c) { return c != 0 && c != 1; })) {
      return broken(absl::StrCat("array '", entry.name, "' has a bool that is neither 0 nor 1"));
    }
    GLUOND_ASSIGN_OR_RETURN(Tensor tensor, Tensor::FromBytes(entry.dtype, entry.shape, std::move(values)));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace gluond::client
