// A pending fact is one that a shape or type rule needs and that the operator's client is being asked for. The rule
// returns Question::Pending at once, so that no thread waits for the answer; its caller goes on with something else, and
// tries again when the answer is there:
//
//   absl::Status status = Compile();
//   if (AwaitFact(status, [=] { TryAgain(); })) return;
//
// Thread-safe.

#ifndef ENGINE_CORE_PENDING_FACT_H_
#define ENGINE_CORE_PENDING_FACT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace gluond {

// A question that is open until it is answered, or until it goes.
class Question {
 public:
  Question();
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // UNAVAILABLE, "`what` is being asked for; try again", and a payload by which AwaitFact knows the question.
  absl::Status Pending(const std::string& what) const;
  // Calls everything that awaits the answer. Once.
  void Answered();

 private:
  const uint64_t id_;
};

// Whether `status` comes from a question. If so, `then` is called when that is answered, at once if it is; on any
// thread.
bool AwaitFact(const absl::Status& status, std::function<void()> then);

}  // namespace gluond

#endif  // ENGINE_CORE_PENDING_FACT_H_
