// The JSON of a checkpoint: the contents of graph.json and the trainer's part of manifest.json.

#ifndef ENGINE_STORE_STATE_JSON_H_
#define ENGINE_STORE_STATE_JSON_H_

#include "absl/status/statusor.h"
#include "engine/nn/definition.h"
#include "engine/runtime/random_state.h"
#include "engine/store/json.h"
#include "engine/train/trainer.h"

namespace gluond {

Json DefinitionToJson(const ModelDefinition& definition);
// INVALID_ARGUMENT: as ExpandNodes, or a member is missing or wrong. NOT_FOUND: an unknown operator.
absl::StatusOr<ModelDefinition> DefinitionFromJson(const Json& json);

Json RandomToJson(const RandomState& random);
absl::StatusOr<RandomState> RandomFromJson(const Json& json);

// Without the optimizer's tensors.
Json TrainerToJson(const TrainerState& state);
absl::StatusOr<TrainerState> TrainerFromJson(const Json& json);

}  // namespace gluond

#endif  // ENGINE_STORE_STATE_JSON_H_
