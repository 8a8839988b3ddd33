#include "server/rpc/sequence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/rpc/find_in.h"

namespace gluond::server {
namespace {

constexpr size_t kMaxWaiting = 64;

std::string Who(const std::string& client, const std::string& model) {
  return absl::StrCat("client '", client, "' and model '", model, "'");
}

absl::Status WithLast(absl::Status status, absl::string_view reason, uint64_t last) {
  return WithInfo(std::move(status), reason, {{"last", absl::StrCat(last)}});
}

absl::Status Ahead(const std::string& who, uint64_t number, uint64_t last, bool is_rewound) {
  if (is_rewound) {
    return WithLast(absl::AbortedError(absl::StrCat("sequence ", number,
                                                    " is ahead of the server, which was started anew: the last applied for ", who,
                                                    " that is left is ", last, "; go on after it")),
                    reason::kRewound, last);
  }
  return WithLast(FailedPrecondition("sequence ", number, " leaves a gap: the last applied for ", who, " is ", last, "; send ",
                                     last + 1, " next"),
                  reason::kSequenceGap, last);
}

absl::Status InPart(const std::string& who, uint64_t number, uint64_t last) {
  return WithLast(
      absl::AbortedError(absl::StrCat(
          "sequence ", number, " comes after a call of which a crash has left the first steps alone: ", last,
          ", the last applied for ", who, "; GetSequence tells how many steps the trainer has taken: go on from there")),
      reason::kRewound, last);
}

absl::Status Forgotten(const std::string& who, uint64_t number, uint64_t last, size_t kept) {
  return WithLast(
      FailedPrecondition("sequence ", number, " was applied, but its answer is no longer kept: the last applied for ", who, " is ",
                         last,
                         kept == 0 ? ", and no answer is kept (--max_answer_bytes, --answer_lease_seconds, --max_clients)"
                                   : absl::StrCat(", and the answers since ", last + 1 - kept, " are kept")),
      reason::kAnswerForgotten, last);
}

}  // namespace

void Sequences::Arrive(Arrival arrival) {
  Verdicts verdicts(at_once_);
  MutexLock lock(mu_);
  Decide(std::move(arrival), &verdicts);
}

void Sequences::Decide(Arrival arrival, Verdicts* verdicts) {
  const Key key{arrival.client, arrival.model};
  if (Find(key.client, key.model) == nullptr) {
    Series unknown;
    Recall(key, &unknown);
    if (OfModel none; arrival.number != unknown.last + 1) return Judge(none, unknown, std::move(arrival), verdicts);
    if (const absl::Status added = Add(key); !added.ok()) {
      return verdicts->Add([refuse = std::move(arrival.refuse), added] { refuse(added); });
    }
  }
  OfModel& of_model = models_.at(key.model);
  Series& series = of_model.series.at(key.client);
  Renew(series);
  const bool waits = (series.running || !of_model.pauses.empty()) && arrival.number > series.last;
  if (waits && series.waiting.size() < kMaxWaiting) {
    const uint64_t number = arrival.number;
    series.waiting.emplace(number, std::move(arrival));
    of_model.held.insert(key.client);
    return;
  }
  Judge(of_model, series, std::move(arrival), verdicts);
  EraseIfNew(key);
}

void Sequences::Judge(OfModel& of_model, Series& series, Arrival arrival, Verdicts* verdicts) {
  const std::string who = Who(arrival.client, arrival.model);
  const uint64_t number = arrival.number;
  const auto refuse = [&](absl::Status status) {
    verdicts->Add([call = std::move(arrival.refuse), status = std::move(status)] { call(status); });
  };
  if (number > series.last) {
    if (series.waiting.size() >= kMaxWaiting) {
      return refuse(WithInfo(absl::ResourceExhaustedError(
                                 absl::StrCat("more than ", kMaxWaiting, " numbered calls of ", who, " wait; send fewer at once")),
                             reason::kTooManyCalls));
    }
    if (number != series.last + 1) return refuse(Ahead(who, number, series.last, series.is_rewound));
    if (series.is_in_part && !series.is_told) return refuse(InPart(who, number, series.last));
    return Run(of_model, series, std::move(arrival), verdicts);
  }
  const size_t kept = series.answers.kept.size();
  const uint64_t oldest = series.last + 1 - kept;
  if (number < oldest) return refuse(Forgotten(who, number, series.last, kept));
  const AnswerCache::Answer& answer = series.answers.kept[number - oldest].answer;
  if (answer.payload != arrival.payload) {
    return refuse(WithLast(
        Invalid("sequence ", number, " was applied with another request; a new request takes a new number, now ", series.last + 1),
        reason::kSequenceReused, series.last));
  }
  verdicts->Add([replay = std::move(arrival.replay), text = answer.text] { replay(*text); });
}

void Sequences::Run(OfModel& of_model, Series& series, Arrival arrival, Verdicts* verdicts) {
  series.running = true;
  ++of_model.running;
  Key key{std::move(arrival.client), std::move(arrival.model)};
  verdicts->Add([this, key = std::move(key), payload = arrival.payload, run = std::move(arrival.run)] {
    run(std::make_unique<Turn>(*this, key, payload));
  });
}

void Sequences::JudgeWaiting(OfModel& of_model, const Key& key, Verdicts* verdicts) {
  Series& series = of_model.series.at(key.client);
  while (!series.waiting.empty()) {
    const auto first = series.waiting.begin();
    if ((series.running || !of_model.pauses.empty()) && first->first > series.last) return;
    Arrival arrival = std::move(first->second);
    series.waiting.erase(first);
    Judge(of_model, series, std::move(arrival), verdicts);
  }
  if (series.go_on == nullptr) of_model.held.erase(key.client);
}

void Sequences::Between(const Key& key, Turn::GoOn go_on) {
  Verdicts verdicts(post_);
  MutexLock lock(mu_);
  OfModel& of_model = models_.at(key.model);
  if (of_model.pauses.empty()) {
    lock.Unlock();
    return go_on();
  }
  of_model.series.at(key.client).go_on = std::move(go_on);
  of_model.held.insert(key.client);
  --of_model.running;
  BeginPause(key.model, &verdicts);
}

void Sequences::Ended(const Key& key, uint64_t payload, std::shared_ptr<const std::string> answer, Effect effect) {
  Verdicts verdicts(post_);
  MutexLock lock(mu_);
  OfModel& of_model = models_.at(key.model);
  Series& series = of_model.series.at(key.client);  // One that runs is never silenced.
  series.running = false;
  if (series.go_on == nullptr) --of_model.running;
  series.go_on = nullptr;
  if (answer != nullptr) {
    const bool was_settled = series.settled == series.last;
    ++series.last;
    if (effect == Effect::kSettles || (effect == Effect::kNone && was_settled)) series.settled = series.last;
    series.is_rewound = series.is_in_part = series.is_told = false;
    series.durable = std::min(series.durable, series.last - 1);  // A pause between its steps had a part of it.
    ++of_model.calls;
    ++calls_;
    answers_.Keep(series.holder, {payload, std::move(answer)}, &series.answers);
  }
  JudgeWaiting(of_model, key, &verdicts);
  if (!of_model.pauses.empty()) BeginPause(key.model, &verdicts);
  EraseIfNew(key);
}

void Sequences::Pause(const std::string& model, Paused paused) {
  Verdicts verdicts(at_once_);
  MutexLock lock(mu_);
  AddModel(model).pauses.push_back(std::move(paused));
  BeginPause(model, &verdicts);
}

void Sequences::BeginPause(const std::string& model, Verdicts* verdicts) {
  OfModel& of_model = models_.at(model);
  if (of_model.paused || of_model.running > 0) return;
  Numbers numbers;
  numbers.silent = silent_.Save(model);
  numbers.calls = of_model.calls;
  for (const auto& [client, series] : of_model.series) {
    const uint64_t last = series.running ? series.last + 1 : series.last;
    if (last == 0) continue;
    numbers.applied.emplace_back(client, last);
    numbers.settled.push_back(series.running ? last : series.settled);
    if (series.running || series.is_in_part) numbers.in_part.insert(client);
  }
  of_model.paused = true;
  verdicts->Add([paused = std::move(of_model.pauses.front()), numbers = std::move(numbers)] { paused(numbers); });
}

void Sequences::Resume(const std::string& model) {
  Verdicts verdicts(post_);
  MutexLock lock(mu_);
  OfModel& of_model = models_.at(model);
  of_model.paused = false;
  of_model.pauses.pop_front();
  if (!of_model.pauses.empty()) return BeginPause(model, &verdicts);
  const std::set<std::string> held = of_model.held;
  for (const std::string& client : held) {
    Series& series = of_model.series.at(client);
    if (series.go_on != nullptr) {
      ++of_model.running;
      verdicts.Add(std::exchange(series.go_on, nullptr));
    }
    JudgeWaiting(of_model, {client, model}, &verdicts);
  }
  for (const std::string& client : held) EraseIfNew({client, model});
  EraseIfEmpty(model);
}

void Sequences::MadeDurable(const std::string& model, const Numbers& numbers) {
  MutexLock lock(mu_);
  OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return;
  for (size_t i = 0; i < numbers.applied.size(); ++i) {
    const auto& [client, last] = numbers.applied[i];
    Series* const series = FindIn(of_model->series, client);
    if (series == nullptr) continue;
    // A call that has ended since that pause is durable in part alone.
    const bool has_ended = numbers.in_part.contains(client) && series->last >= last;
    series->durable = std::max(series->durable, has_ended && !series->is_in_part ? last - 1 : numbers.settled[i]);
  }
}

void Sequences::ForgetDurable(const std::string& model) {
  MutexLock lock(mu_);
  silent_.ForgetDurable(model);
  OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return;
  for (auto& [client, series] : of_model->series) series.durable = 0;
}

void Sequences::Restore(const std::string& model, const Numbers& numbers) {
  MutexLock lock(mu_);
  silent_.Take(model, numbers.silent);
  for (const auto& [client, last] : numbers.applied) {
    if (!Add({client, model}).ok()) {  // The limits are lower now.
      const SilentClients::Number number = {last, /*is_rewound=*/true, /*is_durable=*/true, numbers.in_part.contains(client)};
      (void)silent_.Add(model, client, "", number, /*within_share=*/false);
      continue;
    }
    Series& series = models_.at(model).series.at(client);
    series.is_in_part = numbers.in_part.contains(client);
    series.last = series.settled = series.durable = last;
    series.is_rewound = true;
  }
}

const Sequences::Series* Sequences::Find(const std::string& client, const std::string& model) const {
  const OfModel* const of_model = FindIn(models_, model);
  return of_model == nullptr ? nullptr : FindIn(of_model->series, client);
}

uint64_t Sequences::Durable(const std::string& client, const std::string& model) const {
  MutexLock lock(mu_);
  if (const Series* const series = Find(client, model)) return series->durable;
  const auto silent = silent_.Find(model, client);
  return silent.has_value() && silent->is_durable ? silent->last : 0;
}

uint64_t Sequences::Last(const std::string& client, const std::string& model) const {
  MutexLock lock(mu_);
  if (const Series* const series = Find(client, model)) return series->last;
  return silent_.Find(model, client).value_or(SilentClients::Number()).last;
}

bool Sequences::TellInPart(const std::string& client, const std::string& model) {
  MutexLock lock(mu_);
  OfModel* const of_model = FindIn(models_, model);
  Series* const series = of_model == nullptr ? nullptr : FindIn(of_model->series, client);
  if (series != nullptr) return series->is_told = series->is_in_part;
  return silent_.Find(model, client).value_or(SilentClients::Number()).is_in_part;
}

uint64_t Sequences::CallsOn(const std::string& model) const {
  MutexLock lock(mu_);
  const OfModel* const of_model = FindIn(models_, model);
  return of_model == nullptr ? 0 : of_model->calls;
}

void Sequences::DropModel(const std::string& model) {
  MutexLock lock(mu_);
  silent_.RemoveModel(model);
  OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return;
  for (auto& [client, series] : of_model->series) answers_.Drop(&series.answers);
}

void Sequences::DropAnswersOlderThan(Clock::duration age, Clock::time_point now) {
  MutexLock lock(mu_);
  answers_.DropOlderThan(age, now);
}

size_t Sequences::answer_bytes() const {
  MutexLock lock(mu_);
  return answers_.bytes();
}

size_t Sequences::num_silent() const {
  MutexLock lock(mu_);
  return silent_.size();
}

}  // namespace gluond::server
