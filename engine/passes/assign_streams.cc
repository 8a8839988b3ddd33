#include "engine/passes/assign_streams.h"

#include <cstdint>

#include "engine/core/node_memory.h"
#include "engine/core/op_facts.h"
#include "engine/passes/rewrite.h"

namespace gluond {

absl::StatusOr<Graph> AssignStreams(const NodeOrder& order) {
  uint32_t next = 0;
  return Rewrite(order, [&next](const NodePtr&, const NodePtr& node) -> NodePtr {
    if (!node->facts().random) return nullptr;
    const uint32_t stream = next++;
    if (node->attrs.random_stream == stream) return nullptr;
    auto copy = NewNode();
    copy->attrs = node->attrs;
    copy->inputs = node->inputs;
    copy->attrs.random_stream = stream;
    return copy;
  });
}

}  // namespace gluond
