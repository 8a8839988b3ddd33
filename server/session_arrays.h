// SessionArrays: the arrays of one session by the client's names for them.

#ifndef SERVER_SESSION_ARRAYS_H_
#define SERVER_SESSION_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/imperative/imperative.h"
#include "google/protobuf/repeated_field.h"

namespace gluond::server {

class SessionArrays {
 public:
  using Names = google::protobuf::RepeatedField<uint64_t>;

  // Both outlive it. `most`: how many arrays there may be.
  SessionArrays(Imperative& imperative, int64_t most) : imperative_(imperative), most_(static_cast<size_t>(most)) {}

  // INVALID_ARGUMENT: no array has the name.
  absl::StatusOr<Array*> Find(uint64_t name);
  bool Contains(uint64_t name) const { return arrays_.contains(name); }
  absl::StatusOr<std::vector<Array>> Get(const Names& names);

  // The inputs of a call. Those whose names get new values (`replaced`, and those at the indices `written`) are moved out,
  // so that the call may overwrite them. With `on_tape`, marked arrays are on the tape afterwards.
  absl::StatusOr<std::vector<Array>> Take(const Names& names, const Names& replaced, const std::vector<uint32_t>& written,
                                          bool on_tape);

  // What an array in use is known to be, for Replace.
  struct Kind {
    bool known = false;
    Shape shape;
    DType dtype = DType::kUnknown;
  };
  Kind KindOf(uint64_t name) const;

  // Gives `name` (0: none) the array; one in use stays marked, and is then a variable that has no history.
  void Set(uint64_t name, Array array, uint64_t command);
  // The same for the output of a call, which must be of `kind` where that is known.
  void Replace(uint64_t name, const Kind& kind, Array array, uint64_t command);
  void Erase(uint64_t name) { arrays_.erase(name); }

 private:
  ValuePtr Checked(const ValuePtr& value, const Kind& kind, uint64_t command);

  Imperative& imperative_;
  const size_t most_;
  absl::flat_hash_map<uint64_t, Array> arrays_;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_ARRAYS_H_
