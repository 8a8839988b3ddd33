// SharedOperators: the operators that one client computes for all graphs of its tenant, and the owners of their names. A
// name belongs to the client that shared it first, until that client releases it. The owner is an identity, also while the
// identity has no stream, so that whoever comes next gets neither the calls nor the values of others' models. Where nobody
// knows the client's name, the owner is the scope of its stream, while a stream with that scope is open. Scopes are made of
// keys, so another scope is another client.
//
//   shared.Claim("square", sharer, channel)   Alice: OK. Bob, who comes later: PERMISSION_DENIED. An admin: takes the name over.
//   shared.Leave(sharer, channel, ...)        Another stream of Alice computes it, or nobody does until she is back.
//
// Not thread-safe: CustomHosts locks.

#ifndef SERVER_CUSTOM_SHARED_OPERATORS_H_
#define SERVER_CUSTOM_SHARED_OPERATORS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/runtime/budget.h"

namespace gluond::server {

class HostChannel;

// A client that shares operators.
struct Sharer {
  std::string tenant = {};    // "acme/": it shares with this tenant's graphs.
  std::string identity = {};  // Empty: the server knows no name that the caller alone has.
  bool is_admin = false;
  std::string scope = {};  // The inside scope of its stream.
};

class SharedOperators {
 public:
  // The tenant all of whose clients may use an operator, and the operator's name.
  using Name = std::pair<std::string, std::string>;
  struct Claimed {
    bool is_taken_over = false;     // The name was another client's until now.
    HostChannel* before = nullptr;  // Another stream that computed it until now.
  };

  // From now on `channel`, which is of `sharer`, computes the operator. PERMISSION_DENIED: another client owns the name.
  // RESOURCE_EXHAUSTED: the owner has too many, or no memory: `memory` pays for all names of an owner, from the first on.
  absl::StatusOr<Claimed> Claim(const std::string& op_type, const Sharer& sharer, HostChannel* channel,
                                absl::FunctionRef<Reservation()> memory);
  // From now on the identity owns the name, unless somebody owns it already.
  void Keep(const Name& name, const std::string& identity);
  // From now on nobody owns the name. Returns the channel that computed it, if there is one. NOT_FOUND: nobody owned the
  // name. PERMISSION_DENIED: another client owns it.
  absl::StatusOr<HostChannel*> Release(const std::string& op_type, const Sharer& sharer);
  // The channel computes nothing any more. `heir` finds another channel of the same identity that shares an operator, or
  // null. Names of a scope stay with it where another stream `has_its_scope`.
  struct Left {
    std::vector<std::string> released;  // These are nobody's now.
    std::vector<std::string> changed;   // Somebody else computes these, or nobody does.
  };
  Left Leave(const Sharer& sharer, HostChannel* channel, bool has_its_scope,
             absl::FunctionRef<HostChannel*(const std::string& op_type)> heir);

  // The client that computes the operator; null: nobody, or not `owner`, the name of an identity. Empty: whoever it is.
  HostChannel* Find(const Name& name, absl::string_view owner) const;
  bool IsOwnedBy(const std::string& op_type, const Sharer& sharer) const;
  // Whether somebody owns the name.
  bool IsOwned(const Name& name) const { return shared_.contains(name); }
  // The identity that owns the name; empty: nobody, or a client without a name, owns it.
  std::string OwnerOf(const Name& name) const;

 private:
  struct Share {
    Sharer owner;
    HostChannel* channel = nullptr;  // Null: the owner's streams are away.
  };
  struct Owned {
    std::set<std::string> op_types;
    Reservation memory;
  };
  using OwnerKey = std::pair<std::string, std::string>;

  static OwnerKey KeyOf(const Sharer& sharer);
  static bool MayTake(const Sharer& owner, const Sharer& sharer);
  absl::Status Add(const std::string& op_type, const Sharer& owner, absl::FunctionRef<Reservation()> memory);
  void Remove(const Name& name);

  absl::flat_hash_map<Name, Share> shared_;
  absl::flat_hash_map<OwnerKey, Owned> owned_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_SHARED_OPERATORS_H_
