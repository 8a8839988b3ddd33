// OpFacts answers the questions that passes, executors and the imperative engine have about a call of an operator. The
// operator is asked once, when the call's attributes are parsed.

#ifndef ENGINE_CORE_OP_FACTS_H_
#define ENGINE_CORE_OP_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/op_attr_types.h"

namespace gluond {

struct OpFacts {
  struct InPlace {
    uint32_t input, output;
    bool identity;  // The bytes are the same before and after.

    bool operator==(const InPlace&) const = default;
  };

  uint32_t num_outputs = 1;
  uint32_t num_visible = 1;       // The outputs after these are hidden from the user.
  std::vector<uint32_t> mutated;  // Inputs that the call writes.
  std::vector<uint32_t> ignored;  // Inputs of which it uses the shape and type only.
  std::vector<InPlace> in_place;  // Inputs and outputs that may share memory.
  bool async = false;             // FExecType kAsync.
  bool random = false;            // It draws random numbers.
  bool pure = true;               // Its outputs depend on its attributes and inputs only, and it does nothing else.
  bool sum = false;               // TIsSum.
  bool zeros = false;             // TIsZeros.
  bool begins_gradient = false;   // FBeginsGradient.
  // Null where the operator has none.
  const FInferShape* infer_shape = nullptr;
  const FInferType* infer_type = nullptr;
  const FGradient* gradient = nullptr;
  const FCompute* cpu_kernel = nullptr;
  const FCompute* gpu_kernel = nullptr;
  const FPrepare* cpu_prepare = nullptr;

  // The facts of a call of attrs.op. Requires: attrs.parsed is set.
  explicit OpFacts(const NodeAttrs& attrs);
  // The facts of a variable.
  OpFacts() = default;

  const FCompute* kernel(DeviceType device) const { return device == DeviceType::kCpu ? cpu_kernel : gpu_kernel; }
  const FPrepare* prepare(DeviceType device) const { return device == DeviceType::kCpu ? cpu_prepare : nullptr; }
  bool Mutates(uint32_t input) const { return absl::c_linear_search(mutated, input); }
  bool Ignores(uint32_t input) const { return absl::c_linear_search(ignored, input); }
  bool operator==(const OpFacts&) const = default;
};

// Sets attrs->facts and attrs->call. Requires: attrs->op and attrs->parsed are set.
void FindFacts(NodeAttrs* attrs);

// Runs the call's kernel for ctx.device. Requires: there is one.
absl::Status RunKernel(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                       absl::Span<const TBlob> out);

// FInferShape and FInferType of the call. Without them no shape becomes known, and all types are the same.
absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out);
absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out);

// The names of the variables that the nodes write.
absl::flat_hash_set<std::string> MutatedVariables(absl::Span<const NodePtr> nodes);

}  // namespace gluond

#endif  // ENGINE_CORE_OP_FACTS_H_
