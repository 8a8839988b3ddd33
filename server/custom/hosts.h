// CustomHosts: the clients that compute operators, their answers about shapes and types, and the calls that wait for
// answers. A server has one CustomHosts, which its graphs hold. Thread-safe; no thread waits for a client.
//
//   ops/custom.cc --Begin--> CustomHosts --SendCall--> HostStream --ToMessage--> client
//   client --> HostStream --Result--> CustomHosts --completion--> the run goes on
//
// Three tables lie under one mutex: the clients (providers.h), the calls that are not answered yet (callbacks.h), and the
// shapes and types that are known (facts.h). Each header states the rules of its table. Completions, questions and channels
// are called without the mutex.

#ifndef SERVER_CUSTOM_HOSTS_H_
#define SERVER_CUSTOM_HOSTS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/core/custom_host.h"
#include "engine/core/mutex.h"
#include "server/custom/callbacks.h"
#include "server/custom/facts.h"
#include "server/custom/providers.h"
#include "server/rpc/call_counts.h"

namespace gluond::server {

class CustomHosts final : public CustomHost, public std::enable_shared_from_this<CustomHosts> {
 public:
  using Clock = CustomCallbacks::Clock;

  // The life of a stream. `scope` is an inside one (scope.h); `sharer` has the rest of what is known of the client. `memory`
  // makes the reservations that pay for its offers.
  void Attach(
      const std::string& scope, std::shared_ptr<HostChannel> channel, const HostLimits& limits, Sharer sharer = {},
      std::function<Reservation()> memory = [] { return Reservation(); });
  using Offered = CustomProviders::Offered;
  // INVALID_ARGUMENT: the name. RESOURCE_EXHAUSTED: too many, or no memory. PERMISSION_DENIED: another client
  // owns the shared name, and nothing is offered.
  absl::StatusOr<Offered> Offer(HostChannel* channel, const v1::OfferOperator& offer);
  // Errors as SharedOperators::Release.
  absl::Status Release(HostChannel* channel, const std::string& op_type);
  // The shared names that are nobody's from now on.
  std::vector<std::string> Detach(HostChannel* channel);

  // Makes a call's message; the call counts as sent when the attachments are gone. False: nobody waits for the call any more.
  bool ToMessage(uint64_t call, v1::HostResponse* response, Attachments* attachments);
  using Answer = CustomCallbacks::Answer;
  // Takes an answer. Drops one that nobody waits for, and one to a question that has not been asked.
  void Result(HostChannel* channel, Answer answer);
  // Ends a call that could not be sent.
  void Fail(uint64_t call, const absl::Status& why);
  // Ends a call with the error that another server has told, where that one asks the client.
  void Refused(uint64_t call, const absl::Status& why);
  // Ends the calls whose time is over.
  void Sweep(Clock::time_point now);
  // Whether the client with the scope is connected and computes the operator for the graphs of its tenant's others, too.
  bool IsShared(const std::string& scope, const std::string& op_type) const {
    MutexLock lock(mu_);
    return providers_.IsShared(scope, op_type);
  }
  // This identity owns a shared name, as before a restart, unless somebody shares the name already.
  void Keep(const std::string& tenant, const std::string& op_type, const std::string& identity) {
    MutexLock lock(mu_);
    providers_.Keep(tenant, op_type, identity);
  }
  // The identity that owns a shared name (SharedOperators::OwnerOf). UNAVAILABLE: nobody owns the name.
  absl::StatusOr<std::string> OwnerOf(const std::string& tenant, const std::string& op_type) const {
    MutexLock lock(mu_);
    return providers_.OwnerOf(tenant, op_type);
  }

  // For those who watch the callbacks. Round trips last from the call to its answer; other calls were given up.
  const Latency& round_trips() const { return round_trips_; }
  struct Load {
    int64_t waiting = 0;             // Callbacks that are not answered.
    Clock::duration longest_wait{};  // So long the oldest of them has waited.
    int64_t clients = 0;
  };
  Load load() const {
    MutexLock lock(mu_);
    return {callbacks_.size(), callbacks_.longest_wait(), providers_.size()};
  }

  // Begins a call of another server, which has no blobs. `relayed.done` is called once, on any thread, unless Abandon is called.
  using Relayed = CustomCallbacks::Relayed;
  void Relay(CustomCall call, Relayed relayed) { Begin(std::move(call), std::move(relayed)); }

  // CustomHost.
  void Begin(CustomCall call) override { Begin(std::move(call), std::nullopt); }
  void Abandon(const ClientTime* run) override;
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override;
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override;
  uint64_t NextInstance(const CustomOperator& op) override {
    MutexLock lock(mu_);
    return providers_.NextInstance(op);
  }
  std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) override;

 private:
  using Waiting = CustomCallbacks::Waiting;
  using WaitingPtr = CustomCallbacks::WaitingPtr;

  // Calls a function of the callbacks with the lock.
  template <class Function, class... Arguments>
  auto OfCallbacks(Function function, Arguments&&... arguments) {
    MutexLock lock(mu_);
    return std::invoke(function, callbacks_, std::forward<Arguments>(arguments)...);
  }
  void Begin(CustomCall call, std::optional<Relayed> relayed);
  template <class Arguments>
  absl::StatusOr<CustomFacts::FactPtr> Ask(const CustomOperator& op, const Arguments& arguments);
  // Notes that the call's message no longer points into its run's memory.
  void Sent(uint64_t call);
  // Ends a callback that has an answer,
  void Finish(const Waiting& waiting);
  // or one with this status; `fact`: what has been answered to a question.
  void End(const Waiting& waiting, const absl::Status& status, CustomFacts::Fact fact = {});
  void LetGo(const std::pair<std::string, uint64_t>& function);

  Mutex functions_mu_;  // Held alone.
  absl::flat_hash_map<std::pair<std::string, uint64_t>, std::weak_ptr<const void>> functions_ ABSL_GUARDED_BY(functions_mu_);

  Latency round_trips_;
  mutable Mutex mu_;
  CustomProviders providers_ ABSL_GUARDED_BY(mu_);
  CustomCallbacks callbacks_ ABSL_GUARDED_BY(mu_);
  CustomFacts facts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_HOSTS_H_
