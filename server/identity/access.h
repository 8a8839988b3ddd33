// The one table of what each method asks of its caller. A method that is not in it may be called by nobody.

#ifndef SERVER_IDENTITY_ACCESS_H_
#define SERVER_IDENTITY_ACCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// The things that a caller may do. An admin may do all.
enum class Role : uint8_t { kInfer = 1, kTrain = 2, kPublish = 4, kAdmin = 8 };

class Roles {
 public:
  static Roles All() { return Roles(0xf); }
  // "train,publish". INVALID_ARGUMENT: one of them is no role, or there is none.
  static absl::StatusOr<Roles> Parse(absl::string_view text);

  Roles() = default;
  bool empty() const { return bits_ == 0; }
  void Add(Roles others) { bits_ |= others.bits_; }
  bool Has(Role role) const { return (bits_ & (static_cast<uint8_t>(role) | static_cast<uint8_t>(Role::kAdmin))) != 0; }
  std::string ToString() const;

 private:
  explicit Roles(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

enum class Access {
  kOpen,     // Probes, which have no identity, may call it, too.
  kAnyRole,  // Each caller with an identity may.
  kInfer,
  kTrain,
  kPublish,
  kAdmin,
};

struct MethodAccess {
  Access access;
  // The method changes what there is, for others to find: a line of the audit log tells of each call. Steps of a
  // training, which come by the thousand, are not among them.
  bool audited = false;
};

// `path`: "/gluond.v1.ModelService/Predict". Nothing: the table lacks the method.
std::optional<MethodAccess> AccessOf(absl::string_view path);

// "infer" and the like; for kAnyRole "any role".
absl::string_view NameOf(Access access);
bool Allows(Access access, Roles roles);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_ACCESS_H_
