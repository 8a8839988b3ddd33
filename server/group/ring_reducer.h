// RingReducer adds up the gradients of one step over a ring.

#ifndef SERVER_GROUP_RING_REDUCER_H_
#define SERVER_GROUP_RING_REDUCER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/mutex.h"
#include "engine/train/gradient_reducer.h"
#include "server/group/ring.h"

namespace gluond::server {

class RingReducer final : public GradientReducer, public std::enable_shared_from_this<RingReducer> {
 public:
  using Clock = std::chrono::steady_clock;

  // A step of the model of that name. The ring outlives the step.
  RingReducer(Ring& ring, std::string model) : ring_(ring), model_(std::move(model)) {}

  void Begin(absl::Span<const View> layout) override {
    std::vector<GradientBucket> buckets;
    for (const View& view : layout) buckets.push_back({view.dtype, nullptr, view.elements});
    {
      MutexLock lock(mu_);
      ++under_way_;
    }
    ring_.Compare(model_, std::move(buckets), [self = shared_from_this()](const absl::Status& status) { self->Ended(status); });
  }
  void Start(const View& view) override {
    {
      MutexLock lock(mu_);
      ++under_way_;
    }
    ring_.Start({view.dtype, view.data, view.elements},
                [self = shared_from_this()](const absl::Status& status) { self->Ended(status); });
  }
  void Finish(std::function<void(absl::Status)> done) override {
    absl::Status status;
    {
      MutexLock lock(mu_);
      finished_ = Clock::now();
      if (under_way_ > 0) {
        done_ = std::move(done);
        return;
      }
      status = status_;
    }
    done(std::move(status));
  }
  void Abort() override { ring_.Abort(); }

  // Whether the ring has failed, and not what this process computed. Buckets that differ are this process's: another ring would
  // find the same.
  bool has_failed() const {
    MutexLock lock(mu_);
    return !status_.ok() && !absl::IsFailedPrecondition(status_);
  }
  // Since when this process has done its own work, and waits for the sums alone. Nothing: it does not wait.
  std::optional<Clock::time_point> waits_since() const {
    MutexLock lock(mu_);
    return done_ == nullptr ? std::nullopt : std::optional(finished_);
  }
  // The time from the end of this process' own work to the end of the sums.
  Clock::duration waited() const {
    MutexLock lock(mu_);
    return waited_;
  }

 private:
  void Ended(const absl::Status& status) {
    std::function<void(absl::Status)> done;
    absl::Status first;
    {
      MutexLock lock(mu_);
      status_.Update(status);
      if (--under_way_ > 0 || done_ == nullptr) return;
      waited_ = Clock::now() - finished_;
      done = std::exchange(done_, nullptr);
      first = status_;
    }
    done(std::move(first));
  }

  Ring& ring_;
  const std::string model_;
  mutable Mutex mu_;
  int64_t under_way_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::function<void(absl::Status)> done_ ABSL_GUARDED_BY(mu_);
  Clock::time_point finished_ ABSL_GUARDED_BY(mu_);
  Clock::duration waited_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_RING_REDUCER_H_
