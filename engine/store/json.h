// Json: a JSON value, for a checkpoint's own files. Small and strict: no comments, no duplicate keys, bounded depth.
// Numbers keep their text, so that 64-bit integers and doubles survive a round trip; objects keep their order.

#ifndef ENGINE_STORE_JSON_H_
#define ENGINE_STORE_JSON_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

class Json {
 public:
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Json() = default;  // null
  Json(bool value) : kind_(kBool), text_(value ? "true" : "false") {}
  Json(double value);  // A value that is not finite becomes a string.
  Json(int value) : Json(static_cast<int64_t>(value)) {}
  Json(int64_t value);
  Json(uint64_t value);
  Json(std::string value) : kind_(kString), text_(std::move(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  static Json Array() { return Json(kArray); }
  static Json Object(std::vector<std::pair<std::string, Json>> members = {}) {
    Json object(kObject);
    object.members_ = std::move(members);
    return object;
  }
  // The object with a map's members.
  template <class T>
  static Json ObjectOf(const std::map<std::string, T>& map) {
    return Object({map.begin(), map.end()});
  }

  // INVALID_ARGUMENT tells the offset. A depth over `max_depth` and more than kMaxValues values are refused, too: a
  // value takes many times the memory of its text.
  static constexpr int64_t kMaxValues = int64_t{1} << 24;
  static absl::StatusOr<Json> Parse(absl::string_view text, int max_depth = 32);
  std::string Dump() const;

  Kind kind() const { return kind_; }
  // Requires: an array.
  void Append(Json value) { elements_.push_back(std::move(value)); }
  const std::vector<Json>& elements() const { return elements_; }  // An array's; empty for others.
  // Requires: an object without that key.
  void Set(std::string key, Json value) { members_.emplace_back(std::move(key), std::move(value)); }
  const std::vector<std::pair<std::string, Json>>& members() const { return members_; }  // An object's.
  // nullptr: not an object, or no such key.
  const Json* Find(absl::string_view key) const;

  // The value in that type. INVALID_ARGUMENT: the value has another type.
  absl::Status Get(bool* value) const;
  absl::Status Get(double* value) const;
  absl::Status Get(int64_t* value) const;
  absl::Status Get(uint64_t* value) const;
  absl::Status Get(std::string* value) const;
  // Member `key` as a T. INVALID_ARGUMENT names the key.
  template <class T>
  absl::Status Get(absl::string_view key, T* value) const {
    const Json* member = Find(key);
    return Name(key, member == nullptr ? Missing() : member->Get(value));
  }
  // The array or object `key`.
  absl::StatusOr<const Json*> GetChild(absl::string_view key, Kind kind) const;

 private:
  friend class JsonParser;
  explicit Json(Kind kind) : kind_(kind) {}
  void DumpTo(std::string* out) const;
  static absl::Status Missing();
  static absl::Status Name(absl::string_view key, absl::Status status);

  Kind kind_ = kNull;
  std::string text_;  // A bool's, a number's or a string's.
  std::vector<Json> elements_;
  std::vector<std::pair<std::string, Json>> members_;
};

}  // namespace gluond

#endif  // ENGINE_STORE_JSON_H_
