#include "server/rpc/answer_cache.h"

#include <utility>
#include <vector>

namespace gluond::server {

void AnswerCache::Keep(const Holder& holder, Answer answer, Answers* answers) {
  const size_t bytes = answer.bytes();
  answers->holder = holder;
  answers->bytes += bytes;
  answers->kept.push_back({std::move(answer), ages_.Add(holder, {answers, Clock::now()}, bytes)});
  const auto& kept = answers->kept;
  while (kept.size() > kAnswersKept || (kept.size() > 1 && answers->bytes > kAnswerBytesKept)) DropOldest(answers);
  // The oldest of a holder's is the oldest of its client and model, too. An answer that is itself over the budget goes with
  // the holder's others.
  while (ages_.size() > max_bytes_) DropOldest(ages_.largest().largest().items.front().answers);
}

void AnswerCache::DropOldest(Answers* answers) {
  const Answers::Kept& oldest = answers->kept.front();
  const size_t bytes = oldest.answer.bytes();
  answers->bytes -= bytes;
  ages_.Remove(answers->holder, oldest.age, bytes);
  answers->kept.pop_front();
}

void AnswerCache::Drop(Answers* answers) {
  while (!answers->kept.empty()) DropOldest(answers);
}

void AnswerCache::DropOlderThan(Clock::duration age, Clock::time_point now) {
  std::vector<Answers*> old;  // Which lists there are changes with each answer that goes.
  for (const auto& [tenant, of_tenant] : ages_.tenants()) {
    for (const auto& [identity, its] : of_tenant.identities) {
      for (const Age& each : its.items) {
        if (now - each.since <= age) break;
        old.push_back(each.answers);
      }
    }
  }
  for (Answers* const answers : old) DropOldest(answers);
}

}  // namespace gluond::server
