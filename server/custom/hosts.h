// CustomHosts: the clients that compute operators, their answers about shapes and types, and the calls that wait for
// them. A server has one, which its graphs hold. Thread-safe; no thread waits for a client, and no client is called
// with the mutex held.
//
//   ops/custom.cc --Begin--> CustomHosts --SendCall--> HostStream --ToMessage--> client
//   client --> HostStream --Result--> CustomHosts --completion--> the run goes on
//
// A message points into the memory of the run that waits for its answer. So an answer counts when gRPC has let go of the
// message, not before: until then gRPC reads memory that the run would go on to write.

#ifndef SERVER_CUSTOM_HOSTS_H_
#define SERVER_CUSTOM_HOSTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/core/custom_host.h"
#include "engine/core/mutex.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/custom_operator.pb.h"
#include "server/custom/facts.h"
#include "server/custom/shared_operators.h"
#include "server/rpc/latency.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// The way to one client. Its calls do not block, and may be made from any thread; nothing comes after the stream's end.
class HostChannel {
 public:
  virtual ~HostChannel() = default;
  virtual void Send(const v1::HostResponse& response) = 0;
  // Sends the call, which CustomHosts::ToMessage makes when the client can take it: until then it takes no memory.
  virtual void SendCall(uint64_t call) = 0;
  // Another stream has its scope.
  virtual void Replaced() = 0;
};

struct HostLimits {
  std::chrono::seconds callback{300};  // A call that is not answered within so long fails.
  int64_t max_callbacks = 65'536;      // Calls under way or waiting.
};

class CustomHosts final : public CustomHost, public std::enable_shared_from_this<CustomHosts> {
 public:
  using Clock = std::chrono::steady_clock;

  // The life of a stream. The inside scope is the client's (scope.h); `sharer` has the rest of what is known of it.
  // `memory` makes what pays for what it offers.
  void Attach(const std::string& scope, std::shared_ptr<HostChannel> channel, const HostLimits& limits, Sharer sharer = {},
              std::function<Reservation()> memory = [] { return Reservation(); });
  // The change that an offer has made for others.
  enum class Offered { kAlone, kShared, kTakenOver };
  // INVALID_ARGUMENT: the name. RESOURCE_EXHAUSTED: too many, or no memory. PERMISSION_DENIED: the shared name is another's,
  // and nothing is offered.
  absl::StatusOr<Offered> Offer(HostChannel* channel, const v1::OfferOperator& offer);
  // Errors as SharedOperators::Release.
  absl::Status Release(HostChannel* channel, const std::string& op_type);
  // The shared names that are nobody's from now on.
  std::vector<std::string> Detach(HostChannel* channel);

  // Makes a call's message; the call counts as sent when the attachments are gone. False: nobody waits for it any more.
  bool ToMessage(uint64_t call, v1::HostResponse* response, Attachments* attachments);
  struct Answer {
    v1::CallbackResult result;
    Attachments attachments;
  };
  // Takes an answer. Drops one that nobody waits for, and one to a question that has not been asked.
  void Result(HostChannel* channel, Answer answer);
  // Ends a call that could not be sent.
  void Fail(uint64_t call, const absl::Status& why);
  // Ends the calls whose time is over.
  void Sweep(Clock::time_point now);
  // Whether the client with the scope is connected and computes the operator for the graphs of its tenant's others, too.
  bool IsShared(const std::string& scope, const std::string& op_type);
  // A shared name is this identity's, as before a restart, unless somebody shares it already.
  void Keep(const std::string& tenant, const std::string& op_type, const std::string& identity) {
    MutexLock lock(mu_);
    shared_.Keep({tenant, op_type}, identity);
  }
  // The identity whose a shared name is (SharedOperators::OwnerOf). UNAVAILABLE: it is nobody's.
  absl::StatusOr<std::string> OwnerOf(const std::string& tenant, const std::string& op_type) const;

  // For those who watch the callbacks. Round trips last from the call to its answer; other calls were given up.
  const Latency& round_trips() const { return round_trips_; }
  int64_t waiting() const {
    MutexLock lock(mu_);
    return static_cast<int64_t>(waiting_.size());
  }
  // So long the oldest of them has waited.
  Clock::duration longest_wait() const {
    MutexLock lock(mu_);
    return waiting_.empty() ? Clock::duration::zero() : Clock::now() - waiting_.begin()->second.begun;
  }
  int64_t clients() const {
    MutexLock lock(mu_);
    return static_cast<int64_t>(providers_.size());
  }

  // CustomHost's, where no other than `owner`, an identity, may compute a shared operator; empty: whoever shares it.
  void Begin(CustomCall call, const std::string& owner);
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments, const std::string& owner);
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments, const std::string& owner);
  uint64_t NextInstance(const CustomOperator& op, const std::string& owner);

  // CustomHost.
  void Begin(CustomCall call) override { Begin(std::move(call), ""); }
  void Abandon(const ClientTime* run) override;
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override {
    return InferShape(op, arguments, "");
  }
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override {
    return InferType(op, arguments, "");
  }
  uint64_t NextInstance(const CustomOperator& op) override { return NextInstance(op, ""); }
  std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) override;

 private:
  struct Provider {
    std::shared_ptr<HostChannel> channel;
    Sharer sharer;
    uint64_t tag;        // The scope's, for instances.
    HostLimits limits;
    int64_t calls = 0;   // Those that wait.
    absl::flat_hash_map<std::string, uint64_t> offered;  // By op_type: when it was shared, 0 where it was not.
    std::function<Reservation()> new_memory;
    Reservation memory;                                  // For these offers.
    v1::HostResponse released;                           // Functions that the client has not been told of yet.
  };
  struct Waiting {
    HostChannel* channel = nullptr;
    Clock::time_point begun = {};
    std::string what;                            // "forward of custom operator 'softmax'", for messages.
    std::shared_ptr<CustomCall> call = nullptr;  // One of these:
    CustomFacts::Key fact = {};
    std::shared_ptr<const v1::Callback> question = nullptr;
    enum { kQueued, kSending, kSent } state = kQueued;
    std::unique_ptr<Answer> early = nullptr;     // It has come while the question was being sent.
  };

  absl::StatusOr<Provider*> FindLocked(const std::string& scope, const std::string& op_type, bool offered,
                                       absl::string_view owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Provider*> FindForCallLocked(const CustomCall& call, absl::string_view owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NobodyComputesLocked(const std::string& scope, const std::string& op_type, absl::string_view owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The stream, of those of an identity, that has shared the operator last; null: none has.
  HostChannel* HeirLocked(const Sharer& sharer, const std::string& op_type) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Numbers the call. RESOURCE_EXHAUSTED: the provider has too many.
  absl::StatusOr<uint64_t> AddLocked(Provider* provider, Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  using WaitingIterator = std::map<uint64_t, Waiting>::iterator;
  Waiting TakeLocked(WaitingIterator waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<CustomFacts::FactPtr> Ask(const CustomOperator& op, v1::Callback question, CustomFacts::Key key,
                                           bool complete, const std::string& owner);
  void End(Waiting waiting, const absl::Status& status);
  // Notes that the call's message no longer points into its run's memory.
  void Sent(uint64_t call);
  void LetGo(const std::pair<std::string, uint64_t>& function);

  Mutex functions_mu_;  // Held alone.
  absl::flat_hash_map<std::pair<std::string, uint64_t>, std::weak_ptr<const void>> functions_
      ABSL_GUARDED_BY(functions_mu_);

  Latency round_trips_;
  mutable Mutex mu_;
  uint64_t last_instance_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_share_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<HostChannel*, std::unique_ptr<Provider>> providers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, HostChannel*> by_scope_ ABSL_GUARDED_BY(mu_);
  SharedOperators shared_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  // The call that a run waits for: one at a time.
  absl::flat_hash_map<const ClientTime*, uint64_t> by_run_ ABSL_GUARDED_BY(mu_);
  CustomFacts facts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_HOSTS_H_
