// HeldModel: a model of a group as it is at one moment, with its trainer. Its files travel to members, and processes compare what
// they hold by a checksum.

#ifndef SERVER_GROUP_HELD_MODEL_H_
#define SERVER_GROUP_HELD_MODEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/runtime/budget.h"
#include "engine/store/checkpoint.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

using NamedModels = std::vector<std::pair<std::string, HostedModelPtr>>;  // By name.

struct HeldModel {
  std::string name;
  HostedModelPtr hosted;
  uint64_t edits = 0;       // HostedModel::state_edits, or fewer where
  bool was_edited = false;  // the model was changed at that moment.
  absl::Status status;      // The snapshot's.
  // Whether its turn has not come yet: it is held without a snapshot. Null: it has come.
  std::shared_ptr<std::atomic<bool>> is_late = nullptr;
  Checkpoint checkpoint;  // Shares the parameters' memory,
  NamedTensors sums;      // as these, the gradients of grad_req add, which steps add to.
};
using HeldModels = std::vector<HeldModel>;  // By name.

// Checksums of held models. A model is read again when it has changed. Thread-safe.
class Checksums {
 public:
  // The checksum of all values, states and counters that steps depend on, but the learning rate: each step brings that along.
  uint32_t Of(const HeldModels& models);

 private:
  struct Known {
    std::weak_ptr<HostedModel> hosted;
    uint64_t edits = 0;  // A leader's model changes by these,
    uint64_t runs = 0;   // and a member's by steps.
    uint32_t crc = 0;
  };

  Mutex mu_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mu_);
};

// The models of the group that this server leads, and how far its members know them. Not thread-safe.
class KnownModels {
 public:
  explicit KnownModels(const Models& models) : models_(models) {}

  // The group's models, by name, but for those that are late.
  NamedModels List() const;
  // UNAVAILABLE: the model is late.
  absl::Status WhyLate(const std::string& name) const;
  // Whether the model, which has so many edits, is another one than its members know.
  bool HasChanged(const std::string& name, const HostedModelPtr& hosted, uint64_t edits) const;
  // The members know the models as they are held, all of the group's or some. The change that has made them so is number `number`.
  // False: there is none. Leaves out of `held` those that could not be held: their steps tell why, and those of other models go on.
  bool Take(HeldModels& held, bool is_all, uint64_t number);
  // All have applied a step of the model, the change of that number.
  void Applied(const std::string& name, uint64_t number);
  // Requires: the members know the model.
  bool HasChangedSince(const std::string& name, uint64_t number) const { return known_.at(name).changed > number; }
  // The edits that members know. ABORTED: they do not know the model. Other errors: why it could not be held.
  absl::StatusOr<uint64_t> Edits(const std::string& name) const;

 private:
  struct Known {
    std::weak_ptr<HostedModel> hosted;
    uint64_t edits = 0;    // HostedModel::state_edits.
    uint64_t changed = 0;  // The number of the last change.
  };

  const Models& models_;
  std::map<std::string, Known> known_;
  struct Unheld {
    absl::Status status;
    std::shared_ptr<std::atomic<bool>> is_late;
  };
  std::map<std::string, Unheld> unheld_;
};

// The files of a live checkpoint, by path.
using StateFiles = std::map<std::string, std::shared_ptr<std::string>>;
// A held model as such files, which are made when they are first wanted, once for all members that want them. Thread-safe.
class PackedModel {
 public:
  // `memory`: the budget that pays for the files.
  PackedModel(HeldModel model, std::shared_ptr<Budget> memory) : model_(std::move(model)), memory_(std::move(memory)) {}

  const std::string& name() const { return model_.name; }
  // RESOURCE_EXHAUSTED: there is no memory for them. Other errors are those of CheckpointStore::Save.
  absl::StatusOr<StateFiles> Files();

 private:
  HeldModel model_;
  Mutex mu_;
  Reservation memory_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::StatusOr<StateFiles>> files_ ABSL_GUARDED_BY(mu_);
};

// Makes the model of such files, on the device of the leader's or, where there is none of that name, on the first one of its kind. The
// thread's ScopedCustomHost computes its clients' operators. `done` is called once, on any thread. FAILED_PRECONDITION: this process
// has no device of the kind. DATA_LOSS: the files are damaged. Other errors are those of HostedModel::Create and Restore.
void FromFiles(std::string name, StateFiles files, Devices& devices, int64_t max_model_bytes,
               std::function<void(absl::StatusOr<HostedModelPtr>)> done);

}  // namespace gluond::server

#endif  // SERVER_GROUP_HELD_MODEL_H_
