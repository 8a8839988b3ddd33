// Calls that copy an array to another device: `_CopyTo` and `_CopyLike`, which Imperative runs itself. The gradient
// goes back to the device that the array came from.

#ifndef ENGINE_IMPERATIVE_COPY_OP_H_
#define ENGINE_IMPERATIVE_COPY_OP_H_

#include "engine/core/device.h"
#include "engine/imperative/prepared_op.h"

namespace gluond {

PreparedOpPtr PrepareCopy(Device to);
bool IsCopyOp(const Op& op);
// The device that a `_CopyTo` names; null for `_CopyLike`, which copies to the device of its input 1.
const Device* CopiesTo(const PreparedOp& op);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_COPY_OP_H_
