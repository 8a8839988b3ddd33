#include "engine/core/pending_fact.h"

#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"

namespace gluond {
namespace {

constexpr char kPendingPayload[] = "gluond/pending-fact";

struct OpenQuestions {
  Mutex mu;
  std::map<uint64_t, std::vector<std::function<void()>>> waiting ABSL_GUARDED_BY(mu);
};

OpenQuestions& Open() {
  static OpenQuestions& open = *new OpenQuestions;
  return open;
}

uint64_t NextId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Question::Question() : id_(NextId()) {
  OpenQuestions& open = Open();
  MutexLock lock(open.mu);
  open.waiting[id_];
}

Question::~Question() { Answered(); }

absl::Status Question::Pending(const std::string& what) const {
  absl::Status status = absl::UnavailableError(absl::StrCat(what, " is being asked for; try again"));
  status.SetPayload(kPendingPayload, absl::Cord(absl::StrCat(id_)));
  return status;
}

void Question::Answered() {
  std::vector<std::function<void()>> waiting;
  {
    OpenQuestions& open = Open();
    MutexLock lock(open.mu);
    const auto it = open.waiting.find(id_);
    if (it == open.waiting.end()) return;
    waiting = std::move(it->second);
    open.waiting.erase(it);
  }
  for (const auto& then : waiting) then();
}

bool AwaitFact(const absl::Status& status, std::function<void()> then) {
  if (status.ok()) return false;
  const auto payload = status.GetPayload(kPendingPayload);
  uint64_t id = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &id)) return false;
  {
    OpenQuestions& open = Open();
    MutexLock lock(open.mu);
    const auto it = open.waiting.find(id);
    if (it != open.waiting.end()) {
      it->second.push_back(std::move(then));
      return true;
    }
  }
  then();
  return true;
}

}  // namespace gluond
