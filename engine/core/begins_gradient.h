// FBeginsGradient: the fact that an operator begins a gradient. The gradient of its inputs need not come from that of
// its outputs: losses (SoftmaxOutput, make_loss) have their own, and an operator that a client computes may be a loss.
// Such a node is differentiated wherever a head leads to it, also where nothing flows to it from above: behind
// BlockGrad, or as an output that nobody uses. Its FGradient then gets zeros. A node of any other operator is left out.

#ifndef ENGINE_CORE_BEGINS_GRADIENT_H_
#define ENGINE_CORE_BEGINS_GRADIENT_H_

#include <functional>

#include "engine/core/graph.h"
#include "engine/core/node_attrs.h"
#include "engine/core/op.h"

namespace gluond {

// "FBeginsGradient": whether a node with these attributes begins a gradient. Without it: no.
using FBeginsGradient = std::function<bool(const NodeAttrs&)>;

// FBeginsGradient of operators that always do.
inline bool AlwaysBeginsGradient(const NodeAttrs&) { return true; }

inline bool BeginsGradient(const Node& node) {
  if (node.is_variable()) return false;
  const auto* begins = node.op()->GetAttr<FBeginsGradient>("FBeginsGradient");
  return begins != nullptr && (*begins)(node.attrs);
}

}  // namespace gluond

#endif  // ENGINE_CORE_BEGINS_GRADIENT_H_
