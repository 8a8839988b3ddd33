// The requests that `gluond load` sends: of a served model, or of any method.

#ifndef GLUOND_CLIENT_CLI_LOAD_SHOT_H_
#define GLUOND_CLIENT_CLI_LOAD_SHOT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/load_run.h"
#include "gluond/client.h"
#include "proto/inference/grpc_service.pb.h"

namespace gluond::cli {

struct InferenceShot {
  std::string model = {};
  std::string version = {};  // Empty: the server chooses.
  int64_t batch = 1;         // The size of each axis that may have any.
  int64_t max_integer = 1;   // Integer inputs are 0 to this.
  int64_t seed = 0;
};

// A request with random values for the inputs that the model's metadata names. NOT_FOUND: there is no such model.
absl::StatusOr<Shot> InferenceOf(const client::Client& client, const InferenceShot& options, absl::Duration timeout);

// The same of metadata that is known. INVALID_ARGUMENT: the shapes or types are none that values can be made for.
absl::StatusOr<inference::ModelInferRequest> RandomRequest(const inference::ModelMetadataResponse& metadata,
                                                           const InferenceShot& options);

// A call of "gluond.v1.ModelService/Predict" with this request, in JSON or as @FILE.
absl::StatusOr<Shot> CallOf(const std::string& method, const std::string& json);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LOAD_SHOT_H_
