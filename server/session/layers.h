// Layers and losses for clients that compose them with operators of their own, and the values that parameters begin with.

#ifndef SERVER_SESSION_LAYERS_H_
#define SERVER_SESSION_LAYERS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "engine/nn/catalog.h"

namespace gluond::v1 {
class Command;
class Expansion;
class Variable;
}  // namespace gluond::v1

namespace gluond::server {

// Errors are those of Command.Expand.
absl::StatusOr<v1::Expansion> Expand(const v1::Command& command, int64_t max_nodes);

// The value of one array, in the host's memory. `fallback`: the initializer of a variable without one. Errors are those of
// Command.Initialize.
absl::StatusOr<Tensor> InitialValue(const v1::Variable& variable, const Spec& fallback, uint64_t seed, Allocator& host);

// Whether the values of Command.Initialize take long to make.
bool TakesLong(const v1::Command& command);

}  // namespace gluond::server

#endif  // SERVER_SESSION_LAYERS_H_
