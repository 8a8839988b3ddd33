// Meeting is a Rendezvous over Join: what a rank sets goes to the leader, who tells the others of the ring.

#ifndef SERVER_GROUP_MEETING_H_
#define SERVER_GROUP_MEETING_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "server/group/rendezvous.h"

namespace gluond::server {

class Meeting final : public Rendezvous {
 public:
  using Tell = std::function<void(const std::string& key, const std::string& value)>;

  // `tell` brings a text to the others. Any thread calls it.
  explicit Meeting(Tell tell) : tell_(std::move(tell)) {}

  // A text of another rank has come.
  void Heard(const std::string& key, const std::string& value) {
    {
      MutexLock lock(mu_);
      texts_.emplace(key, value);
    }
    changed_.NotifyAll();
  }

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    Heard(std::string(key), std::string(value));
    tell_(std::string(key), std::string(value));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(absl::string_view key, Time deadline) override {
    MutexLock lock(mu_);
    while (true) {
      if (is_cancelled_) return absl::CancelledError("the ring is not wanted any more");
      if (const auto found = texts_.find(std::string(key)); found != texts_.end()) return found->second;
      if (!changed_.WaitUntil(mu_, deadline)) {
        return absl::DeadlineExceededError(absl::StrCat("no rank of the ring has told '", key, "' in time"));
      }
    }
  }
  void Cancel() override {
    {
      MutexLock lock(mu_);
      is_cancelled_ = true;
    }
    changed_.NotifyAll();
  }

 private:
  const Tell tell_;
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::string> texts_ ABSL_GUARDED_BY(mu_);
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_MEETING_H_
