#include "server/custom_hosts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/custom_messages.h"

namespace gluond::server {
namespace {

constexpr size_t kShortestScope = 16, kLongestName = 128, kMostOffers = 10'000, kMostFacts = 100'000;

std::string Describe(const CustomOperator& op) { return absl::StrCat("custom operator '", Excerpt(op.op_type), "'"); }

const char* PassName(CustomCall::Kind kind) {
  return kind == CustomCall::kForward ? "forward of " : kind == CustomCall::kBackward ? "backward of " : "";
}

// Facts about one operator begin alike.
std::string FactPrefix(const std::string& scope, const std::string& op_type) {
  return absl::StrCat(scope.size(), ":", scope, op_type.size(), ":", op_type, ";");
}

std::string FactKey(const CustomOperator& op, absl::string_view kind, absl::string_view arguments) {
  std::string key = absl::StrCat(FactPrefix(op.scope, op.op_type), kind, arguments, ";");
  for (const auto& [name, text] : op.attrs) absl::StrAppend(&key, name.size(), ":", name, text.size(), ":", text);
  return key;
}

}  // namespace

CustomHosts& CustomHosts::Get() {
  static CustomHosts& hosts = [] () -> CustomHosts& {
    auto& made = *new CustomHosts;  // Never destroyed: graphs may ask for it until the end.
    SetCustomHost(&made);
    return made;
  }();
  return hosts;
}

absl::Status CustomHosts::Attach(const std::string& scope, std::shared_ptr<HostChannel> channel) {
  if (scope.size() < kShortestScope || scope.size() > kLongestName) {
    return absl::InvalidArgumentError(absl::StrCat("OpenHost.scope has ", scope.size(), " bytes, expected ", kShortestScope,
                                                   " to ", kLongestName, ", which nobody can guess"));
  }
  HostChannel* const key = channel.get();
  HostChannel* replaced = nullptr;
  std::shared_ptr<HostChannel> keep;
  {
    std::lock_guard lock(mu_);
    const auto before = by_scope_.find(scope);
    if (before != by_scope_.end()) {
      replaced = before->second;
      keep = providers_[replaced].channel;
    }
  }
  if (replaced != nullptr) {
    Detach(replaced);
    replaced->Replaced();
  }
  std::lock_guard lock(mu_);
  providers_[key] = {std::move(channel), scope, {}};
  by_scope_[scope] = key;
  return absl::OkStatus();
}

absl::Status CustomHosts::Offer(HostChannel* channel, const v1::OfferOperator& offer) {
  if (offer.op_type().empty() || offer.op_type().size() > kLongestName) {
    return absl::InvalidArgumentError(absl::StrCat("OfferOperator.op_type has ", offer.op_type().size(),
                                                   " bytes, expected 1 to ", kLongestName));
  }
  std::shared_ptr<HostChannel> before;
  {
    std::lock_guard lock(mu_);
    const auto provider = providers_.find(channel);
    if (provider == providers_.end()) return absl::OkStatus();  // It has ended.
    if (provider->second.offered.size() >= kMostOffers) {
      return absl::ResourceExhaustedError(absl::StrCat("a client offers at most ", kMostOffers, " operators"));
    }
    provider->second.offered.insert(offer.op_type());
    ForgetFactsLocked(provider->second.scope, offer.op_type());
    if (offer.shared()) {
      ForgetFactsLocked("", offer.op_type());
      HostChannel*& owner = shared_[offer.op_type()];
      if (owner != nullptr && owner != channel) before = providers_[owner].channel;
      owner = channel;
    }
  }
  if (before != nullptr) {
    v1::HostResponse response;
    response.add_taken_over(offer.op_type());
    before->Send(std::move(response), {});
  }
  return absl::OkStatus();
}

void CustomHosts::ForgetFactsLocked(const std::string& scope, const std::string& op_type) {
  const std::string prefix = FactPrefix(scope, op_type);
  absl::erase_if(facts_, [&](const auto& fact) {
    return fact.second->question == nullptr && fact.first.compare(0, prefix.size(), prefix) == 0;
  });
}

void CustomHosts::Detach(HostChannel* channel) {
  std::vector<Waiting> ended;
  std::shared_ptr<HostChannel> keep;
  std::string client;
  {
    std::lock_guard lock(mu_);
    const auto provider = providers_.find(channel);
    if (provider == providers_.end()) return;
    keep = provider->second.channel;
    for (const std::string& op_type : provider->second.offered) {
      ForgetFactsLocked(provider->second.scope, op_type);
      const auto shared = shared_.find(op_type);
      if (shared == shared_.end() || shared->second != channel) continue;
      ForgetFactsLocked("", op_type);
      shared_.erase(shared);
    }
    by_scope_.erase(provider->second.scope);
    providers_.erase(provider);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.channel != channel) {
        ++it;
        continue;
      }
      ended.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
  }
  for (Waiting& waiting : ended) {
    const absl::Status status = absl::UnavailableError(
        absl::StrCat(waiting.what, ": the client that computes it has gone; it works again when it is back"));
    End(std::move(waiting), status);
  }
}

absl::StatusOr<std::shared_ptr<HostChannel>> CustomHosts::FindLocked(const std::string& scope, const std::string& op_type,
                                                                     bool offered) const {
  const auto& map = scope.empty() ? shared_ : by_scope_;
  const auto found = map.find(scope.empty() ? op_type : scope);
  if (found != map.end()) {
    const Provider& provider = providers_.at(found->second);
    if (!offered || provider.offered.contains(op_type)) return provider.channel;
  }
  return absl::UnavailableError(absl::StrCat("custom operator '", Excerpt(op_type), "': no client that computes it is ",
                                             "connected", scope.empty() ? "; its client must share it" : ""));
}

void CustomHosts::Begin(CustomCall given) {
  const auto call = std::make_shared<CustomCall>(std::move(given));
  const std::string what = call->kind == CustomCall::kFunction ? "backward of a recorded function"
                                                               : absl::StrCat(PassName(call->kind), Describe(call->op));
  absl::StatusOr<std::shared_ptr<HostChannel>> channel = nullptr;
  uint64_t number = 0;
  {
    std::lock_guard lock(mu_);
    channel = FindLocked(call->op.scope, call->op.op_type, call->kind != CustomCall::kFunction);
    if (channel.ok()) {
      number = ++last_call_;
      waiting_.emplace(number, Waiting{channel->get(), Clock::now() + kCallLimit, what, call, "", false});
    }
  }
  if (!channel.ok()) return call->completion(channel.status());
  v1::HostResponse response;
  Attachments attachments;
  *response.add_callbacks() = ToCallback(*call, &attachments);
  response.mutable_callbacks(0)->set_call(number);
  (*channel)->Send(std::move(response), std::move(attachments));
}

absl::StatusOr<std::shared_ptr<CustomHosts::Fact>> CustomHosts::Ask(const CustomOperator& op, v1::Callback callback,
                                                                    std::string key, bool of_types) {
  const std::string what = absl::StrCat(of_types ? "infer_type of " : "infer_shape of ", Describe(op));
  std::shared_ptr<HostChannel> channel;
  std::shared_ptr<Question> question;
  {
    std::lock_guard lock(mu_);
    const auto found = facts_.find(key);
    if (found != facts_.end()) {
      const std::shared_ptr<Fact> fact = found->second;
      if (fact->question != nullptr) return fact->question->Pending(what);
      if (fact->status.ok()) return fact;
      facts_.erase(found);  // A failure is told once; the next run asks again.
      return fact->status;
    }
    ASSIGN_OR_RETURN(channel, FindLocked(op.scope, op.op_type, /*offered=*/true));
    if (facts_.size() >= kMostFacts) {
      absl::erase_if(facts_, [](const auto& fact) { return fact.second->question == nullptr; });
    }
    const uint64_t number = ++last_call_;
    callback.set_call(number);
    question = std::make_shared<Question>();
    auto fact = std::make_shared<Fact>();
    fact->question = question;
    facts_[key] = std::move(fact);
    waiting_.emplace(number, Waiting{channel.get(), Clock::now() + kCallLimit, what, nullptr, std::move(key), of_types});
  }
  v1::HostResponse response;
  *response.add_callbacks() = std::move(callback);
  channel->Send(std::move(response), {});
  return question->Pending(what);
}

absl::StatusOr<CustomHost::Inference> CustomHosts::InferShape(const CustomOperator& op, const ShapeVector& arguments) {
  const std::string text =
      absl::StrJoin(arguments, "", [](std::string* out, const Shape& shape) { out->append(shape.ToString()); });
  ASSIGN_OR_RETURN(const std::shared_ptr<Fact> fact,
                   Ask(op, ToCallback(op, arguments), FactKey(op, "shape", text), /*of_types=*/false));
  return fact->shapes;
}

absl::StatusOr<CustomHost::TypeInference> CustomHosts::InferType(const CustomOperator& op, const TypeVector& arguments) {
  const std::string text =
      absl::StrJoin(arguments, ",", [](std::string* out, DType type) { out->append(std::string(Name(type))); });
  ASSIGN_OR_RETURN(const std::shared_ptr<Fact> fact,
                   Ask(op, ToCallback(op, arguments), FactKey(op, "type", text), /*of_types=*/true));
  return fact->types;
}

void CustomHosts::Result(HostChannel* channel, const v1::CallbackResult& result, const Attachments& attachments) {
  Waiting waiting;
  {
    std::lock_guard lock(mu_);
    const auto found = waiting_.find(result.call());
    if (found == waiting_.end() || found->second.channel != channel) return;
    waiting = std::move(found->second);
    waiting_.erase(found);
  }
  absl::Status status;
  if (result.has_failure()) status = FailureOf(result, waiting.what);
  if (waiting.call != nullptr) {
    if (status.ok()) status = Annotate(WriteResults(result, attachments, *waiting.call), waiting.what);
    return End(std::move(waiting), status);
  }
  absl::StatusOr<Inference> shapes;
  absl::StatusOr<TypeInference> types;
  if (status.ok() && waiting.of_types) status = Annotate((types = TypesFrom(result)).status(), waiting.what);
  if (status.ok() && !waiting.of_types) status = Annotate((shapes = ShapesFrom(result)).status(), waiting.what);
  if (status.ok()) {
    std::lock_guard lock(mu_);
    Fact& fact = *facts_[waiting.fact];
    if (waiting.of_types) fact.types = *std::move(types);
    if (!waiting.of_types) fact.shapes = *std::move(shapes);
  }
  End(std::move(waiting), status);
}

void CustomHosts::End(Waiting waiting, const absl::Status& status) {
  if (waiting.call != nullptr) return waiting.call->completion(status);
  std::shared_ptr<Question> question;
  {
    std::lock_guard lock(mu_);
    const auto found = facts_.find(waiting.fact);
    if (found == facts_.end()) return;
    found->second->status = status;
    question = std::exchange(found->second->question, nullptr);
  }
  if (question != nullptr) question->Answered();
}

void CustomHosts::Sweep(Clock::time_point now) {
  std::vector<std::pair<std::shared_ptr<HostChannel>, uint64_t>> cancelled;
  std::vector<Waiting> ended;
  {
    std::lock_guard lock(mu_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.deadline > now) {
        ++it;
        continue;
      }
      cancelled.emplace_back(providers_[it->second.channel].channel, it->first);
      ended.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
  }
  for (const auto& [channel, number] : cancelled) {
    v1::HostResponse response;
    response.add_cancelled(number);
    if (channel != nullptr) channel->Send(std::move(response), {});
  }
  for (Waiting& waiting : ended) {
    const absl::Status status = absl::DeadlineExceededError(
        absl::StrCat(waiting.what, ": its client has not answered within ", kCallLimit.count(), " s"));
    End(std::move(waiting), status);
  }
}

}  // namespace gluond::server
