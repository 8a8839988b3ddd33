// ExpectedVersion: CallOptions.expected_version as the condition under which a call's work is queued. Change: a call's change
// of a model under that condition.
//
//   Change<absl::Status>(
//       call, hosted, HostedModel::Counts::kVersion,
//       [&](auto done) { hosted->model().SetParameters(std::move(values), std::move(done)); },
//       [call] { call.Finish(); });  // ABORTED where another call has changed the model in between.

#ifndef SERVER_SERVICES_EXPECTATION_H_
#define SERVER_SERVICES_EXPECTATION_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engine/nn/strand.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

// The condition; null where the call expects no version.
template <class CallType>
ScopedCondition::Condition ExpectedVersion(const CallType& call, const HostedModelPtr& hosted) {
  const auto& options = call.request().call();
  return options.has_expected_version() ? hosted->Expect(options.expected_version()) : nullptr;
}

// The same for work that no strand does: asked now.
template <class CallType>
absl::Status CheckExpectedVersion(const CallType& call, const HostedModelPtr& hosted) {
  const ScopedCondition::Condition condition = ExpectedVersion(call, hosted);
  return condition == nullptr ? absl::OkStatus() : condition();
}

// As HostedModel::Change. An error ends the call; else `go_on` is called as by Call::Then.
template <class Result, class CallType, class GoOn>
void Change(const CallType& call, const HostedModelPtr& hosted, HostedModel::Counts counts,
            const std::function<void(std::function<void(Result)>)>& begin, GoOn go_on) {
  const ScopedCondition condition(ExpectedVersion(call, hosted));
  HostedModel::Change<Result>(hosted, counts, begin, call.Then(std::move(go_on)));
}

// The `expected_etag` of a request; nothing: it has none.
template <class Request>
std::optional<std::string> ExpectedEtag(const Request& request) {
  return request.has_expected_etag() ? std::optional(request.expected_etag()) : std::nullopt;
}

}  // namespace gluond::server

#endif  // SERVER_SERVICES_EXPECTATION_H_
