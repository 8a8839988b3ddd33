// Constants of a prediction: what follows from parameters alone, such as a weight with a BatchNorm folded into it, is the same
// in each run until a parameter changes.

#ifndef ENGINE_PASSES_CONSTANTS_H_
#define ENGINE_PASSES_CONSTANTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// The names of `parameters` whose values a prediction leaves as they are. A call with FAffine writes nothing there.
absl::flat_hash_set<std::string> UnwrittenBy(const Graph& graph, absl::flat_hash_set<std::string> parameters);

// The entries that follow from the variables of `constants` alone, by pure calls, and that other calls or the graph's outputs
// read. Where these read the same bytes in another shape, the entry is the one before the change of shape. A call that has no
// kernel on the device depends on more, and so does one whose result some call writes. RESOURCE_EXHAUSTED: they would take more
// than twice the bytes of these variables, and a megabyte, or a size is unknown.
absl::StatusOr<std::vector<NodeEntry>> ConstantEntries(const IndexedGraph& graph, const Inferred& inferred,
                                                       const absl::flat_hash_set<std::string>& constants, DeviceType device);

}  // namespace gluond

#endif  // ENGINE_PASSES_CONSTANTS_H_
