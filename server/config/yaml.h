// Yaml: a document of YAML as a tree, each value with its place, so that a mistake is told where it stands:
//
//   ASSIGN_OR_RETURN(const Yaml file, Yaml::Parse(text, "serve.yaml"));
//   RETURN_IF_ERROR(file.CheckKeys({"models"}));
//   int64_t size = 0;
//   RETURN_IF_ERROR(file.Find("models")->Get(&size));  // "serve.yaml, line 1, column 9: models: want a whole number, ..."
//
// The parser takes less than YAML has, and nothing that reads otherwise than it looks. There are no anchors and aliases, by
// which a short text stands for a long one, no tags, no key twice, and one document. true and false are the truth values;
// `no` is a text.

#ifndef SERVER_CONFIG_YAML_H_
#define SERVER_CONFIG_YAML_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

class Yaml {
 public:
  static constexpr size_t kMostBytes = 1 << 20;
  static constexpr int kMostDepth = 16;
  static constexpr size_t kMostValues = 100'000;

  enum class Kind { kNull, kScalar, kList, kMap };

  // INVALID_ARGUMENT tells file, line and column. `file`: its name in messages.
  static absl::StatusOr<Yaml> Parse(absl::string_view text, absl::string_view file);

  Kind kind() const { return kind_; }
  const std::vector<Yaml>& elements() const { return elements_; }  // Empty unless this is a list.
  // As they stand in the file, each key with its place. Empty unless this is a map.
  const std::vector<std::pair<Yaml, Yaml>>& members() const { return members_; }
  const std::string& text() const { return text_; }  // Empty unless this is a scalar.
  // Null: it is no map, or has no such key.
  const Yaml* Find(absl::string_view key) const;
  // "serve.yaml, line 4, column 7: models.digits.versions"
  std::string Place() const;

  // INVALID_ARGUMENT: the value is no map, or has a key that is none of these; names the closest.
  absl::Status CheckKeys(const std::vector<std::string>& known) const;
  // INVALID_ARGUMENT: the value is of another kind.
  absl::Status Want(Kind kind) const;
  // INVALID_ARGUMENT: the value is no such scalar. A number in quotes is a text.
  absl::Status Get(std::string* value) const;
  absl::Status Get(bool* value) const;
  absl::Status Get(int64_t* value) const;
  absl::Status Get(uint64_t* value) const;
  absl::Status Get(double* value) const;
  template <class T>
  absl::StatusOr<T> As() const {
    T value{};
    RETURN_IF_ERROR(Get(&value));
    return value;
  }

  // INVALID_ARGUMENT with the place.
  template <class... Args>
  absl::Status Error(const Args&... message) const {
    return Invalid(Place(), ": ", message...);
  }
  // The status with the place before its message.
  absl::Status At(const absl::Status& status) const;

 private:
  friend class YamlBuilder;

  template <class T>
  absl::Status GetNumber(absl::string_view what, bool (*parse)(absl::string_view, T*), T* value) const;

  Kind kind_ = Kind::kNull;
  std::string text_;
  bool quoted_ = false;
  std::string file_, path_;
  int line_ = 0, column_ = 0;  // From 1 on.
  std::vector<Yaml> elements_;
  std::vector<std::pair<Yaml, Yaml>> members_;
};

}  // namespace gluond::server

#endif  // SERVER_CONFIG_YAML_H_
