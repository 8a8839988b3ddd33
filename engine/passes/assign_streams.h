// AssignStreams gives each call that draws random numbers a Philox stream of its own, before any other pass. So passes may
// merge, drop and copy calls, and change no number that a call draws.

#ifndef ENGINE_PASSES_ASSIGN_STREAMS_H_
#define ENGINE_PASSES_ASSIGN_STREAMS_H_

#include "absl/status/statusor.h"
#include "engine/core/graph.h"

namespace gluond {

// Calls are numbered in the order of the outputs as the caller gave them. So a graph that begins with another graph's
// outputs draws as the other graph does, in whatever order the two run. Does not change the graph's nodes.
absl::StatusOr<Graph> AssignStreams(const NodeOrder& order);

}  // namespace gluond

#endif  // ENGINE_PASSES_ASSIGN_STREAMS_H_
