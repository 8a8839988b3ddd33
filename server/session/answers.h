// SessionAnswers: the answers to the client of one session: values, types, results, and failures, each told once.

#ifndef SERVER_SESSION_ANSWERS_H_
#define SERVER_SESSION_ANSWERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/imperative/value.h"
#include "gluond/v1/session.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// Elements [begin, end) of an array in row-major order.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Used on the session's lane. `number`: the number of the command that is answered, or that has failed.
class SessionAnswers : public std::enable_shared_from_this<SessionAnswers> {
 public:
  // Sends an answer without its index, and its large tensors. `bytes`: the size of the tensors.
  using Send = std::function<void(v1::Reply reply, Attachments attachments, int64_t bytes)>;

  // Arrays whose values an answer waits for, by name.
  struct Wanted {
    std::vector<ValuePtr> values;
    std::vector<uint64_t> arrays;
    void Add(uint64_t array, ValuePtr value) {
      arrays.push_back(array);
      values.push_back(std::move(value));
    }
  };

  // `max_bytes`: the limit of the tensors in one answer.
  SessionAnswers(int64_t max_bytes, Send send) : max_bytes_(max_bytes), send_(std::move(send)) {}

  // Keeps a failure of arrays: told where they are asked for, and by All.
  void Remember(const FailurePtr& failure);
  // Keeps a failure of a command that makes no array: told with the next answer.
  void Note(const absl::Status& status, uint64_t number);

  void Fail(const absl::Status& status, uint64_t number);
  // The same with a failure that arrays have, too.
  void Fail(const FailurePtr& failure, uint64_t number);
  // Answers with a result, or with the reason why there is none.
  template <class T>
  void Result(absl::StatusOr<T> result, T* (v1::Reply::*field)(), uint64_t number) {
    if (!result.ok()) return Fail(result.status(), number);
    v1::Reply reply;
    TellNoted(&reply);
    *(reply.*field)() = *std::move(result);
    Answer(std::move(reply), number);
  }
  // Answers, when all values are known, with that part of each, or with all of it in its shape.
  void Values(Wanted wanted, std::optional<ElementRange> range, uint64_t number);
  // Likewise with shapes, dtypes and devices, and the names of the arrays' gradients, 0 where there is none.
  void Types(Wanted wanted, std::vector<uint64_t> gradients, uint64_t number);
  // Calls `then` with the tensors when all values are known. Where some have failed, answers with their failures, and calls
  // `failed`, unless it is null, with the code of the first failure.
  void Await(Wanted wanted, uint64_t number, std::function<void(std::vector<Tensor>)> then,
             std::function<void(absl::StatusCode)> failed = nullptr);
  // Lets All wait for the value.
  void Watch(const ValuePtr& value);
  // Answers, when all watched values are known, with every failure that the client has not been told of.
  void All(uint64_t number);

  // Ends all answers.
  void End() { ended_ = true; }
  bool ended() const { return ended_; }

 private:
  template <class Then>
  void When(Wanted wanted, Then then);
  static void Tell(const FailurePtr& failure, uint64_t array, v1::Reply* reply);
  void TellNoted(v1::Reply* reply);
  void TellFailures(const Wanted& wanted, v1::Reply* reply);
  void Answer(v1::Reply reply, uint64_t number, Attachments attachments = {}, int64_t bytes = 0);
  void ForgetKnown();

  const int64_t max_bytes_;
  const Send send_;
  bool ended_ = false;
  std::vector<FailurePtr> untold_;  // For All.
  std::vector<FailurePtr> noted_;
  std::vector<std::weak_ptr<Value>> unknown_;  // Watched values that are not known yet, or were not a while ago.
  size_t unknown_at_least_ = 0;                // So many of `unknown_` were not known when the others were forgotten.
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_ANSWERS_H_
