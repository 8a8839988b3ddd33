// The registry's operators, their calls and the engine's catalogs of components as clients see them.

#ifndef SERVER_CODEC_DESCRIBE_OPERATOR_H_
#define SERVER_CODEC_DESCRIBE_OPERATOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/op.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// Inputs, outputs and parameters only when `full`.
void DescribeOp(const Op& op, bool full, v1::Operator* proto);

// INVALID_ARGUMENT: no family has the number.
absl::Status DescribeComponents(v1::ListComponentsRequest::Family family, v1::ListComponentsResponse* response);

// The most inputs of a call.
inline constexpr uint32_t kMostInputs = 1 << 16;

// An operator call's inputs and outputs. Requires: the attributes are parsed.
v1::CallType DescribeCall(const NodeAttrs& attrs, uint32_t num_inputs);
// The same by name and attributes. NOT_FOUND, INVALID_ARGUMENT: no operator of a client, attributes that it refuses, or
// too many inputs.
absl::StatusOr<v1::CallType> DescribeCall(const v1::Command::DescribeCall& describe);

// The fingerprint of all operators as ListOperators describes them: sixteen hexadecimal digits, equal in all processes that have
// the same operators with the same arguments, defaults and descriptions. Computed at the first use, which is after all operators
// have been registered; takes some milliseconds then.
const std::string& RegistryHash();

// The fingerprint of these descriptions, one after the other.
class OperatorHash {
 public:
  void Add(const v1::Operator& op);
  std::string Digits() const;

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace gluond::server

#endif  // SERVER_CODEC_DESCRIBE_OPERATOR_H_
