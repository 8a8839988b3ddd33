// The placement of a model in a group of servers, as the call that defines the model wants it.

#ifndef SERVER_HOSTED_PLACEMENT_H_
#define SERVER_HOSTED_PLACEMENT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/train/sharded_step.h"
#include "gluond/v1/graph.pb.h"
#include "gluond/v1/group.pb.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

// The number of virtual shards; nothing: the model is trained by this server alone. INVALID_ARGUMENT: no such number.
// FAILED_PRECONDITION: the server leads no group.
inline absl::StatusOr<std::optional<int64_t>> VirtualShards(const v1::Placement& placement, const Models& models) {
  if (!placement.group()) {
    if (!placement.has_virtual_shards()) return std::nullopt;
    return Invalid("placement.virtual_shards is for models of a group; set placement.group");
  }
  const std::optional<int64_t> least = models.least_shards();
  if (!least.has_value()) {
    return FailedPrecondition(
        "placement.group: this server leads no group; start it with --group=HOST:PORT, an address of its own");
  }
  const int64_t shards = placement.has_virtual_shards() ? placement.virtual_shards() : *least;
  if (shards >= *least && shards <= ShardedStep::kMostShards && (shards & (shards - 1)) == 0) return shards;
  return Invalid("placement.virtual_shards is ", shards, "; want a power of two from ", *least,
                 ", the most ranks of the group, to ", ShardedStep::kMostShards);
}

// FAILED_PRECONDITION: a layer of the tree wants to see the whole batch, of which each shard is a part.
inline absl::Status CheckShardsSuffice(const v1::Block& tree) {
  std::vector<const v1::Block*> blocks = {&tree};
  while (!blocks.empty()) {
    const v1::Block& block = *blocks.back();
    blocks.pop_back();
    if (block.block() == "SyncBatchNorm") {
      return FailedPrecondition(
          "a group's shards have a mean each, and SyncBatchNorm wants that of the batch; use BatchNorm, or define ",
          "the model without placement.group");
    }
    for (const v1::Block& child : block.children()) blocks.push_back(&child);
  }
  return absl::OkStatus();
}

// Whether a group can train the model with this trainer; OK also for a model of no group. Errors: as Trainer::CheckSharded.
inline absl::Status CheckGroupTrains(const HostedModel& hosted, const Trainer& trainer) {
  return hosted.virtual_shards().has_value() ? trainer.CheckSharded() : absl::OkStatus();
}

// Whether a group's processes have sums of the model's gradients (grad_req add), which go on from step to step.
inline bool GroupHasSums(const HostedModel& hosted) {
  if (!hosted.virtual_shards().has_value()) return false;
  const std::vector<Parameter> parameters = hosted.model().parameters().List();
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.grad_req == GradReq::kAdd; });
}

}  // namespace gluond::server

#endif  // SERVER_HOSTED_PLACEMENT_H_
