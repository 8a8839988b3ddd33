// NewNode makes an empty node beside the node that its thread made before. A walk along a graph in the order in which it was
// made then reads memory in order, and numbers of nodes by address (NodeNumbers) take few pages.
//
//   NodePtr node = NewNode();
//   node->attrs.name = "x";
//
// Nodes may end in any order and on any thread. A slab of memory is freed with its last node.

#ifndef ENGINE_CORE_NODE_MEMORY_H_
#define ENGINE_CORE_NODE_MEMORY_H_

#include "engine/core/graph.h"

namespace gluond {

NodePtr NewNode();

}  // namespace gluond

#endif  // ENGINE_CORE_NODE_MEMORY_H_
