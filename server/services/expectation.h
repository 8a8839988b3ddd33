// ExpectedVersion: CallOptions.expected_version as the condition under which a call's work is queued.
//
//   const ScopedCondition condition(ExpectedVersion(call, hosted));
//   hosted->model().SetParameters(...);  // ABORTED where another call has changed the model in between.

#ifndef SERVER_SERVICES_EXPECTATION_H_
#define SERVER_SERVICES_EXPECTATION_H_

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

}  // namespace gluond::server

#endif  // SERVER_SERVICES_EXPECTATION_H_
