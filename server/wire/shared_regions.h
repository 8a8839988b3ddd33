// SharedRegions: parts of POSIX shared memory (shm_open) by which clients on this machine give and take tensors. Thread-safe.
//
//   RETURN_IF_ERROR(regions.Register("in", "/in", 0, 4096));
//   RETURN_IF_ERROR(regions.Read("in", /*offset=*/64, tensor.bytes(), tensor.data()));
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"

namespace gluond::server {

class SharedRegions {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kLongestName = 255;  // In bytes; of a region and of a key.

  // A region as it was registered.
  struct Facts {
    std::string key;
    uint64_t offset = 0;     // In bytes, within the object of that key.
    uint64_t byte_size = 0;
  };

  // `key` is a name of shm_open. INVALID_ARGUMENT: it could be a path, or the object has fewer bytes. NOT_FOUND: there is no
  // such object, or this process may not write it. ALREADY_EXISTS: a region has the name. RESOURCE_EXHAUSTED: there are kMost.
  absl::Status Register(const std::string& name, const Facts& facts);
  // Forgets a region, or all of them where the name is empty. One that is not known is forgotten already.
  void Unregister(const std::string& name);
  // By name: one region, or all where the name is empty. NOT_FOUND: there is none of that name.
  absl::StatusOr<std::map<std::string, Facts>> List(const std::string& name) const;

  // Copies `bytes` bytes at `offset` of the region. NOT_FOUND: there is no such region. INVALID_ARGUMENT: they do not lie in
  // it, or its object has become smaller.
  absl::Status Read(const std::string& name, uint64_t offset, size_t bytes, void* to) const;
  absl::Status Write(const std::string& name, uint64_t offset, size_t bytes, const void* from) const;

 private:
  class Region;
  using RegionPtr = std::shared_ptr<const Region>;

  absl::StatusOr<RegionPtr> Find(const std::string& name) const;

  mutable Mutex mu_;
  std::map<std::string, RegionPtr> regions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_WIRE_SHARED_REGIONS_H_
