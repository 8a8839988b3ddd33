// HeldModel: a model of a group as it is at one moment, with its trainer. Its files travel to members, and processes compare what
// they hold by a checksum.

#ifndef SERVER_GROUP_HELD_MODEL_H_
#define SERVER_GROUP_HELD_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/checkpoint.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

using NamedModels = std::vector<std::pair<std::string, HostedModelPtr>>;  // By name.

struct HeldModel {
  std::string name;
  HostedModelPtr hosted;
  uint64_t edits = 0;     // HostedModel::edits, or fewer where the model was changed at that moment.
  Checkpoint checkpoint;  // Shares the parameters' memory,
  NamedTensors sums;      // as these, the gradients of grad_req add, which steps add to.
};
using HeldModels = std::vector<HeldModel>;

// Takes hold of one model after the other. `done` is called once, on any thread; an error is that of HostedModel::Snapshot.
void HoldModels(NamedModels models, std::function<void(absl::StatusOr<HeldModels>)> done);

// A checksum of all values, states and counters that steps depend on. Takes as long as reading them.
uint32_t Checksum(const HeldModels& models);

// The files of a live checkpoint, by path.
using StateFiles = std::map<std::string, std::shared_ptr<std::string>>;
absl::StatusOr<StateFiles> ToFiles(const HeldModel& model);
// Makes the model of such files, on the device of that name or, where there is none, on the first one. `done` is called once, on
// any thread. DATA_LOSS: the files are damaged. Other errors are those of HostedModel::Create and Restore.
void FromFiles(std::string name, StateFiles files, Devices& devices, int64_t max_model_bytes,
               std::function<void(absl::StatusOr<HostedModelPtr>)> done);

}  // namespace gluond::server

#endif  // SERVER_GROUP_HELD_MODEL_H_
