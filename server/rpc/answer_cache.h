// AnswerCache: the answers of numbered calls, kept for repetitions of the calls within a budget of bytes: the oldest go
// first, of whoever keeps most, and all after a time. Not thread-safe.

#ifndef SERVER_RPC_ANSWER_CACHE_H_
#define SERVER_RPC_ANSWER_CACHE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/rpc/holdings.h"

namespace gluond::server {

class AnswerCache {
 public:
  using Clock = std::chrono::steady_clock;

  // So many answers are kept for one client and model, and so many bytes of them, but for the last one.
  static constexpr size_t kAnswersKept = 64;
  static constexpr size_t kAnswerBytesKept = 1 << 20;
  // Bytes that an answer takes beside its text.
  static constexpr size_t kAnswerOverhead = 256;

  struct Answer {
    uint64_t payload = 0;  // Hash of the request.
    std::shared_ptr<const std::string> text;

    size_t bytes() const { return text->size() + kAnswerOverhead; }
  };
  struct Answers;

  explicit AnswerCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Adds the answer to the next number.
  void Keep(const Holder& holder, Answer answer, Answers* answers);
  void Drop(Answers* answers);
  void DropOlderThan(Clock::duration age, Clock::time_point now);
  size_t bytes() const { return ages_.size(); }

 private:
  // An answer's place among all of its holder's.
  struct Age {
    Answers* answers;
    Clock::time_point since;
  };
  void DropOldest(Answers* answers);

  const size_t max_bytes_;
  Holdings<Age> ages_;  // Points into the answers.
};

// The last answers for one client and model, without gap, which AnswerCache alone changes. Stays where it is; dropped before it
// ends.
struct AnswerCache::Answers {
  struct Kept {
    Answer answer;
    Holdings<Age>::Place age;
  };

  Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  Holder holder;
  std::deque<Kept> kept;  // The oldest is the first.
  size_t bytes = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_ANSWER_CACHE_H_
