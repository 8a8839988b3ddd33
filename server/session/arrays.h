// SessionArrays: the arrays of one session by the client's names for them.

#ifndef SERVER_SESSION_ARRAYS_H_
#define SERVER_SESSION_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/imperative/imperative.h"
#include "google/protobuf/repeated_field.h"

namespace gluond::server {

// RESOURCE_EXHAUSTED: the session holds so many of `what`.
absl::Status TooManyOfSession(absl::string_view what, size_t count);

class SessionArrays {
 public:
  using Names = google::protobuf::RepeatedField<uint64_t>;

  // Both outlive it. `most`: how many arrays there may be.
  SessionArrays(Imperative& imperative, int64_t most) : imperative_(imperative), most_(static_cast<size_t>(most)) {}

  // INVALID_ARGUMENT: no array has the name.
  absl::StatusOr<Array*> Find(uint64_t name);
  Array* FindOrNull(uint64_t name);
  bool Contains(uint64_t name) const { return arrays_.contains(name); }
  int64_t size() const { return static_cast<int64_t>(arrays_.size()); }
  absl::StatusOr<std::vector<Array>> Get(const Names& names);

  // The inputs of a call. Those whose names get new values (`replaced`, and those at the indices `written`) are moved
  // out, so that the call may overwrite them. With `recording`, marked arrays are on the tape afterwards; without, the
  // inputs have no history.
  absl::StatusOr<std::vector<Array>> Take(const Names& names, const Names& replaced, const std::vector<uint32_t>& written,
                                          bool recording);

  // The shape and type that an array in use has. Unknown: its value has failed, so anything may take its place.
  struct Kind {
    Shape shape;
    DType dtype = DType::kUnknown;
  };
  // An array before a call replaces it. Does not keep its value.
  struct Before {
    bool is_new = true;
    Kind kind = {};
    // Where the value is not known yet: it, and its kind from then on.
    std::weak_ptr<Value> unknown = {};
    std::shared_ptr<const Kind> later = nullptr;
  };
  Before BeforeCall(uint64_t name) const;

  // Gives `name` (0: none) the array; one in use stays marked, and is then a variable that has no history.
  void Set(uint64_t name, Array array, uint64_t command);
  // The same for the output of a call, which must be of the kind that the name has had.
  void Replace(uint64_t name, const Before& before, Array array, uint64_t command);
  void Erase(uint64_t name) { arrays_.erase(name); }

 private:
  Imperative& imperative_;
  const size_t most_;
  absl::flat_hash_map<uint64_t, Array> arrays_;
  std::vector<Array*> taken_;  // Used in Take alone.
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_ARRAYS_H_
