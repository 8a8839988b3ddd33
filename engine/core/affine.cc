#include "engine/core/affine.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FAffine, "FAffine");
GLUOND_DECLARE_OP_ATTR(FAbsorbAffine, "FAbsorbAffine");

}  // namespace gluond
