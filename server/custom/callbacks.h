// CustomCallbacks: the calls and questions that clients have not answered yet, by number. A callback passes through these
// states:
//
//   Add --> kQueued --Send--> kSending --Sent--> kSent --Accept--> answered
//                                '--Accept--> the answer is kept --Sent--> answered
//
// * The message of a call points into the memory of the run that waits for the answer. gRPC reads that memory until Sent.
//   The run goes on to write the memory when it has the answer. So an answer that comes before Sent is kept until then.
// * A client that answers a callback in kQueued has guessed the number. Its answer is dropped. So is an answer of another
//   client, and a second answer.
// * A callback leaves once: answered, or by a Take. The one that gets it ends it, without the lock. Its client may be at
//   work on the callback unless that is in kQueued.
// * Numbers grow and are not used again, so the first callback is the oldest.
// * The provider of a callback is one of CustomProviders: TakeAllOf comes before the provider goes. Provider::calls is
//   the number of its callbacks.
// * A run makes one call at a time. `by_run_` has the numbers of the calls that have a CustomCall::time.
//
// Not thread-safe: CustomHosts locks. Without the lock, a callback's `state`, `answer` and `provider` are of use only to
// the one that got it; the rest does not change after Add.

#ifndef SERVER_CUSTOM_CALLBACKS_H_
#define SERVER_CUSTOM_CALLBACKS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/custom_host.h"
#include "gluond/v1/custom_operator.pb.h"
#include "server/custom/facts.h"
#include "server/custom/providers.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class CustomCallbacks {
 public:
  using Clock = std::chrono::steady_clock;
  using Provider = CustomProviders::Provider;

  struct Answer {
    v1::CallbackResult result;
    Attachments attachments;
  };
  // The message of a call that another server makes, and who takes the client's answer as it is, or the error.
  struct Relayed {
    v1::Callback callback;
    Attachments attachments;
    std::function<void(absl::StatusOr<Answer>)> done;
  };
  struct Waiting {
    std::string what = {};                // "forward of custom operator 'softmax'", for messages.
    std::optional<CustomCall> call = {};  // A call, or a question:
    std::optional<Relayed> relayed = {};  // With a call that has neither blobs nor a completion.
    CustomFacts::Key fact = {};
    v1::Callback question = {};
    // Add sets the rest.
    uint64_t number = 0;
    std::shared_ptr<HostChannel> channel = nullptr;
    Clock::time_point begun = {};
    std::chrono::seconds limit = {};  // The time for an answer.
    enum { kQueued, kSending, kSent } state = kQueued;
    std::optional<Answer> answer = {};
    Provider* provider = nullptr;
  };
  using WaitingPtr = std::shared_ptr<Waiting>;

  // Numbers the callback. RESOURCE_EXHAUSTED: the provider has too many.
  absl::Status Add(Provider& provider, WaitingPtr waiting);
  // The callback's message is going to be made; Sent tells that gRPC has let go of the message. Null: nobody waits any more.
  WaitingPtr Send(uint64_t number);
  // Returns the callback, with the answer, if the answer has come already.
  WaitingPtr Sent(uint64_t number);
  // Returns the callback, with the answer, unless the answer is kept or dropped.
  WaitingPtr Accept(HostChannel* channel, Answer&& answer);

  // Take callbacks out that have not been answered. Null: there is none.
  WaitingPtr Take(uint64_t number);
  WaitingPtr TakeOf(const ClientTime* run);
  std::vector<WaitingPtr> TakeAllOf(const Provider& provider);
  std::vector<WaitingPtr> TakeLate(Clock::time_point now);

  int64_t size() const { return static_cast<int64_t>(waiting_.size()); }
  // So long the oldest has waited.
  Clock::duration longest_wait() const {
    return waiting_.empty() ? Clock::duration::zero() : Clock::now() - waiting_.begin()->second->begun;
  }

 private:
  using Callbacks = std::map<uint64_t, WaitingPtr>;
  WaitingPtr TakeOut(Callbacks::iterator callback);
  template <class Condition>
  std::vector<WaitingPtr> TakeIf(Condition condition);

  uint64_t last_ = 0;
  Callbacks waiting_;
  absl::flat_hash_map<const ClientTime*, uint64_t> by_run_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_CALLBACKS_H_
