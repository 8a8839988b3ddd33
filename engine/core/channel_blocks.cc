#include "engine/core/channel_blocks.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FChannelBlocks, "FChannelBlocks");

}  // namespace gluond
