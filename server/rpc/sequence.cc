#include "server/rpc/sequence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"

namespace gluond::server {
namespace {

constexpr size_t kMaxWaiting = 64;

std::string Who(const std::string& client, const std::string& model) {
  return absl::StrCat("client '", client, "' and model '", model, "'");
}

absl::Status Rewound(const std::string& client, const std::string& model, uint64_t number, uint64_t last) {
  return WithInfo(absl::AbortedError(absl::StrCat(
                      "sequence ", number, " is ahead of the server, which was started anew: the last applied for ",
                      Who(client, model), " that is left is ", last, "; go on after it")),
                  reason::kRewound, {{"last", absl::StrCat(last)}});
}

}  // namespace

void Sequences::Arrive(Arrival arrival) {
  Verdicts verdicts;
  {
    MutexLock lock(mu_);
    const Key key{arrival.client, arrival.model};
    if (Stream none; arrival.number > 1 && !streams_.contains(key)) {
      none.is_rewound = rewound_;
      Judge(none, std::move(arrival), &verdicts);  // A gap. It takes no other stream's place.
    } else if (const absl::StatusOr<Stream*> stream = FindOrAdd(key); !stream.ok()) {
      verdicts.push_back([refuse = std::move(arrival.refuse), status = stream.status()] { refuse(status); });
    } else if (((*stream)->running || IsPaused(key)) && (*stream)->waiting.size() < kMaxWaiting &&
               arrival.number > (*stream)->last) {
      const uint64_t number = arrival.number;
      (*stream)->waiting.emplace(number, std::move(arrival));
    } else {
      Judge(**stream, std::move(arrival), &verdicts);
      ForgetIfNew(key);
    }
  }
  for (const auto& verdict : verdicts) verdict();
}

// A stream without an applied call is forgotten, so that it takes no place from one that has some.
void Sequences::ForgetIfNew(const Key& key) {
  const auto found = streams_.find(key);
  const Stream& stream = found->second;
  if (stream.running || stream.last > 0 || !stream.waiting.empty()) return;
  Forget(found);
}

void Sequences::Forget(Streams::iterator stream) {
  while (!stream->second.answers.empty()) DropOldestOf(stream->second);
  const Owners::iterator owner = stream->second.owner;
  owner->second.streams.erase(stream->second.age);
  if (owner->second.streams.empty()) owners_.erase(owner);
  streams_.erase(stream);
}

bool Sequences::ForgetOldest(const Owner& owner) {
  for (const Key& key : owner.streams) {
    const auto stream = streams_.find(key);
    if (stream->second.running || !stream->second.waiting.empty()) continue;
    Forget(stream);
    return true;
  }
  return false;
}

absl::Status Sequences::MakeRoomFor(absl::string_view owner, std::optional<int64_t> most) {
  const auto found = owners_.find(owner);
  const size_t own = found == owners_.end() ? 0 : found->second.streams.size();
  if (most.has_value() && own > 0 && static_cast<int64_t>(own) >= *most && !ForgetOldest(found->second)) {
    return OverLimit("--tenants:clients", "numbered calls of ", own, " clients of tenant '", owner,
                     "' run, and its quota is clients=", *most, "; try again later");
  }
  if (streams_.size() < max_streams_) return absl::OkStatus();
  const size_t owners = owners_.size() + (own == 0);
  if (own < std::max<size_t>(1, max_streams_ / owners)) {
    const auto has_less = [](const auto& a, const auto& b) { return a.second.streams.size() < b.second.streams.size(); };
    if (ForgetOldest(std::max_element(owners_.begin(), owners_.end(), has_less)->second)) return absl::OkStatus();
  }
  if (own > 0 && ForgetOldest(found->second)) return absl::OkStatus();
  return OverLimit("--max_clients", "numbered calls of ", streams_.size(), " clients run, the limit of --max_clients; "
                   "try again later");
}

void Sequences::Judge(Stream& stream, Arrival arrival, Verdicts* verdicts) {
  const auto refuse = [&](absl::Status status) {
    verdicts->push_back([call = std::move(arrival.refuse), status = std::move(status)] { call(status); });
  };
  const uint64_t number = arrival.number;
  if (number > stream.last) {
    if (stream.running || IsPaused({arrival.client, arrival.model})) {
      return refuse(WithInfo(absl::ResourceExhaustedError(absl::StrCat(
                                 "more than ", kMaxWaiting, " numbered calls of ", Who(arrival.client, arrival.model),
                                 " wait; send fewer at once")),
                             reason::kTooManyCalls));
    }
    if (number != stream.last + 1 && stream.is_rewound) {
      return refuse(Rewound(arrival.client, arrival.model, number, stream.last));
    }
    if (number != stream.last + 1) {
      return refuse(WithInfo(absl::FailedPreconditionError(absl::StrCat(
                                 "sequence ", number, " leaves a gap: the last applied for ",
                                 Who(arrival.client, arrival.model), " is ", stream.last, "; send ", stream.last + 1,
                                 " next")),
                             reason::kSequenceGap, {{"last", absl::StrCat(stream.last)}}));
    }
    stream.running = true;
    const Key key{arrival.client, arrival.model};
    verdicts->push_back([this, key, number, payload = arrival.payload, run = std::move(arrival.run)] {
      run(std::make_unique<Turn>(
          [this, key, number, payload](std::shared_ptr<const std::string> answer) {
            Ended(key, number, payload, std::move(answer));
          },
          [this, key](Turn::GoOn go_on) { Between(key, std::move(go_on)); }));
    });
    return;
  }
  const uint64_t oldest = stream.last + 1 - stream.answers.size();
  if (number < oldest) {
    return refuse(WithInfo(absl::FailedPreconditionError(absl::StrCat(
        "sequence ", number, " was applied, but its answer is no longer kept: the last applied for ",
        Who(arrival.client, arrival.model), " is ", stream.last,
        stream.answers.empty() ? ", and no answer is kept (--max_answer_bytes, --answer_lease_seconds)"
                               : absl::StrCat(", and the answers since ", oldest, " are kept"))),
                           reason::kAnswerForgotten, {{"last", absl::StrCat(stream.last)}}));
  }
  const Answer& answer = stream.answers[number - oldest];
  if (answer.payload != arrival.payload) {
    return refuse(WithInfo(absl::InvalidArgumentError(absl::StrCat(
                               "sequence ", number, " was applied with another request; a new request takes a new "
                               "number, now ", stream.last + 1)),
                           reason::kSequenceReused, {{"last", absl::StrCat(stream.last)}}));
  }
  verdicts->push_back([replay = std::move(arrival.replay), text = answer.text] { replay(*text); });
}

void Sequences::JudgeWaiting(const Key& key, Stream& stream, Verdicts* verdicts) {
  while (!stream.waiting.empty()) {
    const auto first = stream.waiting.begin();
    if ((stream.running || IsPaused(key)) && first->first > stream.last) return;
    Arrival arrival = std::move(first->second);
    stream.waiting.erase(first);
    Judge(stream, std::move(arrival), verdicts);
  }
}

void Sequences::Between(const Key& key, Turn::GoOn go_on) {
  Verdicts verdicts;
  bool waits = false;
  {
    MutexLock lock(mu_);
    if (IsPaused(key)) {
      waits = true;
      streams_.at(key).go_on = std::move(go_on);
      BeginPause(key.second, &verdicts);
    }
  }
  if (!waits) return go_on();
  for (auto& verdict : verdicts) post_(std::move(verdict));
}

void Sequences::Ended(const Key& key, uint64_t number, uint64_t payload, std::shared_ptr<const std::string> answer) {
  Verdicts verdicts;
  {
    MutexLock lock(mu_);
    Stream& stream = streams_.at(key);  // A stream that runs is never forgotten.
    stream.running = false;
    if (answer != nullptr) {
      stream.last = number;
      stream.is_rewound = false;
      Keep(stream, {number, payload, std::move(answer), {}});
    }
    JudgeWaiting(key, stream, &verdicts);
    if (IsPaused(key)) BeginPause(key.second, &verdicts);
    ForgetIfNew(key);
  }
  for (auto& verdict : verdicts) post_(std::move(verdict));
}

void Sequences::Pause(const std::string& model, Paused paused) {
  Verdicts verdicts;
  {
    MutexLock lock(mu_);
    pauses_[model].waiting.push_back(std::move(paused));
    BeginPause(model, &verdicts);
  }
  for (const auto& verdict : verdicts) verdict();
}

void Sequences::BeginPause(const std::string& model, Verdicts* verdicts) {
  Pauses& pauses = pauses_.at(model);
  if (pauses.begun) return;
  Numbers applied;
  for (const auto& [key, stream] : streams_) {
    if (key.second != model) continue;
    if (stream.running && stream.go_on == nullptr) return;
    const uint64_t last = stream.running ? stream.last + 1 : stream.last;
    if (last > 0) applied.emplace_back(key.first, last);
  }
  pauses.begun = true;
  verdicts->push_back([paused = std::move(pauses.waiting.front()), applied = std::move(applied)] { paused(applied); });
}

void Sequences::Resume(const std::string& model) {
  Verdicts verdicts;
  {
    MutexLock lock(mu_);
    Pauses& pauses = pauses_.at(model);
    pauses.begun = false;
    pauses.waiting.pop_front();
    if (!pauses.waiting.empty()) {
      BeginPause(model, &verdicts);
    } else {
      pauses_.erase(model);
      std::vector<Key> keys;  // A stream that is forgotten leaves the map.
      for (auto& [key, stream] : streams_) {
        if (key.second != model) continue;
        JudgeWaiting(key, stream, &verdicts);
        if (stream.go_on != nullptr) verdicts.push_back(std::exchange(stream.go_on, nullptr));
        keys.push_back(key);
      }
      for (const Key& key : keys) ForgetIfNew(key);
    }
  }
  for (auto& verdict : verdicts) post_(std::move(verdict));
}

void Sequences::MadeDurable(const std::string& model, const Numbers& applied) {
  MutexLock lock(mu_);
  for (const auto& [client, last] : applied) {
    const auto found = streams_.find({client, model});
    if (found != streams_.end()) found->second.durable = std::max(found->second.durable, last);
  }
}

void Sequences::ForgetDurable(const std::string& model) {
  MutexLock lock(mu_);
  for (auto& [key, stream] : streams_) {
    if (key.second == model) stream.durable = 0;
  }
}

void Sequences::Restore(const std::string& model, const Numbers& applied) {
  MutexLock lock(mu_);
  for (const auto& [client, last] : applied) {
    const absl::StatusOr<Stream*> stream = FindOrAdd({client, model});
    if (!stream.ok()) return;
    (*stream)->last = (*stream)->durable = last;
    (*stream)->is_rewound = true;
  }
}

void Sequences::Keep(Stream& stream, Answer answer) {
  Owner& owner = stream.owner->second;
  stream.answer_bytes += answer.bytes();
  owner.answer_bytes += answer.bytes();
  answer_bytes_ += answer.bytes();
  answer.age = owner.answers.insert(owner.answers.end(), {&stream, Clock::now()});
  stream.answers.push_back(std::move(answer));
  while (stream.answers.size() > kAnswersKept ||
         (stream.answers.size() > 1 && stream.answer_bytes > kAnswerBytesKept)) {
    DropOldestOf(stream);
  }
  // The oldest of all of an owner's is the oldest of its stream, too. An answer that is itself over the budget goes with the
  // owner's others.
  const auto has_less = [](const auto& a, const auto& b) { return a.second.answer_bytes < b.second.answer_bytes; };
  while (answer_bytes_ > max_answer_bytes_) {
    DropOldestOf(*std::max_element(owners_.begin(), owners_.end(), has_less)->second.answers.front().stream);
  }
}

void Sequences::DropOldestOf(Stream& stream) {
  const Answer& oldest = stream.answers.front();
  Owner& owner = stream.owner->second;
  stream.answer_bytes -= oldest.bytes();
  owner.answer_bytes -= oldest.bytes();
  answer_bytes_ -= oldest.bytes();
  owner.answers.erase(oldest.age);
  stream.answers.pop_front();
}

void Sequences::DropAnswersOf(const std::string& model) {
  MutexLock lock(mu_);
  for (auto& [key, stream] : streams_) {
    if (key.second != model) continue;
    while (!stream.answers.empty()) DropOldestOf(stream);
  }
}

void Sequences::DropAnswersOlderThan(Clock::duration age, Clock::time_point now) {
  MutexLock lock(mu_);
  for (auto& [name, owner] : owners_) {
    while (!owner.answers.empty() && now - owner.answers.front().since > age) DropOldestOf(*owner.answers.front().stream);
  }
}

size_t Sequences::answer_bytes() const {
  MutexLock lock(mu_);
  return answer_bytes_;
}

absl::StatusOr<Sequences::Stream*> Sequences::FindOrAdd(const Key& key) {
  const auto found = streams_.find(key);
  if (found != streams_.end()) {
    std::list<Key>& its = found->second.owner->second.streams;
    its.splice(its.end(), its, found->second.age);
    return &found->second;
  }
  absl::string_view owner = TenantOf(key.first);
  const std::optional<int64_t> most = most_of_tenant_ == nullptr || owner.empty() ? std::nullopt : most_of_tenant_(owner);
  if (!most.has_value()) owner = "";
  RETURN_IF_ERROR(MakeRoomFor(owner, most));
  Stream& stream = streams_[key];
  stream.owner = owners_.try_emplace(std::string(owner)).first;
  std::list<Key>& its = stream.owner->second.streams;
  stream.age = its.insert(its.end(), key);
  return &stream;
}

uint64_t Sequences::Durable(const std::string& client, const std::string& model) const {
  MutexLock lock(mu_);
  const auto found = streams_.find({client, model});
  return found == streams_.end() ? 0 : found->second.durable;
}

uint64_t Sequences::Last(const std::string& client, const std::string& model) const {
  MutexLock lock(mu_);
  const auto found = streams_.find({client, model});
  return found == streams_.end() ? 0 : found->second.last;
}

}  // namespace gluond::server
