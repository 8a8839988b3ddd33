// A trainer's options from the wire.

#ifndef SERVER_CODEC_TRAINER_CODEC_H_
#define SERVER_CODEC_TRAINER_CODEC_H_

#include "absl/status/statusor.h"
#include "engine/train/trainer.h"
#include "gluond/v1/trainer.pb.h"

namespace gluond::server {

// Reads all but the request's names, `replace` and sequence number. INVALID_ARGUMENT: no objective, or two; a loss, an
// optimizer, a schedule or a metric that the server does not have, which lists those that it has.
absl::StatusOr<TrainerOptions> TrainerOptionsFromProto(const v1::CreateTrainerRequest& request);

}  // namespace gluond::server

#endif  // SERVER_CODEC_TRAINER_CODEC_H_
