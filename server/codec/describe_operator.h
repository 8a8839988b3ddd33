// The registry's operators and the engine's catalogs of components as clients see them.

#ifndef SERVER_CODEC_DESCRIBE_OPERATOR_H_
#define SERVER_CODEC_DESCRIBE_OPERATOR_H_

#include "absl/status/status.h"
#include "engine/core/op.h"
#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// Inputs, outputs and parameters only when `full`.
void DescribeOp(const Op& op, bool full, v1::Operator* proto);

// INVALID_ARGUMENT: no family has the number.
absl::Status DescribeComponents(v1::ListComponentsRequest::Family family, v1::ListComponentsResponse* response);

}  // namespace gluond::server

#endif  // SERVER_CODEC_DESCRIBE_OPERATOR_H_
