// VersionWatchers tells servers that follow this one what is published here (ServingService.FollowVersions). Thread-safe.
//
//   watchers->Watch(opening);
//   watchers->Sweep();   // Every second or so.
//
// A sweep that finds a change has the whole list made anew on a thread of the disk. A follower that takes its messages slowly gets
// the last list alone; one that takes none in time is cut off.

#ifndef SERVER_SERVICES_VERSION_WATCHERS_H_
#define SERVER_SERVICES_VERSION_WATCHERS_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "engine/core/mutex.h"
#include "gluond/v1/serving.pb.h"
#include "server/rpc/runner.h"
#include "server/rpc/stream.h"
#include "server/serving/publisher.h"

namespace gluond::server {

class VersionWatchers : public std::enable_shared_from_this<VersionWatchers> {
 public:
  // A follower hears so often that the server is there.
  static constexpr std::chrono::seconds kWord{5};

  // Both outlive all work of the runner's.
  VersionWatchers(Runner& runner, const Publisher& publisher) : runner_(runner), publisher_(publisher) {}

  std::shared_ptr<Stream> Watch(Stream::Opening opening);
  void Sweep();

 private:
  class Watcher;
  using List = std::shared_ptr<const v1::FollowVersionsResponse>;

  // Makes the list anew if it has changed, on a thread that may wait.
  void Look();
  // Requires mu_, which all watchers share: clang does not know that.
  void TellAll() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Runner& runner_;
  const Publisher& publisher_;
  Mutex mu_;
  absl::flat_hash_set<Watcher*> watchers_ ABSL_GUARDED_BY(mu_);
  bool looking_ ABSL_GUARDED_BY(mu_) = false;
  std::string seen_ ABSL_GUARDED_BY(mu_);  // The state that the list shows.
  List list_ ABSL_GUARDED_BY(mu_);         // Null: there is none yet.
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_VERSION_WATCHERS_H_
