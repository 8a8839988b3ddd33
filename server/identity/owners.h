// Owners: the owners of the named things of a server. A thing belongs to the identity that first made something of its
// name, for as long as there is such a thing. A thing that a caller without a name made, or that was there before the
// server kept owners, has no owner, and is up to the admin. With --ownership=shared all callers of a tenant may do to its
// things what their roles allow, as if there were no owners. With `strict` a thing may be read, changed and deleted by its
// owner, by those who were granted it (grants.h), and by an admin.
//
//   ASSIGN_OR_RETURN(const Owners::ClaimPtr claim, owners.May(caller, {{Thing::kModel, Deed::kMake, "acme/digits"}}));
//   ...
//   if (claim != nullptr) claim->End(status.ok());   // The caller owns the model.
//
// Thread-safe.

#ifndef SERVER_IDENTITY_OWNERS_H_
#define SERVER_IDENTITY_OWNERS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/core/mutex.h"
#include "server/identity/grants.h"
#include "server/identity/identities.h"

namespace gluond::server {

enum class Thing { kNone, kModel, kDataset, kCheckpoint, kVersions, kSavedSession };
// "model", as errors and the file of owners say.
absl::string_view NameOf(Thing thing);

// One thing, by its inside name, and the deed that a call does to it.
struct Touched {
  Thing thing;
  Deed deed;
  std::string name;
};

class Owners {
 public:
  using Key = std::pair<Thing, std::string>;
  using Names = std::map<Key, std::string>;  // Each thing's owner.

  // The names of things that a call is making. A claim ends unsuccessfully with its last pointer.
  class Claim {
   public:
    Claim(Owners& owners, std::string maker) : owners_(owners), maker_(std::move(maker)) {}
    ~Claim() { End(false); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    // `made`: the caller owns the things. Once; later calls do nothing.
    void End(bool made) { owners_.End(*this, made); }

   private:
    friend class Owners;
    Owners& owners_;
    const std::string maker_;  // Empty: a caller without a name.
    std::vector<Key> keys_;
  };
  using ClaimPtr = std::shared_ptr<Claim>;

  // Before the first call. `exists` is asked with no lock held, for checkpoints on a thread that may wait for the disk.
  void SetExists(Thing thing, std::function<bool(const std::string& name)> exists) { exists_[Index(thing)] = std::move(exists); }
  void SetStrict(bool strict) { strict_ = strict; }
  // Is called after each change, with no lock held.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }
  void Load(Names names);

  // Whether a caller, who reaches the names, may do all this. Null `caller`: nobody asks who callers are. The claim is null where
  // nothing is made. PERMISSION_DENIED names the owner. ABORTED: another identity is just making the thing.
  absl::StatusOr<ClaimPtr> May(const IdentityPtr& caller, absl::Span<const Touched> touched);

  // All owners, without those of things that there are no more.
  Names Take();
  // Empty: the thing has no owner.
  std::string OwnerOf(Thing thing, const std::string& name) const;

 private:
  struct Making {
    std::string maker;
    int calls = 0;
  };
  static size_t Index(Thing thing) { return static_cast<size_t>(thing); }
  bool Exists(const Key& key) const;
  absl::Status MayTouch(const Identity& caller, const std::string& name, const Touched& touched, Claim* claim);
  // Whether the thing, which is not there yet, is the caller's to make.
  absl::Status Begin(const Key& key, Claim* claim);
  absl::Status CheckRight(const Identity& caller, const std::string& name, const Touched& touched) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Claim& claim, bool made);

  std::array<std::function<bool(const std::string&)>, 6> exists_;
  bool strict_ = false;
  std::function<void()> changed_;
  mutable Mutex mu_;
  Names owners_ ABSL_GUARDED_BY(mu_);
  std::map<Key, Making> making_ ABSL_GUARDED_BY(mu_);
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_OWNERS_H_
