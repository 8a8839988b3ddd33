#include "engine/store/json.h"

#include <cmath>
#include <cstdio>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

void Quote(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out->append(escape);
    } else {
      out->push_back(c);
    }
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

absl::Status Want(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("want ", what)); }

}  // namespace

class JsonParser {
 public:
  JsonParser(absl::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  absl::StatusOr<Json> Document() {
    Json value;
    absl::Status status = Value(&value, 0);
    Skip();
    if (status.ok() && at_ != text_.size()) status = Want("the end");
    if (!status.ok()) return Annotate(status, absl::StrCat("JSON, byte ", at_));
    return value;
  }

 private:
  void Skip() {
    while (Accept(" \n\r\t")) {
    }
  }
  bool Take(absl::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  // Recursive, as deep as max_depth_.
  absl::Status Value(Json* out, int depth) {
    if (depth > max_depth_) return Want(absl::StrCat("at most ", max_depth_, " levels"));
    if (++values_ > Json::kMaxValues) return Want(absl::StrCat("at most ", Json::kMaxValues, " values"));
    Skip();
    if (at_ == text_.size()) return Want("a value");
    switch (text_[at_]) {
      case '{': return ReadObject(out, depth);
      case '[': return ReadArray(out, depth);
      case '"': out->kind_ = Json::kString; return ReadString(&out->text_);
      default: break;
    }
    if (Take("null")) return absl::OkStatus();
    for (bool value : {false, true}) {
      if (Take(value ? "true" : "false")) return *out = Json(value), absl::OkStatus();
    }
    return ReadNumber(out);
  }

  absl::Status ReadObject(Json* out, int depth) {
    *out = Json::Object();
    Take("{");
    if (Take("}")) return absl::OkStatus();
    absl::flat_hash_set<std::string> keys;
    do {
      Skip();
      std::string key;
      RETURN_IF_ERROR(ReadString(&key));
      if (!keys.insert(key).second) return absl::InvalidArgumentError(absl::StrCat("key '", Excerpt(key), "' twice"));
      if (!Take(":")) return Want("':'");
      Json value;
      RETURN_IF_ERROR(Value(&value, depth + 1));
      out->Set(std::move(key), std::move(value));
    } while (Take(","));
    return Take("}") ? absl::OkStatus() : Want("',' or '}'");
  }

  absl::Status ReadArray(Json* out, int depth) {
    *out = Json::Array();
    Take("[");
    if (Take("]")) return absl::OkStatus();
    do {
      Json value;
      RETURN_IF_ERROR(Value(&value, depth + 1));
      out->Append(std::move(value));
    } while (Take(","));
    return Take("]") ? absl::OkStatus() : Want("',' or ']'");
  }

  absl::Status ReadString(std::string* out) {
    if (at_ == text_.size() || text_[at_] != '"') return Want("a string");
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') return ++at_, absl::OkStatus();
      if (static_cast<unsigned char>(c) < 0x20) return Want("no control character");
      if (c != '\\') {
        out->push_back(c);
        continue;
      }
      RETURN_IF_ERROR(ReadEscape(out));
    }
    return Want("the end of the string");
  }

  absl::Status ReadEscape(std::string* out) {
    static constexpr absl::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (++at_ == text_.size()) return Want("an escape");
    const size_t simple = kFrom.find(text_[at_]);
    if (simple != absl::string_view::npos) return out->push_back(kTo[simple]), absl::OkStatus();
    uint32_t code, low;
    if (text_[at_] != 'u' || !ReadHex(&code)) return Want("an escape");
    if (code >= 0xd800 && code < 0xdc00) {
      if (text_.substr(at_ + 1, 2) != "\\u") return Want("the second half of a surrogate pair");
      at_ += 2;
      if (!ReadHex(&low) || low < 0xdc00 || low >= 0xe000) return Want("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      return Want("the first half of a surrogate pair");
    }
    return AppendUtf8(code, out), absl::OkStatus();
  }

  // Reads the four digits behind at_, and moves at_ to the last.
  bool ReadHex(uint32_t* code) {
    const absl::string_view digits = text_.substr(at_ + 1, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != absl::string_view::npos ||
        !absl::SimpleHexAtoi(digits, code)) {
      return false;
    }
    at_ += 4;
    return true;
  }

  // -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
  absl::Status ReadNumber(Json* out) {
    const size_t begin = at_;
    Accept("-");
    if (!Accept("0") && !Digits()) return Want("a value");
    if (Accept(".") && !Digits()) return Want("a digit");
    if (Accept("eE")) {
      Accept("+-");
      if (!Digits()) return Want("a digit");
    }
    out->kind_ = Json::kNumber;
    out->text_ = std::string(text_.substr(begin, at_ - begin));
    return absl::OkStatus();
  }
  // The next character, if it is one of these.
  bool Accept(absl::string_view any) {
    const bool found = at_ < text_.size() && any.find(text_[at_]) != absl::string_view::npos;
    at_ += found;
    return found;
  }
  bool Digits() {
    const size_t begin = at_;
    while (Accept("0123456789")) {
    }
    return at_ > begin;
  }

  const absl::string_view text_;
  const int max_depth_;
  int64_t values_ = 0;
  size_t at_ = 0;
};

Json::Json(double value) : kind_(std::isfinite(value) ? kNumber : kString), text_(param_internal::FormatValue(value)) {}
Json::Json(int64_t value) : kind_(kNumber), text_(absl::StrCat(value)) {}
Json::Json(uint64_t value) : kind_(kNumber), text_(absl::StrCat(value)) {}

absl::StatusOr<Json> Json::Parse(absl::string_view text, int max_depth) { return JsonParser(text, max_depth).Document(); }

std::string Json::Dump() const {
  std::string out;
  DumpTo(&out);
  return out;
}

void Json::DumpTo(std::string* out) const {
  switch (kind_) {
    case kNull: out->append("null"); return;
    case kBool:
    case kNumber: out->append(text_); return;
    case kString: return Quote(text_, out);
    case kArray:
      for (size_t i = 0; i < elements_.size(); ++i) out->push_back(i == 0 ? '[' : ','), elements_[i].DumpTo(out);
      out->append(elements_.empty() ? "[]" : "]");
      return;
    case kObject:
      for (size_t i = 0; i < members_.size(); ++i) {
        out->push_back(i == 0 ? '{' : ',');
        Quote(members_[i].first, out);
        out->push_back(':');
        members_[i].second.DumpTo(out);
      }
      out->append(members_.empty() ? "{}" : "}");
      return;
  }
}

const Json* Json::Find(absl::string_view key) const {
  for (const auto& [name, value] : members_) {
    if (name == key) return &value;
  }
  return nullptr;
}

absl::Status Json::Get(bool* value) const {
  if (kind_ != kBool) return Want("true or false");
  return *value = text_ == "true", absl::OkStatus();
}
absl::Status Json::Get(double* value) const {
  const bool good = (kind_ == kNumber || kind_ == kString) && absl::SimpleAtod(text_, value);
  return good ? absl::OkStatus() : Want("a number");
}
absl::Status Json::Get(int64_t* value) const {
  return kind_ == kNumber && absl::SimpleAtoi(text_, value) ? absl::OkStatus() : Want("a whole number of 64 bits");
}
absl::Status Json::Get(uint64_t* value) const {
  return kind_ == kNumber && absl::SimpleAtoi(text_, value) ? absl::OkStatus() : Want("a whole number of 64 bits, not negative");
}
absl::Status Json::Get(std::string* value) const {
  if (kind_ != kString) return Want("a string");
  return *value = text_, absl::OkStatus();
}

absl::StatusOr<const Json*> Json::GetChild(absl::string_view key, Kind kind) const {
  const Json* child = Find(key);
  if (child != nullptr && child->kind_ == kind) return child;
  return Name(key, child == nullptr ? Missing() : Want(kind == kArray ? "an array" : "an object"));
}

absl::Status Json::Missing() { return absl::InvalidArgumentError("is missing"); }
absl::Status Json::Name(absl::string_view key, absl::Status status) { return Annotate(status, absl::StrCat("'", key, "'")); }

}  // namespace gluond
