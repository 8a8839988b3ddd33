// The fact by which a report of a program (engine/compile/program_report.h) counts the work of its calls.

#ifndef ENGINE_CORE_FLOP_H_
#define ENGINE_CORE_FLOP_H_

#include <functional>

#include "absl/types/span.h"
#include "engine/core/node_attrs.h"
#include "engine/core/shape.h"

namespace gluond {

// "FFlop": the multiplications and additions of a call's products. An output that nobody wants has a shape of unknown rank. Calls
// of operators without the fact have none.
using FFlop = std::function<double(const NodeAttrs& attrs, absl::Span<const Shape> in, absl::Span<const Shape> out)>;

}  // namespace gluond

#endif  // ENGINE_CORE_FLOP_H_
