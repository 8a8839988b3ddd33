#include "server/custom/hosts.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/duration.h"
#include "server/custom/messages.h"
#include "server/custom/scope.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestName = 128, kMostOffers = 10'000;
constexpr int64_t kOfferBytes = 512;  // Memory that one takes, by which its name is found.
constexpr std::chrono::seconds kFailureLasts{5};
constexpr int kReleasedTogether = 32;  // Functions: a message for each would wake the client as often.
constexpr int kInstanceBits = 40;  // Bits of a forward pass's own number; the rest tells its client.

std::string Describe(const CustomOperator& op) { return absl::StrCat("custom operator '", Excerpt(op.op_type), "'"); }

const char* PassName(CustomCall::Kind kind) {
  return kind == CustomCall::kForward ? "forward of " : kind == CustomCall::kBackward ? "backward of " : "";
}

// Tells a client that nobody waits for its answer any more.
void TellCancelled(uint64_t call, HostChannel& channel) {
  v1::HostResponse response;
  response.add_cancelled(call);
  channel.Send(response);
}

uint64_t TagOf(const std::string& scope) { return absl::HashOf(scope) >> (kInstanceBits + 1); }

// The time that the client reports counts up to the time that has passed; NaN counts as 0.
void Count(CustomHosts::Clock::duration passed, double seconds, ClientTime* time) {
  if (time == nullptr) return;
  const auto passed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
  const double said_ns = seconds > 0 ? std::min(seconds * 1e9, static_cast<double>(passed_ns)) : 0;
  const auto callback_ns = static_cast<int64_t>(said_ns);
  ++time->calls;
  time->callback_ns += callback_ns;
  time->wait_ns += passed_ns - callback_ns;
}

}  // namespace

void CustomHosts::Attach(const std::string& scope, std::shared_ptr<HostChannel> channel, const HostLimits& limits,
                         const std::string& tenant, Reservation memory) {
  HostChannel* const key = channel.get();
  auto provider = std::make_unique<Provider>(
      Provider{std::move(channel), scope, tenant, TagOf(scope), limits, 0, {}, std::move(memory), {}});
  std::shared_ptr<HostChannel> replaced;
  {
    MutexLock lock(mu_);
    HostChannel*& owner = by_scope_[scope];
    if (owner != nullptr) replaced = providers_.at(owner)->channel;
    owner = key;
    providers_[key] = std::move(provider);
  }
  if (replaced != nullptr) {
    Detach(replaced.get());
    replaced->Replaced();
  }
}

absl::Status CustomHosts::Offer(HostChannel* channel, const v1::OfferOperator& offer) {
  const std::string& name = offer.op_type();
  if (name.empty() || name.size() > kLongestName) {
    return absl::InvalidArgumentError(
        absl::StrCat("OfferOperator.op_type has ", name.size(), " bytes, expected 1 to ", kLongestName));
  }
  std::shared_ptr<HostChannel> before;
  {
    MutexLock lock(mu_);
    const auto found = providers_.find(channel);
    if (found == providers_.end()) return absl::OkStatus();  // It has ended.
    Provider& provider = *found->second;
    if (!provider.offered.contains(name)) {
      if (provider.offered.size() >= kMostOffers) {
        return absl::ResourceExhaustedError(absl::StrCat("a client offers at most ", kMostOffers, " operators"));
      }
      RETURN_IF_ERROR(provider.memory.Grow(kOfferBytes));
    }
    uint64_t& shared_at = provider.offered[name];
    facts_.Forget(provider.scope, name);
    if (offer.shared()) {
      shared_at = ++last_share_;
      facts_.Forget(provider.tenant, name);
      HostChannel*& owner = shared_[{provider.tenant, name}];
      if (owner != nullptr && owner != channel) before = providers_.at(owner)->channel;
      owner = channel;
    }
  }
  v1::HostResponse response;
  if (before != nullptr) {
    response.add_taken_over(name);
    before->Send(response);
  }
  response.Clear();
  response.add_offered(name);
  channel->Send(response);
  return absl::OkStatus();
}

std::shared_ptr<const void> CustomHosts::HoldFunction(const std::string& scope, uint64_t function) {
  const std::pair<std::string, uint64_t> key(scope, function);
  MutexLock lock(functions_mu_);
  std::weak_ptr<const void>& held = functions_[key];
  std::shared_ptr<const void> hold = held.lock();
  if (hold == nullptr) {
    hold = std::shared_ptr<const void>(this, [self = weak_from_this(), key](const void*) {
      if (const auto hosts = self.lock(); hosts != nullptr) hosts->LetGo(key);
    });
    held = hold;
  }
  return hold;
}

void CustomHosts::LetGo(const std::pair<std::string, uint64_t>& function) {
  {
    MutexLock lock(functions_mu_);
    const auto found = functions_.find(function);
    if (found == functions_.end() || !found->second.expired()) return;  // Somebody holds the function again.
    functions_.erase(found);
  }
  std::shared_ptr<HostChannel> channel;
  v1::HostResponse released;
  {
    MutexLock lock(mu_);
    const auto owner = by_scope_.find(function.first);
    if (owner == by_scope_.end()) return;
    Provider& provider = *providers_.at(owner->second);
    provider.released.add_released(function.second);
    if (provider.released.released_size() < kReleasedTogether) return;
    channel = provider.channel;
    released.Swap(&provider.released);
  }
  channel->Send(released);
}

void CustomHosts::Detach(HostChannel* channel) {
  std::vector<Waiting> ended;
  std::unique_ptr<Provider> provider;  // Keeps the channel, too, until the end.
  {
    MutexLock lock(mu_);
    const auto node = providers_.extract(channel);
    if (node.empty()) return;
    provider = std::move(node.mapped());
    for (const auto& [op_type, shared_at] : provider->offered) {
      facts_.Forget(provider->scope, op_type);
      const SharedName name(provider->tenant, op_type);
      if (const auto shared = shared_.find(name); shared != shared_.end() && shared->second == channel) PassOnLocked(name);
    }
    // Another stream may have taken its scope.
    const auto scope = by_scope_.find(provider->scope);
    if (scope != by_scope_.end() && scope->second == channel) by_scope_.erase(scope);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto one = it++;
      if (one->second.channel == channel) ended.push_back(TakeLocked(one));
    }
  }
  for (Waiting& waiting : ended) {
    const absl::Status status = WithInfo(absl::UnavailableError(absl::StrCat(
        waiting.what, ": the client that computes it has gone; it works again when it is back")), reason::kProviderGone);
    End(std::move(waiting), status);
  }
}

// From now on the operator is computed by the one of the connected clients that has shared it last.
void CustomHosts::PassOnLocked(const SharedName& name) {
  const auto& [tenant, op_type] = name;
  facts_.Forget(tenant, op_type);
  HostChannel* heir = nullptr;
  uint64_t last = 0;
  for (const auto& [channel, provider] : providers_) {
    const auto offered = provider->offered.find(op_type);
    if (provider->tenant != tenant || offered == provider->offered.end() || offered->second <= last) continue;
    heir = channel;
    last = offered->second;
  }
  if (heir != nullptr) {
    shared_[name] = heir;
  } else {
    shared_.erase(name);
  }
}

absl::StatusOr<CustomHosts::Provider*> CustomHosts::FindLocked(const std::string& scope, const std::string& op_type,
                                                               bool offered) {
  const auto find = [](const auto& map, const auto& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
  };
  HostChannel* const channel = IsOfNoClient(scope) ? find(shared_, SharedName(scope, op_type)) : find(by_scope_, scope);
  if (channel != nullptr) {
    Provider* const provider = providers_.at(channel).get();
    if (!offered || provider->offered.contains(op_type)) return provider;
  }
  return WithInfo(absl::UnavailableError(absl::StrCat(
                      "custom operator '", Excerpt(op_type), "': no client that computes it is connected",
                      IsOfNoClient(scope) ? "; its client must share it" : "")),
                  reason::kProviderGone, {{"operator", Excerpt(op_type)}});
}

// A shared name may have been taken over since the forward pass got its number: both passes are one client's.
absl::StatusOr<CustomHosts::Provider*> CustomHosts::FindForCallLocked(const CustomCall& call) {
  if (call.kind == CustomCall::kFunction || !IsOfNoClient(call.op.scope)) {
    return FindLocked(call.op.scope, call.op.op_type, call.kind != CustomCall::kFunction);
  }
  for (const auto& [key, provider] : providers_) {
    if (provider->tag != call.instance >> kInstanceBits || !provider->offered.contains(call.op.op_type)) continue;
    if (provider->tenant != call.op.scope) continue;
    return provider.get();
  }
  if (call.kind == CustomCall::kForward) return FindLocked(call.op.scope, call.op.op_type, /*offered=*/true);
  return WithInfo(absl::UnavailableError(absl::StrCat(
                      "backward of ", Describe(call.op), ": the client that computed its forward pass is not connected any "
                      "more; run the forward pass again")),
                  reason::kProviderGone, {{"operator", Excerpt(call.op.op_type)}});
}

absl::StatusOr<uint64_t> CustomHosts::AddLocked(Provider* provider, Waiting waiting) {
  if (provider->calls >= provider->limits.max_callbacks) {
    return OverLimit("--max_callbacks", waiting.what, ": its client has not answered ", provider->calls, " calls, the "
                     "limit of --max_callbacks");
  }
  ++provider->calls;
  waiting.channel = provider->channel.get();
  waiting.begun = Clock::now();
  ++last_call_;
  if (waiting.call != nullptr && waiting.call->time != nullptr) by_run_[waiting.call->time.get()] = last_call_;
  waiting_.emplace(last_call_, std::move(waiting));
  return last_call_;
}

CustomHosts::Waiting CustomHosts::TakeLocked(WaitingIterator waiting) {
  if (const auto it = providers_.find(waiting->second.channel); it != providers_.end()) --it->second->calls;
  Waiting taken = std::move(waiting->second);
  const auto run = by_run_.find(taken.call == nullptr ? nullptr : taken.call->time.get());
  if (run != by_run_.end() && run->second == waiting->first) by_run_.erase(run);
  waiting_.erase(waiting);
  return taken;
}

uint64_t CustomHosts::NextInstance(const CustomOperator& op) {
  MutexLock lock(mu_);
  const absl::StatusOr<Provider*> provider = FindLocked(op.scope, op.op_type, /*offered=*/true);
  const uint64_t number = ++last_instance_ & ((uint64_t{1} << kInstanceBits) - 1);
  return number | (provider.ok() ? (*provider)->tag << kInstanceBits : 0);
}

bool CustomHosts::IsShared(const std::string& scope, const std::string& op_type) {
  MutexLock lock(mu_);
  const absl::StatusOr<Provider*> provider = FindLocked(scope, op_type, /*offered=*/true);
  return provider.ok() && (*provider)->offered.at(op_type) > 0;
}

void CustomHosts::Begin(CustomCall given) {
  const auto call = std::make_shared<CustomCall>(std::move(given));
  Waiting waiting{.what = "backward of a recorded function", .call = call};
  if (call->kind != CustomCall::kFunction) waiting.what = absl::StrCat(PassName(call->kind), Describe(call->op));
  std::shared_ptr<HostChannel> channel;
  absl::StatusOr<uint64_t> number = 0;
  {
    MutexLock lock(mu_);
    const absl::StatusOr<Provider*> provider = FindForCallLocked(*call);
    if (provider.ok()) channel = (*provider)->channel;
    number = provider.ok() ? AddLocked(*provider, std::move(waiting)) : provider.status();
  }
  number.ok() ? channel->SendCall(*number) : call->completion(number.status());
}

void CustomHosts::Abandon(const ClientTime* run) {
  Waiting waiting;  // Its call's memory goes with it, behind the lock.
  std::shared_ptr<HostChannel> channel;
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    const auto call = by_run_.find(run);
    if (call == by_run_.end()) return;
    number = call->second;
    const auto found = waiting_.find(number);
    channel = providers_.at(found->second.channel)->channel;
    waiting = TakeLocked(found);
  }
  if (waiting.state != Waiting::kQueued) TellCancelled(number, *channel);
}

absl::StatusOr<CustomFacts::FactPtr> CustomHosts::Ask(const CustomOperator& op, v1::Callback question,
                                                      CustomFacts::Key key, bool complete) {
  const std::string what = absl::StrCat(key.of_types ? "infer_type of " : "infer_shape of ", Describe(op));
  std::shared_ptr<HostChannel> channel;
  std::shared_ptr<Question> pending;
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    if (const CustomFacts::FactPtr fact = facts_.Find(key); fact != nullptr) {
      if (fact->question != nullptr) return ++fact->asking, fact->question->Pending(what);
      if (fact->status.ok()) return fact;
      // A rule that cannot tell yet will not tell the next time: one inference may come by here twice.
      if (!complete && IsFailureOfClient(fact->status)) return absl::UnknownError(fact->status.message());
      // Other failures are told to those that waited, once: the next run asks again. Some may have given up.
      if (--fact->asking <= 0) facts_.Forget(key);
      if (CustomFacts::Clock::now() - fact->answered < kFailureLasts) return fact->status;
      facts_.Forget(key);
    }
    ASSIGN_OR_RETURN(Provider * provider, FindLocked(op.scope, op.op_type, /*offered=*/true));
    channel = provider->channel;
    ASSIGN_OR_RETURN(number, AddLocked(provider, {.what = what, .fact = key,
                                                  .question = std::make_shared<v1::Callback>(std::move(question))}));
    const CustomFacts::FactPtr fact = facts_.Add(key);
    fact->asking = 1;
    pending = fact->question;
  }
  channel->SendCall(number);
  return pending->Pending(what);
}

absl::StatusOr<CustomHost::Inference> CustomHosts::InferShape(const CustomOperator& op, const ShapeVector& arguments) {
  const bool complete = std::all_of(arguments.begin(), arguments.end(), [](const Shape& s) { return s.known(); });
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact,
                   Ask(op, ToCallback(op, arguments), CustomFacts::KeyOf(op, arguments), complete));
  return fact->shapes;
}

absl::StatusOr<CustomHost::TypeInference> CustomHosts::InferType(const CustomOperator& op, const TypeVector& arguments) {
  const bool complete = std::find(arguments.begin(), arguments.end(), DType::kUnknown) == arguments.end();
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact,
                   Ask(op, ToCallback(op, arguments), CustomFacts::KeyOf(op, arguments), complete));
  return fact->types;
}

bool CustomHosts::ToMessage(uint64_t number, v1::HostResponse* response, Attachments* attachments) {
  std::shared_ptr<const CustomCall> call;
  std::shared_ptr<const v1::Callback> question;
  Clock::time_point deadline;
  {
    MutexLock lock(mu_);
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return false;
    call = found->second.call;
    question = found->second.question;
    deadline = found->second.begun + providers_.at(found->second.channel)->limits.callback;
    found->second.state = Waiting::kSending;
  }
  // Goes with the last of the message that points into the run's memory, and keeps that memory until then.
  const std::shared_ptr<const void> sending(this, [self = weak_from_this(), number, call](const void*) {
    if (const auto hosts = self.lock(); hosts != nullptr) hosts->Sent(number);
  });
  v1::Callback* const callback = response->add_callbacks();
  *callback = call != nullptr ? ToCallback(*call, sending, attachments) : *question;
  callback->set_call(number);
  ToProto(std::max(deadline - Clock::now(), Clock::duration::zero()), callback->mutable_deadline());
  return true;
}

void CustomHosts::Sent(uint64_t call) {
  HostChannel* channel = nullptr;
  std::unique_ptr<Answer> early;
  {
    MutexLock lock(mu_);
    const auto found = waiting_.find(call);
    if (found == waiting_.end()) return;
    found->second.state = Waiting::kSent;
    channel = found->second.channel;
    early = std::move(found->second.early);
  }
  if (early != nullptr) Result(channel, std::move(*early));
}

void CustomHosts::Result(HostChannel* channel, Answer answer) {
  const auto& [result, attachments] = answer;
  Waiting waiting;
  {
    MutexLock lock(mu_);
    const auto found = waiting_.find(result.call());
    if (found == waiting_.end() || found->second.channel != channel || found->second.state == Waiting::kQueued) return;
    if (found->second.state == Waiting::kSending) {
      if (found->second.early == nullptr) found->second.early = std::make_unique<Answer>(std::move(answer));
      return;
    }
    waiting = TakeLocked(found);
  }
  round_trips_.Add(Clock::now() - waiting.begun);
  absl::Status status;
  if (result.has_failure()) status = FailureOf(result, waiting.what);
  if (waiting.call != nullptr) {
    Count(Clock::now() - waiting.begun, result.seconds(), waiting.call->time.get());
    if (status.ok()) status = Annotate(WriteResults(result, attachments, *waiting.call), waiting.what);
    return waiting.call->completion(status);
  }
  CustomFacts::Fact fact;
  if (status.ok()) {
    status = waiting.fact.of_types ? TypesFrom(result, &fact.types) : ShapesFrom(result, &fact.shapes);
    status = Annotate(status, waiting.what);
  }
  fact.status = status;
  std::shared_ptr<Question> question;
  {
    MutexLock lock(mu_);
    question = facts_.Answer(waiting.fact, std::move(fact));
  }
  if (question != nullptr) question->Answered();
}

// Requires: `status` is not OK.
void CustomHosts::End(Waiting waiting, const absl::Status& status) {
  if (waiting.call != nullptr) return waiting.call->completion(status);
  std::shared_ptr<Question> question;
  {
    MutexLock lock(mu_);
    CustomFacts::Fact fact;
    fact.status = status;
    question = facts_.Answer(waiting.fact, std::move(fact));
  }
  if (question != nullptr) question->Answered();
}

void CustomHosts::Fail(uint64_t call, const absl::Status& why) {
  Waiting waiting;
  {
    MutexLock lock(mu_);
    const auto found = waiting_.find(call);
    if (found == waiting_.end()) return;
    waiting = TakeLocked(found);
  }
  const absl::Status status = Annotate(why, waiting.what);
  End(std::move(waiting), status);
}

void CustomHosts::Sweep(Clock::time_point now) {
  struct Late {
    Waiting waiting;
    uint64_t number;
    std::chrono::seconds limit;
    std::shared_ptr<HostChannel> channel;
  };
  std::vector<Late> late;
  {
    MutexLock lock(mu_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto one = it++;
      const Provider& provider = *providers_.at(one->second.channel);
      if (now - one->second.begun < provider.limits.callback) continue;
      const uint64_t number = one->first;
      late.push_back({TakeLocked(one), number, provider.limits.callback, provider.channel});
    }
  }
  for (Late& one : late) {
    if (one.waiting.state != Waiting::kQueued) TellCancelled(one.number, *one.channel);
    const absl::Status status = absl::DeadlineExceededError(
        absl::StrCat(one.waiting.what, ": its client has not answered within the ", one.limit.count(),
                     " s of --callback_seconds"));
    End(std::move(one.waiting), status);
  }
}

}  // namespace gluond::server
