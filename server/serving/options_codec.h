// ServingOptions between the wire and the server.

#ifndef SERVER_SERVING_OPTIONS_CODEC_H_
#define SERVER_SERVING_OPTIONS_CODEC_H_

#include "absl/status/statusor.h"
#include "gluond/v1/serving.pb.h"
#include "server/serving/options.h"

namespace gluond::server {

// INVALID_ARGUMENT names the field, and the values that it may have.
absl::StatusOr<ServingOptions> FromProto(const v1::ServingOptions& proto);
void ToProto(const ServingOptions& options, v1::ServingOptions* proto);

}  // namespace gluond::server

#endif  // SERVER_SERVING_OPTIONS_CODEC_H_
