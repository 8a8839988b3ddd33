// Lineage: which servers this one follows in turn, its leader first, by a random number of each process. Thread-safe.
//
// Servers tell it to those that follow them, so that one that follows itself, directly or by others, finds its own number.

#ifndef SERVER_SERVING_LINEAGE_H_
#define SERVER_SERVING_LINEAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"

namespace gluond::server {

class Lineage {
 public:
  static constexpr size_t kMost = 64;

  // `follows`: whether this server follows another one.
  explicit Lineage(bool follows);

  // This process, its leader, and so on.
  std::vector<uint64_t> Line() const;
  // `line`: the leader's Line. FAILED_PRECONDITION: this process is in it, or it has more than `kMost` servers.
  absl::Status SetLeader(std::vector<uint64_t> line);

  // Whether the versions that are here are worth telling though there are none: always, but for a follower that is not ready.
  bool is_ready() const;
  void SetReady();

 private:
  const uint64_t process_;
  mutable Mutex mu_;
  std::vector<uint64_t> leaders_ ABSL_GUARDED_BY(mu_);
  bool is_ready_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_LINEAGE_H_
