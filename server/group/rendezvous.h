// Rendezvous: texts by which the ranks of a ring find each other before they are connected. All can get what one rank sets. Each
// rank has a Rendezvous of its own, over its Join with the leader, who keeps the texts until the generation ends. Thread-safe.

#ifndef SERVER_GROUP_RENDEZVOUS_H_
#define SERVER_GROUP_RENDEZVOUS_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

class Rendezvous {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Rendezvous() = default;

  // A key is set once.
  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // Waits until some rank has set the key. DEADLINE_EXCEEDED: none has. CANCELLED: see Cancel.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, Time deadline) = 0;
  // Get ends at once, also when it is called later.
  virtual void Cancel() = 0;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_RENDEZVOUS_H_
