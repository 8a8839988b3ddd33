// The fact by which calls are computed a few rows of a batch at a time: engine/runtime/row_chain.h.

#ifndef ENGINE_CORE_BATCH_AXIS_H_
#define ENGINE_CORE_BATCH_AXIS_H_

namespace gluond {

// "TBatchInputs": the call's first so many inputs, and all its outputs, are batches: their first axis counts rows. A row of an
// output depends on that row of these inputs, and on the other inputs whole.
using TBatchInputs = int;

}  // namespace gluond

#endif  // ENGINE_CORE_BATCH_AXIS_H_
