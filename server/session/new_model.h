// NewModel: a model that SaveAsModel makes of a session's graph and of values. It is made beside the lanes, without the
// session.

#ifndef SERVER_SESSION_NEW_MODEL_H_
#define SERVER_SESSION_NEW_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/custom_host.h"
#include "engine/core/graph.h"
#include "engine/core/tensor.h"
#include "engine/runtime/account.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/lane.h"
#include "gluond/v1/command.pb.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/identity/owners.h"

namespace gluond::server {

// The things that a model is made of.
struct NewModel {
  v1::Command::SaveAsModel request;
  Graph graph;
  std::vector<Tensor> parameters;  // As request.parameters; on the host or on the model's device.
  std::vector<Tensor> states;      // As request.states; likewise.
  std::optional<int64_t> shards;   // HostedModel::virtual_shards.

  Place* place = nullptr;  // Where the model lies. The place, and what follows, outlives the making.
  Devices* devices = nullptr;
  Lane* lane = nullptr;       // The lane of the session.
  CustomHostPtr owners_host;  // Devices::custom_host_of the model.
  std::string scope;          // The credential of the session's client, of the model's tenant; or empty.
  Limits limits;
  std::shared_ptr<Budget> memory;  // Pays for the work of making the graph.
  Reservation kept;                // Pays for the request while it waits.
  AccountPtr account;              // The owner of the work.
  Owners::ClaimPtr claim;          // The claim to the model's name; null: there is none.
};

// Makes the model, with its values and its trainer, beside the lane, and calls `done` on any thread. Errors: as
// SaveAsModel in session.proto, but for those of the model's name.
void MakeModel(std::shared_ptr<const NewModel> plan, std::function<void(absl::StatusOr<HostedModelPtr>)> done);

}  // namespace gluond::server

#endif  // SERVER_SESSION_NEW_MODEL_H_
