// RelayedOperators: the clients' operators in the models of a group's member. The clients are the leader's. Each callback goes to
// the leader over Join, and the answer comes back the same way (callback_relay.h). The member knows no client's credential.
//
//   CustomHostPtr host = operators.HostOf("digits");
//   const ScopedCustomHost scoped(host, RelayedOperators::kScope);  // Graphs that are made now are computed so.
//
// Callbacks wait, are numbered and remembered in a CustomHosts of the member's own, in which the leader stands for a client, once
// for each model. A callback takes no memory until it is written. All functions are for the loop, which ends before the operators;
// graphs call their hosts on any thread, and may outlive the operators.

#ifndef SERVER_GROUP_RELAYED_OPERATORS_H_
#define SERVER_GROUP_RELAYED_OPERATORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/core/custom_host.h"
#include "gluond/v1/group.pb.h"
#include "server/custom/hosts.h"
#include "server/group/loop.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class RelayedOperators {
 public:
  // Stands in graphs for the credentials that the leader has.
  static constexpr char kScope[] = "leader";

  // `say` sends a message to the leader. `runner` outlives the operators.
  RelayedOperators(Runner& runner, std::shared_ptr<GroupLoop> loop, std::function<void(const v1::JoinRequest&)> say)
      : runner_(runner), loop_(std::move(loop)), say_(std::move(say)) {}

  // Computes the operators of a model's graph. A later host of a model takes the place of an earlier one.
  CustomHostPtr HostOf(const std::string& model);

  // A Join is open.
  void Joined() { is_joined_ = true; }
  // It has ended: what waits fails with UNAVAILABLE.
  void Lost();
  void Heard(v1::JoinResponse::Answer answer);

 private:
  class Leader;
  class ModelHost;

  void Ask(Leader& leader, uint64_t call);

  Runner& runner_;
  const std::shared_ptr<GroupLoop> loop_;
  const std::function<void(const v1::JoinRequest&)> say_;
  const std::shared_ptr<CustomHosts> hosts_ = std::make_shared<CustomHosts>();
  bool is_joined_ = false;
  uint64_t last_host_ = 0;
  std::map<std::string, std::weak_ptr<ModelHost>> models_;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_RELAYED_OPERATORS_H_
