// Grants: what others' things an identity may use beside its own (--ownership=strict), as the fields of its line in
// --identities say:
//
//   bob  infer,train  sha256:...  reads=digits,alice-*  changes=shared-*
//
// `reads` lets read, `changes` also change, `owns` also delete. Patterns are names as the caller says them, or beginnings of
// names with a '*' behind, with commas.

#ifndef SERVER_IDENTITY_GRANTS_H_
#define SERVER_IDENTITY_GRANTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gluond::server {

// A call does one of these to a thing.
enum class Deed {
  kAsk,   // Nothing that needs a right of its own: the caller's role suffices.
  kRead,  // Its values, its graph, or what it computes.
  kChange,
  kDelete,
  kMake,  // Makes it; where it is there already, changes it.
};

class Grants {
 public:
  // The grants of a line's fields, "reads=digits,alice-*". INVALID_ARGUMENT: a field is no grant.
  static absl::StatusOr<Grants> Parse(absl::Span<const std::string> fields);
  // "reads", "digits,alice-*". INVALID_ARGUMENT: there is no such right, or a pattern is none.
  absl::Status Add(absl::string_view key, absl::string_view patterns);
  // `name`: as the caller says it.
  bool Allow(Deed deed, absl::string_view name) const;

  bool operator==(const Grants&) const = default;

 private:
  struct Grant {
    Deed deed;  // The grant is for this deed and all before it.
    std::string pattern;

    bool operator==(const Grant&) const = default;
  };
  std::vector<Grant> grants_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_GRANTS_H_
