// Calls that copy an array to another device: `_CopyTo` and `_CopyLike`, which Imperative runs itself. The gradient
// goes back to where the array came from.

#ifndef ENGINE_IMPERATIVE_COPY_CALL_H_
#define ENGINE_IMPERATIVE_COPY_CALL_H_

#include "engine/core/device.h"
#include "engine/imperative/call.h"

namespace gluond {

CallPtr MakeCopyCall(Device to);
bool IsCopyCall(const Op& op);
// Where a call of `_CopyTo` copies to; null for `_CopyLike`: to where its input 1 is.
const Device* CopiesTo(const Call& call);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_COPY_CALL_H_
