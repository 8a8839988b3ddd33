// The attribute keys that the engine knows, with their C++ types and MXNet's meanings. A key is declared in
// op_attr_types.cc; others may declare their own with GLUOND_DECLARE_OP_ATTR.

#ifndef ENGINE_CORE_OP_ATTR_TYPES_H_
#define ENGINE_CORE_OP_ATTR_TYPES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/dtype.h"
#include "engine/core/graph.h"
#include "engine/core/node_attrs.h"
#include "engine/core/op_context.h"
#include "engine/core/shape.h"
#include "engine/core/tensor.h"

namespace gluond {

// How an output is to be written.
enum OpReqType {
  kNullOp,        // Do nothing.
  kWriteTo,       // The memory's contents are unspecified: overwrite it.
  kWriteInplace,  // Overwrite it; it is also the memory of an input, as FInplaceOption allows.
  kAddTo,         // Add to the memory's contents.
};

// "FListInputNames", "FListOutputNames": names by position. Default: data / output (with numbers when
// several), and arg0, arg1, ... where the number of inputs is a parameter (key_var_num_args).
using FListInputNames = std::function<std::vector<std::string>(const NodeAttrs&)>;
using FListOutputNames = std::function<std::vector<std::string>(const NodeAttrs&)>;

// "FNumVisibleOutputs": the outputs after these are hidden from the user (masks, means).
using FNumVisibleOutputs = std::function<uint32_t(const NodeAttrs&)>;

// "FInferShape": fills unknown shapes of inputs and outputs from the known ones; true when all are known.
// INVALID_ARGUMENT when they contradict each other. May be called several times with more known.
using FInferShape = std::function<absl::StatusOr<bool>(const NodeAttrs&, ShapeVector* in, ShapeVector* out)>;

// "FInferType": the same for types. Without it, all inputs and outputs have one type.
using FInferType = std::function<absl::StatusOr<bool>(const NodeAttrs&, TypeVector* in, TypeVector* out)>;

// "FInplaceOption": (input, output) pairs that may share memory.
using FInplaceOption = std::function<std::vector<std::pair<int, int>>(const NodeAttrs&)>;
// "FInplaceIdentity": which of those pairs are the same bytes before and after (reshape): shareable always.
using FInplaceIdentity = std::function<std::vector<bool>(const NodeAttrs&)>;

// "FIgnoreInputs": inputs of which only the shape and type are used; their memory need not be there.
using FIgnoreInputs = std::function<std::vector<uint32_t>(const NodeAttrs&)>;

// "FMutateInputs": inputs that the operator also writes: auxiliary states, optimizer states.
using FMutateInputs = std::function<std::vector<uint32_t>(const NodeAttrs&)>;

// "FGradient": the entries of dL/d(input) given those of dL/d(output), one per input; an entry without a node: no
// gradient. A missing head gradient arrives as an entry of zeros.
using Gradients = std::vector<NodeEntry>;
using FGradient = std::function<absl::StatusOr<Gradients>(const NodePtr& node, const Gradients& out_grads)>;

// "FResourceRequest": the parts of the context that it uses beside threads and stream.
enum class ResourceRequest { kTempSpace, kRandom };
using FResourceRequest = std::function<std::vector<ResourceRequest>(const NodeAttrs&)>;

// "THasDeterministicOutput": a pure function although it requests resources, so that equal calls may be merged.
using THasDeterministicOutput = bool;

// "FCompute<cpu>", "FCompute<gpu>": the kernel. Honours req[i] for each output. On a GPU it enqueues on ctx.stream.
using FCompute = std::function<absl::Status(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType> req, absl::Span<const TBlob> out)>;

// "FPrepare<cpu>": makes what the kernel will look for in ctx.kernels, from the shapes and types of a call that has no
// memory yet: all blobs' data is null. It takes long (oneDNN generates code), and so comes before the runs, beside the lane.
using FPrepare = FCompute;

// "FExecType": kAsync: the kernel returns at once and calls ctx.on_complete later; its run is suspended meanwhile.
enum class ExecType { kSync, kAsync };
using FExecType = std::function<ExecType(const NodeAttrs&)>;

// "FSetInputVarAttrOnCompose": sets attributes ("__init__") of the variable made for input `index`.
using FSetInputVarAttrOnCompose = std::function<void(const NodeAttrs&, NodeAttrs* variable, int index)>;

// "FBeginsGradient": whether the call begins a gradient: the gradient of its inputs need not come from that of its
// outputs. Losses (SoftmaxOutput, make_loss) have their own, and an operator that a client computes may be a loss. Such
// a node is differentiated wherever a head leads to it, also where nothing flows to it from above: behind BlockGrad, or
// as an output that nobody uses. Its FGradient then gets zeros. A node of any other operator is left out.
using FBeginsGradient = std::function<bool(const NodeAttrs&)>;
inline bool AlwaysBeginsGradient(const NodeAttrs&) { return true; }

// "TIsSum": the output is the sum of the inputs, so that a term may be added where another one lies.
using TIsSum = bool;
// "TIsZeros": the output is zeros, whatever the inputs are.
using TIsZeros = bool;

// "key_var_num_args": the attribute that holds the number of inputs of a variadic operator; filled in when absent.
using key_var_num_args = std::string;

}  // namespace gluond

#endif  // ENGINE_CORE_OP_ATTR_TYPES_H_
