#include "server/serving/batch_invariance.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/graph.h"
#include "engine/core/status_macros.h"
#include "server/start/cpu_check.h"

namespace gluond::server {
namespace {

// Other nodes compute in the type of what they read.
bool ComputesInFloat64(const ModelState& state) {
  const auto is_double = [](DType type) { return type == DType::kFloat64; };
  bool found = absl::c_any_of(state.parameters, [&](const NamedTensor& value) { return is_double(value.tensor.dtype()); }) ||
               absl::c_any_of(state.definition.inputs, [&](const ModelInput& input) { return is_double(input.dtype); });
  PostOrderVisit(state.definition.outputs, [&](const NodePtr& node) {
    const auto type = node->attrs.dict.find("dtype");
    found = found || (!node->is_variable() && type != node->attrs.dict.end() && type->second == Name(DType::kFloat64));
  });
  return found;
}

absl::Status Refused(absl::string_view why, absl::string_view remedy) {
  return FailedPrecondition("options.batch_invariant: answers would not have the bits of lone ones, as ", why, "; ", remedy,
                            ", or publish without batch_invariant: the last bits may then differ");
}

}  // namespace

absl::Status CheckBatchInvariance(const ServingOptions& options, const ModelState& state, const Place& place) {
  if (!options.batch_invariant) return absl::OkStatus();
  if (place.device.type != DeviceType::kCpu) {
    return Refused(absl::StrCat(place.device.ToString(), " is no CPU"), "publish it on a CPU (options.device)");
  }
  if (!HasEqualRows()) return Refused("this processor has no AVX-512", "publish it on a server that has it");
  if (ComputesInFloat64(state)) return Refused("the model computes in float64", "cast the model to float32");
  return absl::OkStatus();
}

}  // namespace gluond::server
