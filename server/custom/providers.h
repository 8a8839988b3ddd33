// CustomProviders: the clients that compute operators, what each offers, and which of its operators it shares.
//
// * A provider is one stream. Its channel is its key, and its scope finds it, unless a later stream has the scope.
// * Every channel that SharedOperators knows is that of a provider, which offers the operator. Remove takes both away.
// * A Provider stays where it is until Remove, which gives it to the caller.
//
// Not thread-safe: CustomHosts locks.

#ifndef SERVER_CUSTOM_PROVIDERS_H_
#define SERVER_CUSTOM_PROVIDERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/custom_host.h"
#include "engine/runtime/budget.h"
#include "server/custom/shared_operators.h"

namespace gluond::v1 {
class HostResponse;
}
namespace gluond::server {

// The way to one client. Calls of a channel do not block, and may be made from any thread; nothing comes after the stream's
// end.
class HostChannel {
 public:
  virtual ~HostChannel() = default;
  virtual void Send(const v1::HostResponse& response) = 0;
  // Sends the call, which CustomHosts::ToMessage makes when the client can take it: until then it takes no memory.
  virtual void SendCall(uint64_t call) = 0;
  // Another stream has the channel's scope.
  virtual void Replaced() = 0;
};

struct HostLimits {
  std::chrono::seconds callback{300};  // A call that is not answered within so long fails.
  int64_t max_callbacks = 65'536;      // Calls under way or waiting.
};

// "custom operator 'softmax'", for messages.
std::string Describe(const CustomOperator& op);

class CustomProviders {
 public:
  struct Provider {
    std::shared_ptr<HostChannel> channel;
    Sharer sharer;
    HostLimits limits;
    std::function<Reservation()> new_memory;
    Reservation memory = {};                                  // For the offers.
    uint64_t tag = 0;                                         // A hash of the scope, for instances.
    int64_t calls = 0;                                        // CustomCallbacks counts them.
    absl::flat_hash_map<std::string, uint64_t> offered = {};  // By op_type: when it was shared, 0 where it was not.
    std::vector<uint64_t> released = {};                      // Functions that the client has not been told of yet.
  };

  // Adds a provider whose channel is new. Returns the channel that had the scope until now; null: none had.
  std::shared_ptr<HostChannel> Add(std::unique_ptr<Provider> provider);
  // Null: the stream has ended.
  Provider* Find(HostChannel* channel) const;
  // Null: no stream has the scope.
  Provider* FindScope(const std::string& scope) const;
  // Null: the stream had ended.
  std::unique_ptr<Provider> Remove(HostChannel* channel, SharedOperators::Left* left);

  // How an offer changes the operators of others.
  enum class Offered { kAlone, kShared, kTakenOver };
  struct Changed {
    Offered offered = Offered::kAlone;
    std::shared_ptr<HostChannel> before = nullptr;  // Another channel that computed the operator until now.
  };
  // Errors as of CustomHosts::Offer; then nothing has changed.
  absl::StatusOr<Changed> Offer(Provider& provider, const std::string& op_type, bool is_shared);
  // Returns another channel that computed the operator until now. Errors as of SharedOperators::Release.
  absl::StatusOr<std::shared_ptr<HostChannel>> Release(const Provider& provider, const std::string& op_type);

  // The provider that computes an operator now. UNAVAILABLE: there is none.
  absl::StatusOr<Provider*> Find(const CustomOperator& op) const;
  // The provider that has the call's function, or computed its forward pass.
  absl::StatusOr<Provider*> Find(const CustomCall& call) const;
  // As of CustomHost::NextInstance.
  uint64_t NextInstance(const CustomOperator& op);

  // As of CustomHosts.
  bool IsShared(const std::string& scope, const std::string& op_type) const;
  void Keep(const std::string& tenant, const std::string& op_type, const std::string& identity) {
    shared_.Keep({tenant, op_type}, identity);
  }
  absl::StatusOr<std::string> OwnerOf(const std::string& tenant, const std::string& op_type) const;
  int64_t size() const { return static_cast<int64_t>(providers_.size()); }

 private:
  absl::StatusOr<Provider*> Find(const std::string& scope, const std::string& op_type, bool offered, absl::string_view owner) const;
  absl::Status NobodyComputes(const std::string& scope, const std::string& op_type, absl::string_view owner) const;
  // The channel, of those of an identity, that has shared the operator last; null: none has.
  HostChannel* HeirOf(const Sharer& sharer, const std::string& op_type) const;

  uint64_t last_instance_ = 0;
  uint64_t last_share_ = 0;
  absl::flat_hash_map<HostChannel*, std::unique_ptr<Provider>> providers_;
  absl::flat_hash_map<std::string, HostChannel*> by_scope_;
  SharedOperators shared_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_PROVIDERS_H_
