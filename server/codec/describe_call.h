#ifndef SERVER_CODEC_DESCRIBE_CALL_H_
#define SERVER_CODEC_DESCRIBE_CALL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/op.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// The most inputs of a call.
inline constexpr uint32_t kMostInputs = 1 << 16;

// An operator call's inputs and outputs. Requires: the attributes are parsed.
v1::CallType DescribeCall(const NodeAttrs& attrs, uint32_t num_inputs);
// The same by name and attributes. NOT_FOUND, INVALID_ARGUMENT: no operator of a client, attributes that it refuses, or
// too many inputs.
absl::StatusOr<v1::CallType> DescribeCall(const v1::Command::DescribeCall& describe);

}  // namespace gluond::server

#endif  // SERVER_CODEC_DESCRIBE_CALL_H_
