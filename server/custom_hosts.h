// CustomHosts: the clients that compute operators, what they have said of shapes and types, and the calls that wait for
// them. One for the process, since graphs know their operators by scope and name and not by server. Thread-safe; no
// thread waits for a client, and none is called with the mutex held.
//
//   ops/custom.cc --Begin--> CustomHosts --Send--> HostStream --> client
//   client --> HostStream --Result--> CustomHosts --completion--> the run goes on

#ifndef SERVER_CUSTOM_HOSTS_H_
#define SERVER_CUSTOM_HOSTS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/core/custom_host.h"
#include "engine/core/pending_fact.h"
#include "proto/custom_operator.pb.h"
#include "server/attachments.h"

namespace gluond::server {

// The way to one client. `Send` does not block, and may be called from any thread; nothing comes after the stream's end.
class HostChannel {
 public:
  virtual ~HostChannel() = default;
  virtual void Send(v1::HostResponse response, Attachments attachments) = 0;
  // Another stream has its scope.
  virtual void Replaced() = 0;
  virtual const std::string& client() const = 0;
};

class CustomHosts final : public CustomHost {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kCallLimit{300};

  // The process's; it is the engine's host from the first call on.
  static CustomHosts& Get();

  // The life of a stream. INVALID_ARGUMENT: the scope, a name.
  absl::Status Attach(const std::string& scope, std::shared_ptr<HostChannel> channel);
  absl::Status Offer(HostChannel* channel, const v1::OfferOperator& offer);
  // An answer that nobody waits for is dropped.
  void Result(HostChannel* channel, const v1::CallbackResult& result, const Attachments& attachments);
  void Detach(HostChannel* channel);
  // Ends the calls whose time is over.
  void Sweep(Clock::time_point now);

  // CustomHost.
  void Begin(CustomCall call) override;
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override;
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override;
  uint64_t NextInstance() override { return ++last_instance_; }

 private:
  struct Provider {
    std::shared_ptr<HostChannel> channel;
    std::string scope;
    absl::flat_hash_set<std::string> offered;
  };
  // What a client was asked for about shapes or types.
  struct Fact {
    std::shared_ptr<Question> question;  // Null once it is answered.
    absl::Status status;
    Inference shapes;
    TypeInference types;
  };
  struct Waiting {
    HostChannel* channel;
    Clock::time_point deadline;
    std::string what;                   // "forward of custom operator 'softmax'", for messages.
    std::shared_ptr<CustomCall> call;   // One of these:
    std::string fact;
    bool of_types = false;
  };
  using Facts = absl::flat_hash_map<std::string, std::shared_ptr<Fact>>;

  absl::StatusOr<std::shared_ptr<HostChannel>> FindLocked(const std::string& scope, const std::string& op_type,
                                                          bool offered) const;
  absl::StatusOr<std::shared_ptr<Fact>> Ask(const CustomOperator& op, v1::Callback callback, std::string key,
                                            bool of_types);
  void End(Waiting waiting, const absl::Status& status);
  void ForgetFactsLocked(const std::string& scope, const std::string& op_type);

  std::atomic<uint64_t> last_instance_ = 0;
  std::mutex mu_;  // Guards all that follows.
  uint64_t last_call_ = 0;
  absl::flat_hash_map<HostChannel*, Provider> providers_;
  absl::flat_hash_map<std::string, HostChannel*> by_scope_;
  absl::flat_hash_map<std::string, HostChannel*> shared_;  // By op_type.
  std::map<uint64_t, Waiting> waiting_;
  Facts facts_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_HOSTS_H_
