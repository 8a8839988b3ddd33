// CallbackRelay: the leader's side of callbacks of a group's members. Clients compute operators of the models that members compute.
// The clients are the leader's, and so is the credential by which they are called (server/custom/scope.h). A member names a model
// and an operator. The relay finds that operator, with its credential, in the graph of the leader's own model.
//
//   member --Ask--> CallbackRelay --CustomHosts::Relay--> client         The values pass through as they came,
//   member <--Answer-- CallbackRelay <-- client's answer                 and the member checks what the client says.
//
// A call has the limits and the errors of the leader's own: it fails when its client goes, answers too late, or has too many calls.
// Questions about shapes and types are CustomHosts', which remembers the answers: a client is asked once for all members.
//
// Thread-safe. Outlives the calls that it has begun.

#ifndef SERVER_GROUP_CALLBACK_RELAY_H_
#define SERVER_GROUP_CALLBACK_RELAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/group.pb.h"
#include "server/custom/hosts.h"
#include "server/hosted/hosted_model.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// A member's callback, as the leader has it.
struct MemberCallback {
  v1::JoinRequest::Ask ask;
  Attachments attachments;
  Reservation memory;                       // Pays for the message until there is an answer.
  absl::Status refused;                     // Why it does not; then this is the answer.
  std::function<Reservation()> new_memory;  // Makes a reservation for the answer.
  std::function<void(Slices answer)> tell;  // Sends a JoinResponse. Any thread calls it.
};

class CallbackRelay : public std::enable_shared_from_this<CallbackRelay> {
 public:
  using Member = int64_t;
  // A member computes one step at a time, which makes one call at a time, and asks some questions before it.
  static constexpr size_t kMostOfMember = 1024;

  // `models` outlive the relay. `hosts` may be null: nobody computes any operator.
  CallbackRelay(const Models& models, std::shared_ptr<CustomHosts> hosts) : models_(models), hosts_(std::move(hosts)) {}

  // Always answers, unless the member withdraws the call or is lost. Errors: RESOURCE_EXHAUSTED, the member asks too much at once.
  // ABORTED: the group has no such operator of such a model, any more. Others are those of CustomHost.
  void Ask(Member member, std::shared_ptr<MemberCallback> asked);
  void Withdraw(Member member, const v1::JoinRequest::Withdraw& withdraw);
  // Nobody waits for the member's answers any more.
  void Lost(Member member);

 private:
  using Run = std::shared_ptr<ClientTime>;  // By it CustomHosts knows a call (CustomHost::Abandon).
  using Key = std::pair<Member, uint64_t>;
  using OperatorKey = std::pair<std::string, AttrDict>;
  // The operators of a model's graph.
  struct Operators {
    std::weak_ptr<HostedModel> hosted;
    std::map<OperatorKey, CustomOperator> by_key;
  };

  absl::StatusOr<CustomOperator> Find(const std::string& model, const v1::Callback& callback);
  static std::map<OperatorKey, CustomOperator> OperatorsOf(const HostedModel& hosted);
  absl::Status Add(const Key& key, Run run);
  // Null: nobody waits for the answer any more.
  Run Remove(const Key& key);
  void Call(const Key& key, const Run& run, std::shared_ptr<MemberCallback> asked, CustomOperator op);
  void AskFact(const Key& key, std::shared_ptr<MemberCallback> asked, CustomOperator op);
  // Answers where somebody still waits.
  void Tell(const Key& key, const MemberCallback& asked, const absl::StatusOr<CustomHosts::Answer>& answer, uint64_t instance = 0);

  const Models& models_;
  const std::shared_ptr<CustomHosts> hosts_;

  Mutex mu_;
  std::map<Member, std::map<uint64_t, Run>> waiting_ ABSL_GUARDED_BY(mu_);  // By the members' own numbers.
  std::map<std::string, Operators> operators_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_CALLBACK_RELAY_H_
