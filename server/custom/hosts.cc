#include "server/custom/hosts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/duration.h"
#include "server/custom/messages.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestName = 128;
constexpr size_t kReleasedTogether = 32;  // Functions: a message for each would wake the client as often.

const char* PassName(CustomCall::Kind kind) {
  return kind == CustomCall::kForward ? "forward of " : kind == CustomCall::kBackward ? "backward of " : "";
}

using Names = google::protobuf::RepeatedPtrField<std::string>;

void Tell(HostChannel& channel, Names* (v1::HostResponse::*names)(), const std::string& name) {
  v1::HostResponse response;
  *(response.*names)()->Add() = name;
  channel.Send(response);
}

// Tells the client that nobody waits for its answer any more.
void TellCancelled(const CustomCallbacks::Waiting& waiting) {
  if (waiting.state == CustomCallbacks::Waiting::kQueued) return;
  v1::HostResponse response;
  response.add_cancelled(waiting.number);
  waiting.channel->Send(response);
}

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

void CustomHosts::Attach(const std::string& scope, std::shared_ptr<HostChannel> channel, const HostLimits& limits, Sharer sharer,
                         std::function<Reservation()> memory) {
  sharer.scope = scope;
  Reservation own = memory();
  auto provider = std::make_unique<CustomProviders::Provider>(
      CustomProviders::Provider{std::move(channel), std::move(sharer), limits, std::move(memory), std::move(own)});
  std::shared_ptr<HostChannel> replaced;
  {
    MutexLock lock(mu_);
    replaced = providers_.Add(std::move(provider));
  }
  if (replaced == nullptr) return;
  Detach(replaced.get());
  replaced->Replaced();
}

absl::StatusOr<CustomHosts::Offered> CustomHosts::Offer(HostChannel* channel, const v1::OfferOperator& offer) {
  const std::string& name = offer.op_type();
  if (name.empty() || name.size() > kLongestName) {
    return Invalid("OfferOperator.op_type has ", name.size(), " bytes, expected 1 to ", kLongestName);
  }
  CustomProviders::Changed changed;
  {
    MutexLock lock(mu_);
    CustomProviders::Provider* const provider = providers_.Find(channel);
    if (provider == nullptr) return Offered::kAlone;  // It has ended.
    ASSIGN_OR_RETURN(changed, providers_.Offer(*provider, name, offer.shared()));
    if (offer.shared()) facts_.Forget(provider->sharer.tenant, name);
    facts_.Forget(provider->sharer.scope, name);
  }
  if (changed.before != nullptr) Tell(*changed.before, &v1::HostResponse::mutable_taken_over, name);
  Tell(*channel, &v1::HostResponse::mutable_offered, name);
  return changed.offered;
}

absl::Status CustomHosts::Release(HostChannel* channel, const std::string& op_type) {
  std::shared_ptr<HostChannel> before;
  {
    MutexLock lock(mu_);
    const CustomProviders::Provider* const provider = providers_.Find(channel);
    if (provider == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(before, providers_.Release(*provider, op_type));
    facts_.Forget(provider->sharer.tenant, op_type);
  }
  if (before != nullptr) Tell(*before, &v1::HostResponse::mutable_taken_over, op_type);
  Tell(*channel, &v1::HostResponse::mutable_given_back, op_type);
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
    CustomProviders::Provider* const provider = providers_.FindScope(function.first);
    if (provider == nullptr) return;
    provider->released.push_back(function.second);
    if (provider->released.size() < kReleasedTogether) return;
    channel = provider->channel;
    for (const uint64_t number : std::exchange(provider->released, {})) released.add_released(number);
  }
  channel->Send(released);
}

std::vector<std::string> CustomHosts::Detach(HostChannel* channel) {
  std::vector<WaitingPtr> ended;
  SharedOperators::Left left;
  std::unique_ptr<CustomProviders::Provider> provider;  // Keeps the channel, too, until the end.
  {
    MutexLock lock(mu_);
    provider = providers_.Remove(channel, &left);
    if (provider == nullptr) return {};
    const Sharer& sharer = provider->sharer;
    for (const auto& [op_type, shared_at] : provider->offered) facts_.Forget(sharer.scope, op_type);
    for (const std::string& op_type : left.changed) facts_.Forget(sharer.tenant, op_type);
    ended = callbacks_.TakeAllOf(*provider);
  }
  for (const WaitingPtr& waiting : ended) {
    End(*waiting, WithInfo(Unavailable(waiting->what, ": the client that computes it has gone; it works again when it is back"),
                           reason::kProviderGone));
  }
  return std::move(left.released);
}

void CustomHosts::Begin(CustomCall call, std::optional<Relayed> relayed) {
  const auto waiting = std::make_shared<Waiting>();
  waiting->what =
      call.kind == CustomCall::kFunction ? "backward of a recorded function" : absl::StrCat(PassName(call.kind), Describe(call.op));
  waiting->call = std::move(call);
  waiting->relayed = std::move(relayed);
  absl::Status status;
  {
    MutexLock lock(mu_);
    const absl::StatusOr<CustomProviders::Provider*> provider = providers_.Find(*waiting->call);
    status = provider.ok() ? callbacks_.Add(**provider, waiting) : provider.status();
  }
  status.ok() ? waiting->channel->SendCall(waiting->number) : End(*waiting, status);
}

void CustomHosts::Abandon(const ClientTime* run) {
  const WaitingPtr waiting = OfCallbacks(&CustomCallbacks::TakeOf, run);  // Its call's memory goes with it, behind the lock.
  if (waiting != nullptr) TellCancelled(*waiting);
}

template <class Arguments>
absl::StatusOr<CustomFacts::FactPtr> CustomHosts::Ask(const CustomOperator& op, const Arguments& arguments) {
  const auto waiting = std::make_shared<Waiting>();
  waiting->fact = CustomFacts::KeyOf(op, arguments);
  waiting->question = ToCallback(op, arguments);
  waiting->what = absl::StrCat(waiting->fact.of_types ? "infer_type of " : "infer_shape of ", Describe(op));
  std::shared_ptr<Question> pending;
  {
    MutexLock lock(mu_);
    // Another client's answers are nothing to a graph that is the owner's to compute.
    if (!op.owner.empty()) RETURN_IF_ERROR(providers_.Find(op).status());
    ASSIGN_OR_RETURN(CustomFacts::FactPtr fact, facts_.Ask(waiting->fact, AllKnown(arguments), waiting->what));
    if (fact != nullptr) return fact;
    ASSIGN_OR_RETURN(CustomProviders::Provider * provider, providers_.Find(op));
    RETURN_IF_ERROR(callbacks_.Add(*provider, waiting));
    pending = facts_.Add(waiting->fact)->question;
  }
  waiting->channel->SendCall(waiting->number);
  return pending->Pending(waiting->what);
}

absl::StatusOr<CustomHost::Inference> CustomHosts::InferShape(const CustomOperator& op, const ShapeVector& arguments) {
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact, Ask(op, arguments));
  return fact->shapes;
}

absl::StatusOr<CustomHost::TypeInference> CustomHosts::InferType(const CustomOperator& op, const TypeVector& arguments) {
  ASSIGN_OR_RETURN(const CustomFacts::FactPtr fact, Ask(op, arguments));
  return fact->types;
}

bool CustomHosts::ToMessage(uint64_t number, v1::HostResponse* response, Attachments* attachments) {
  const WaitingPtr waiting = OfCallbacks(&CustomCallbacks::Send, number);
  if (waiting == nullptr) return false;
  // Goes with the last of the message that points into the run's memory, and keeps that memory until then.
  const std::shared_ptr<const void> sending(this, [self = weak_from_this(), waiting](const void*) {
    if (const auto hosts = self.lock(); hosts != nullptr) hosts->Sent(waiting->number);
  });
  v1::Callback* const callback = response->add_callbacks();
  if (waiting->relayed.has_value()) {
    *callback = waiting->relayed->callback;
    *attachments = waiting->relayed->attachments;
  } else {
    *callback = waiting->call.has_value() ? ToCallback(*waiting->call, sending, attachments) : waiting->question;
  }
  callback->set_call(number);
  ToProto(std::max(waiting->begun + waiting->limit - Clock::now(), Clock::duration::zero()), callback->mutable_deadline());
  return true;
}

void CustomHosts::Sent(uint64_t call) {
  if (const WaitingPtr answered = OfCallbacks(&CustomCallbacks::Sent, call); answered != nullptr) Finish(*answered);
}

void CustomHosts::Result(HostChannel* channel, Answer answer) {
  const WaitingPtr answered = OfCallbacks(&CustomCallbacks::Accept, channel, std::move(answer));
  if (answered != nullptr) Finish(*answered);
}

void CustomHosts::Finish(const Waiting& waiting) {
  const auto& [result, attachments] = *waiting.answer;
  const Clock::duration passed = Clock::now() - waiting.begun;
  round_trips_.Add(passed);
  if (waiting.call.has_value()) Count(passed, result.seconds(), waiting.call->time.get());
  if (waiting.relayed.has_value()) return waiting.relayed->done(*waiting.answer);
  CustomFacts::Fact fact;
  if (result.has_failure()) return End(waiting, FailureOf(result, waiting.what));
  const absl::Status status = waiting.call.has_value() ? WriteResults(result, attachments, *waiting.call)
                              : waiting.fact.of_types  ? TypesFrom(result, &fact.types)
                                                       : ShapesFrom(result, &fact.shapes);
  End(waiting, Annotate(status, waiting.what), std::move(fact));
}

void CustomHosts::End(const Waiting& waiting, const absl::Status& status, CustomFacts::Fact fact) {
  if (waiting.relayed.has_value()) return waiting.relayed->done(status);
  if (waiting.call.has_value()) return waiting.call->completion(status);
  fact.status = status;
  std::shared_ptr<Question> question;
  {
    MutexLock lock(mu_);
    question = facts_.Answer(waiting.fact, std::move(fact));
  }
  if (question != nullptr) question->Answered();
}

void CustomHosts::Fail(uint64_t call, const absl::Status& why) {
  const WaitingPtr waiting = OfCallbacks(&CustomCallbacks::Take, call);
  if (waiting != nullptr) End(*waiting, Annotate(why, waiting->what));
}

void CustomHosts::Refused(uint64_t call, const absl::Status& why) {
  const WaitingPtr waiting = OfCallbacks(&CustomCallbacks::Take, call);
  if (waiting != nullptr) End(*waiting, why);
}

void CustomHosts::Sweep(Clock::time_point now) {
  for (const WaitingPtr& waiting : OfCallbacks(&CustomCallbacks::TakeLate, now)) {
    TellCancelled(*waiting);
    End(*waiting, absl::DeadlineExceededError(absl::StrCat(waiting->what, ": its client has not answered within the ",
                                                           waiting->limit.count(), " s of --callback_seconds")));
  }
}

}  // namespace gluond::server
