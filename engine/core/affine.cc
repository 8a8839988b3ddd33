#include "engine/core/affine.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FAffine, "FAffine");
GLUOND_DECLARE_OP_ATTR(FAbsorbAffine, "FAbsorbAffine");

const FAffine* AffineOf(const Node& node) {
  static const OpMap<FAffine> affine_of("FAffine");
  return affine_of[node.op()];
}

}  // namespace gluond
