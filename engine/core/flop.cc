#include "engine/core/flop.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FFlop, "FFlop");

}  // namespace gluond
