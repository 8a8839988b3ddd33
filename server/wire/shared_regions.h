// SharedRegions: parts of POSIX shared memory (shm_open) by which clients on this machine give and take tensors. A region is
// of whoever registered it, and to others it is not there: what one client has put there another one neither reads nor
// overwrites. Thread-safe.
//
//   RETURN_IF_ERROR(regions.Register("in", {"/in", 0, 4096}, "alice"));
//   const CallersRegions alices(&regions, {"alice"});
//   RETURN_IF_ERROR(alices.Read("in", /*offset=*/64, tensor.bytes(), tensor.data()));
//
// Regions are read and written by the descriptor and never mapped. Their owner may make one smaller at any moment: a read
// then comes to its end, where mapped memory would end the server. A region that is forgotten while it is used is there
// until its users are done.

#ifndef SERVER_WIRE_SHARED_REGIONS_H_
#define SERVER_WIRE_SHARED_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"

namespace gluond::server {

// The user of regions.
struct RegionUser {
  std::string name = {};      // As of Register.
  bool is_everybody = false;  // All regions are his: he is an admin, or the server does not ask who calls.
};

class SharedRegions {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kLongestName = 255;  // In bytes; of a region and of a key.

  // A region as it was registered.
  struct Facts {
    std::string key;
    uint64_t offset = 0;  // In bytes, within the object of that key.
    uint64_t byte_size = 0;
  };

  // `key` is a name of shm_open, and `owner` the only user whose region it is. INVALID_ARGUMENT: `key` could be a path, or
  // the object has fewer bytes. NOT_FOUND: there is no such object, or this process may not write it. ALREADY_EXISTS: a
  // region has the name. RESOURCE_EXHAUSTED: there are kMost.
  absl::Status Register(const std::string& name, const Facts& facts, const std::string& owner = "");
  // Forgets a region, or all of them where the name is empty. One that is not known is forgotten already.
  void Unregister(const std::string& name);

 private:
  friend class CallersRegions;
  class Region;
  using RegionPtr = std::shared_ptr<const Region>;

  absl::StatusOr<RegionPtr> Find(const std::string& name, const RegionUser& user) const;

  mutable Mutex mu_;
  std::map<std::string, RegionPtr> regions_ ABSL_GUARDED_BY(mu_);
};

// The regions that a caller has registered.
class CallersRegions {
 public:
  CallersRegions() = default;  // The server takes and gives no values by shared memory.
  // `regions`: null where the server takes none. They outlive this.
  CallersRegions(const SharedRegions* regions, RegionUser user) : regions_(regions), user_(std::move(user)) {}

  bool any() const { return regions_ != nullptr; }
  // Those that follow require: any().

  // The user's regions, by name: one, or all where the name is empty. NOT_FOUND: he has none of that name.
  absl::StatusOr<std::map<std::string, SharedRegions::Facts>> List(const std::string& name) const;
  // Copies `bytes` bytes at `offset` of the region. NOT_FOUND: the user has no such region. INVALID_ARGUMENT: they do not lie
  // in it, or its object has become smaller.
  absl::Status Read(const std::string& name, uint64_t offset, size_t bytes, void* to) const;
  absl::Status Write(const std::string& name, uint64_t offset, size_t bytes, const void* from) const;

 private:
  const SharedRegions* regions_ = nullptr;
  RegionUser user_;
};

}  // namespace gluond::server

#endif  // SERVER_WIRE_SHARED_REGIONS_H_
