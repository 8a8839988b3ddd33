#include "server/custom/hosts.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
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
                         Sharer sharer, std::function<Reservation()> memory) {
  HostChannel* const key = channel.get();
  sharer.scope = scope;
  Reservation own = memory();
  auto provider = std::make_unique<Provider>(Provider{std::move(channel), std::move(sharer), TagOf(scope), limits, 0, {},
                                                      std::move(memory), std::move(own), {}});
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

absl::StatusOr<CustomHosts::Offered> CustomHosts::Offer(HostChannel* channel, const v1::OfferOperator& offer) {
  const std::string& name = offer.op_type();
  if (name.empty() || name.size() > kLongestName) {
    return absl::InvalidArgumentError(
        absl::StrCat("OfferOperator.op_type has ", name.size(), " bytes, expected 1 to ", kLongestName));
  }
  std::shared_ptr<HostChannel> before;
  Offered offered = Offered::kAlone;
  {
    MutexLock lock(mu_);
    const auto found = providers_.find(channel);
    if (found == providers_.end()) return Offered::kAlone;  // It has ended.
    Provider& provider = *found->second;
    const bool is_new = !provider.offered.contains(name);
    if (is_new && provider.offered.size() >= kMostOffers) {
      return absl::ResourceExhaustedError(absl::StrCat("a client offers at most ", kMostOffers, " operators"));
    }
    if (is_new) RETURN_IF_ERROR(provider.memory.Grow(kOfferBytes));
    if (offer.shared()) {
      const absl::StatusOr<SharedOperators::Claimed> claimed =
          shared_.Claim(name, provider.sharer, channel, provider.new_memory);
      if (!claimed.ok()) {
        if (is_new) provider.memory.Shrink(kOfferBytes);
        return claimed.status();
      }
      offered = claimed->is_taken_over ? Offered::kTakenOver : Offered::kShared;
      if (claimed->before != nullptr) before = providers_.at(claimed->before)->channel;
      facts_.Forget(provider.sharer.tenant, name);
    }
    uint64_t& shared_at = provider.offered[name];
    if (offer.shared()) shared_at = ++last_share_;
    facts_.Forget(provider.sharer.scope, name);
  }
  v1::HostResponse response;
  if (before != nullptr) {
    response.add_taken_over(name);
    before->Send(response);
  }
  response.Clear();
  response.add_offered(name);
  channel->Send(response);
  return offered;
}

absl::Status CustomHosts::Release(HostChannel* channel, const std::string& op_type) {
  std::shared_ptr<HostChannel> before;
  {
    MutexLock lock(mu_);
    const auto found = providers_.find(channel);
    if (found == providers_.end()) return absl::OkStatus();
    const Sharer& sharer = found->second->sharer;
    ASSIGN_OR_RETURN(HostChannel * const computed, shared_.Release(op_type, sharer));
    if (computed != nullptr && computed != channel) before = providers_.at(computed)->channel;
    facts_.Forget(sharer.tenant, op_type);
    for (const auto& [key, provider] : providers_) {
      const auto offered = provider->offered.find(op_type);
      if (provider->sharer.tenant == sharer.tenant && offered != provider->offered.end()) offered->second = 0;
    }
  }
  v1::HostResponse response;
  if (before != nullptr) {
    response.add_taken_over(op_type);
    before->Send(response);
  }
  response.Clear();
  response.add_given_back(op_type);
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

std::vector<std::string> CustomHosts::Detach(HostChannel* channel) {
  std::vector<Waiting> ended;
  SharedOperators::Left left;
  std::unique_ptr<Provider> provider;  // Keeps the channel, too, until the end.
  {
    MutexLock lock(mu_);
    const auto node = providers_.extract(channel);
    if (node.empty()) return {};
    provider = std::move(node.mapped());
    const Sharer& sharer = provider->sharer;
    // Another stream may have taken its scope.
    const auto scope = by_scope_.find(sharer.scope);
    const bool has_its_scope = scope != by_scope_.end() && scope->second != channel;
    if (scope != by_scope_.end() && !has_its_scope) by_scope_.erase(scope);
    left = shared_.Leave(sharer, channel, has_its_scope, [&](const std::string& op_type) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return HeirLocked(sharer, op_type);
    });
    for (const auto& [op_type, shared_at] : provider->offered) facts_.Forget(sharer.scope, op_type);
    for (const std::string& op_type : left.changed) facts_.Forget(sharer.tenant, op_type);
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
  return std::move(left.released);
}

HostChannel* CustomHosts::HeirLocked(const Sharer& sharer, const std::string& op_type) const {
  HostChannel* heir = nullptr;
  uint64_t last = 0;
  for (const auto& [channel, provider] : providers_) {
    if (provider->sharer.tenant != sharer.tenant || provider->sharer.identity != sharer.identity) continue;
    const auto offered = provider->offered.find(op_type);
    if (offered == provider->offered.end() || offered->second <= last) continue;
    heir = channel;
    last = offered->second;
  }
  return heir;
}

absl::Status CustomHosts::NobodyComputesLocked(const std::string& scope, const std::string& op_type,
                                               absl::string_view owner) const {
  std::string hint;
  if (IsOfNoClient(scope)) {
    const auto outside = [](absl::string_view name) { return name.substr(TenantPrefix(name).size()); };
    const std::string now = shared_.OwnerOf({scope, op_type});
    hint = !owner.empty() && now != owner
               ? absl::StrCat("; its version was published with that of '", outside(owner), "', who does not share it now; "
                              "publish it again to have another one's")
           : now.empty() ? "; its client must share it"
                         : absl::StrCat("; it is that of '", outside(now), "', whose client must come back or release it");
  }
  return WithInfo(absl::UnavailableError(absl::StrCat("custom operator '", Excerpt(op_type), "': no client that computes it "
                                                      "is connected", hint)),
                  reason::kProviderGone, {{"operator", Excerpt(op_type)}});
}

absl::StatusOr<CustomHosts::Provider*> CustomHosts::FindLocked(const std::string& scope, const std::string& op_type,
                                                               bool offered, absl::string_view owner) const {
  HostChannel* channel = nullptr;
  if (IsOfNoClient(scope)) {
    channel = shared_.Find({scope, op_type}, owner);
  } else if (const auto found = by_scope_.find(scope); found != by_scope_.end()) {
    channel = found->second;
  }
  if (channel != nullptr) {
    Provider* const provider = providers_.at(channel).get();
    if (!offered || provider->offered.contains(op_type)) return provider;
  }
  return NobodyComputesLocked(scope, op_type, owner);
}

// A shared name may have been taken over since the forward pass got its number: both passes are one client's.
absl::StatusOr<CustomHosts::Provider*> CustomHosts::FindForCallLocked(const CustomCall& call, absl::string_view owner) {
  if (call.kind == CustomCall::kFunction || !IsOfNoClient(call.op.scope)) {
    return FindLocked(call.op.scope, call.op.op_type, call.kind != CustomCall::kFunction, owner);
  }
  for (const auto& [key, provider] : providers_) {
    const auto offered = provider->offered.find(call.op.op_type);
    if (provider->tag != call.instance >> kInstanceBits || offered == provider->offered.end()) continue;
    if (offered->second == 0) continue;  // It is offered to the client's own graphs alone.
    if (provider->sharer.tenant != call.op.scope || (!owner.empty() && provider->sharer.identity != owner)) continue;
    return provider.get();
  }
  if (call.kind == CustomCall::kForward) return FindLocked(call.op.scope, call.op.op_type, /*offered=*/true, owner);
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

uint64_t CustomHosts::NextInstance(const CustomOperator& op, const std::string& owner) {
  MutexLock lock(mu_);
  const absl::StatusOr<Provider*> provider = FindLocked(op.scope, op.op_type, /*offered=*/true, owner);
  const uint64_t number = ++last_instance_ & ((uint64_t{1} << kInstanceBits) - 1);
  return number | (provider.ok() ? (*provider)->tag << kInstanceBits : 0);
}

bool CustomHosts::IsShared(const std::string& scope, const std::string& op_type) {
  MutexLock lock(mu_);
  const absl::StatusOr<Provider*> provider = FindLocked(scope, op_type, /*offered=*/true, "");
  return provider.ok() && (*provider)->offered.at(op_type) > 0 && shared_.IsOwnedBy(op_type, (*provider)->sharer);
}

absl::StatusOr<std::string> CustomHosts::OwnerOf(const std::string& tenant, const std::string& op_type) const {
  MutexLock lock(mu_);
  if (!shared_.IsOwned({tenant, op_type})) return NobodyComputesLocked(tenant, op_type, "");
  return shared_.OwnerOf({tenant, op_type});
}

void CustomHosts::Begin(CustomCall given, const std::string& owner) {
  const auto call = std::make_shared<CustomCall>(std::move(given));
  Waiting waiting{.what = "backward of a recorded function", .call = call};
  if (call->kind != CustomCall::kFunction) waiting.what = absl::StrCat(PassName(call->kind), Describe(call->op));
  std::shared_ptr<HostChannel> channel;
  absl::StatusOr<uint64_t> number = 0;
  {
    MutexLock lock(mu_);
    const absl::StatusOr<Provider*> provider = FindForCallLocked(*call, owner);
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
                                                      CustomFacts::Key key, bool complete,
                                                      const std::string& owner) {
  const std::string what = absl::StrCat(key.of_types ? "infer_type of " : "infer_shape of ", Describe(op));
  std::shared_ptr<HostChannel> channel;
  std::shared_ptr<Question> pending;
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    // Another client's answers are nothing to a graph that is the owner's to compute.
    if (!owner.empty()) RETURN_IF_ERROR(FindLocked(op.scope, op.op_type, /*offered=*/true, owner).status());
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
    ASSIGN_OR_RETURN(Provider * provider, FindLocked(op.scope, op.op_type, /*offered=*/true, owner));
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

absl::StatusOr<CustomHost::Inference> CustomHosts::InferShape(const CustomOperator& op, const ShapeVector& arguments,
                                                                const std::string& owner) {
  const bool complete = std::all_of(arguments.begin(), arguments.end(), [](const Shape& s) { return s.known(); });
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact,
                   Ask(op, ToCallback(op, arguments), CustomFacts::KeyOf(op, arguments), complete, owner));
  return fact->shapes;
}

absl::StatusOr<CustomHost::TypeInference> CustomHosts::InferType(const CustomOperator& op, const TypeVector& arguments,
                                                                   const std::string& owner) {
  const bool complete = std::find(arguments.begin(), arguments.end(), DType::kUnknown) == arguments.end();
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact,
                   Ask(op, ToCallback(op, arguments), CustomFacts::KeyOf(op, arguments), complete, owner));
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
