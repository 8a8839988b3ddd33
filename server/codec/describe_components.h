// DescribeComponents writes the engine's catalogs as clients see them.

#ifndef SERVER_CODEC_DESCRIBE_COMPONENTS_H_
#define SERVER_CODEC_DESCRIBE_COMPONENTS_H_

#include "absl/status/status.h"
#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: no family has the number.
absl::Status DescribeComponents(v1::ListComponentsRequest::Family family, v1::ListComponentsResponse* response);

}  // namespace gluond::server

#endif  // SERVER_CODEC_DESCRIBE_COMPONENTS_H_
