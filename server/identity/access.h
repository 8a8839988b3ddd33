// Roles: what a caller may do, and which of them a method asks for (proto/gluond/v1/options.proto, server/rpc/method.h).

#ifndef SERVER_IDENTITY_ACCESS_H_
#define SERVER_IDENTITY_ACCESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// The things that a caller may do. An admin may do all. A proxy is no caller: it passes on others' calls, and may do nothing. A
// follower is a server, which may read published versions, and a member is one of a group; neither may do what others may without
// these roles.
enum class Role : uint8_t { kInfer = 1, kTrain = 2, kPublish = 4, kAdmin = 8, kProxy = 16, kFollow = 32, kMember = 64 };

class Roles {
 public:
  // Every role that a person can have; an admin's has a follower's in it.
  static Roles All() { return Roles(0xf); }
  // "train,publish". INVALID_ARGUMENT: one of them is no role, there is none, or a proxy has another one, too.
  static absl::StatusOr<Roles> Parse(absl::string_view text);

  Roles() = default;
  bool empty() const { return bits_ == 0; }
  void Add(Roles others) { bits_ |= others.bits_; }
  bool is_proxy() const { return bits_ == static_cast<uint8_t>(Role::kProxy); }
  // Whether they are more than a follower's, or a proxy's.
  bool any_of_person() const { return (bits_ & All().bits_) != 0; }
  // Whether a caller with these roles may do what wants `role`.
  bool Has(Role role) const { return (bits_ & (static_cast<uint8_t>(role) | static_cast<uint8_t>(Role::kAdmin))) != 0; }
  std::string ToString() const;

 private:
  explicit Roles(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

// The callers whom a method takes; the numbers are MethodRule.Role's.
enum class Access : uint8_t {
  kNobody,
  kOpen,     // Probes, which have no identity, may call it, too.
  kAnyRole,  // Each caller with an identity may, but for proxies and followers.
  kInfer,
  kTrain,
  kPublish,
  kAdmin,
  kFollow,
  kMember,  // Servers of the same group.
};

// Whether the audit log has lines of a method's calls; the numbers are MethodRule.Audit's. Steps of a training and inferences,
// which are what the server is for, have none.
enum class Audit : uint8_t {
  kNone,
  kEach,  // It changes what there is, for others to find.
  kMany,  // It reads what a model has learned, or is a part of something: of one caller's many calls some have lines.
};

// "infer" and the like; for kAnyRole "any role".
absl::string_view NameOf(Access access);
bool Allows(Access access, Roles roles);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_ACCESS_H_
