#include "engine/core/batch_axis.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(TBatchInputs, "TBatchInputs");

}  // namespace gluond
