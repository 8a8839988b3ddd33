#include "server/custom/callbacks.h"

#include <utility>

#include "engine/core/error_info.h"

namespace gluond::server {

absl::Status CustomCallbacks::Add(Provider& provider, WaitingPtr waiting) {
  if (provider.calls >= provider.limits.max_callbacks) {
    return OverLimit("--max_callbacks", waiting->what, ": its client has not answered ", provider.calls,
                     " calls, the limit of --max_callbacks");
  }
  ++provider.calls;
  waiting->number = ++last_;
  waiting->provider = &provider;
  waiting->channel = provider.channel;
  waiting->limit = provider.limits.callback;
  waiting->begun = Clock::now();
  if (waiting->call.has_value() && waiting->call->time != nullptr) by_run_[waiting->call->time.get()] = last_;
  waiting_.emplace(last_, std::move(waiting));
  return absl::OkStatus();
}

CustomCallbacks::WaitingPtr CustomCallbacks::Send(uint64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return nullptr;
  found->second->state = Waiting::kSending;
  return found->second;
}

CustomCallbacks::WaitingPtr CustomCallbacks::Sent(uint64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return nullptr;
  found->second->state = Waiting::kSent;
  return found->second->answer.has_value() ? TakeOut(found) : nullptr;
}

CustomCallbacks::WaitingPtr CustomCallbacks::Accept(HostChannel* channel, Answer&& answer) {
  const auto found = waiting_.find(answer.result.call());
  if (found == waiting_.end()) return nullptr;
  Waiting& waiting = *found->second;
  if (waiting.channel.get() != channel || waiting.state == Waiting::kQueued || waiting.answer.has_value()) return nullptr;
  waiting.answer = std::move(answer);
  return waiting.state == Waiting::kSent ? TakeOut(found) : nullptr;
}

CustomCallbacks::WaitingPtr CustomCallbacks::TakeOut(Callbacks::iterator callback) {
  WaitingPtr taken = std::move(callback->second);
  waiting_.erase(callback);
  --std::exchange(taken->provider, nullptr)->calls;
  if (taken->call.has_value()) {
    const auto run = by_run_.find(taken->call->time.get());
    if (run != by_run_.end() && run->second == taken->number) by_run_.erase(run);
  }
  return taken;
}

CustomCallbacks::WaitingPtr CustomCallbacks::Take(uint64_t number) {
  const auto found = waiting_.find(number);
  return found == waiting_.end() ? nullptr : TakeOut(found);
}

CustomCallbacks::WaitingPtr CustomCallbacks::TakeOf(const ClientTime* run) {
  const auto call = by_run_.find(run);
  return call == by_run_.end() ? nullptr : Take(call->second);
}

template <class Condition>
std::vector<CustomCallbacks::WaitingPtr> CustomCallbacks::TakeIf(Condition condition) {
  std::vector<WaitingPtr> taken;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto callback = next++;
    if (condition(*callback->second)) taken.push_back(TakeOut(callback));
  }
  return taken;
}

std::vector<CustomCallbacks::WaitingPtr> CustomCallbacks::TakeAllOf(const Provider& provider) {
  return TakeIf([&](const Waiting& waiting) { return waiting.provider == &provider; });
}

std::vector<CustomCallbacks::WaitingPtr> CustomCallbacks::TakeLate(Clock::time_point now) {
  return TakeIf([&](const Waiting& waiting) { return now - waiting.begun >= waiting.limit; });
}

}  // namespace gluond::server
