// Holding: takes hold of models as they are between two calls, each on its own strand. A call may keep a strand for minutes, as one
// whose client does not answer for its operator. Such a model can be left out.

#ifndef SERVER_GROUP_HOLDING_H_
#define SERVER_GROUP_HOLDING_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/group/held_model.h"

namespace gluond::server {

// Thread-safe.
class Holding {
 public:
  using Done = std::function<void(HeldModels)>;

  // `done` is called once, on any thread.
  static std::shared_ptr<Holding> Begin(NamedModels models, Done done);

  // Leaves out the models whose turn has not come: their status is UNAVAILABLE.
  void GiveUpLate();

 private:
  explicit Holding(Done done) : done_(std::move(done)) {}
  void Held(size_t i, absl::StatusOr<Checkpoint> checkpoint);
  void Tell();

  Mutex mu_;
  Done done_ ABSL_GUARDED_BY(mu_);  // Null: all is told.
  HeldModels models_ ABSL_GUARDED_BY(mu_);
  std::set<size_t> waiting_ ABSL_GUARDED_BY(mu_);                                   // Models whose turn has not come,
  std::map<size_t, std::shared_ptr<std::atomic<bool>>> late_ ABSL_GUARDED_BY(mu_);  // and those that were left out.
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_HOLDING_H_
