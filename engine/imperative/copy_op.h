// Calls that copy an array to another device: `_CopyTo` and `_CopyLike`, which Imperative runs itself. The gradient
// goes back to where the array came from.

#ifndef ENGINE_IMPERATIVE_COPY_OP_H_
#define ENGINE_IMPERATIVE_COPY_OP_H_

#include "engine/core/device.h"
#include "engine/imperative/prepared_op.h"

namespace gluond {

PreparedOpPtr PrepareCopy(Device to);
bool IsCopyOp(const Op& op);
// Where a call of `_CopyTo` copies to; null for `_CopyLike`: to where its input 1 is.
const Device* CopiesTo(const PreparedOp& op);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_COPY_OP_H_
