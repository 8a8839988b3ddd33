#include "server/session/layers.h"

#include <algorithm>
#include <utility>

#include "engine/core/status_macros.h"
#include "engine/nn/initializer.h"
#include "engine/nn/loss.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/session.pb.h"
#include "server/codec/components.h"
#include "server/codec/definition_codec.h"
#include "server/codec/tensor_codec.h"
#include "server/hosted/describe_model.h"

namespace gluond::server {
namespace {

// Elements of arrays that take long to initialize.
constexpr int64_t kLongElements = 1 << 16;

absl::StatusOr<ModelDefinition> Definition(const v1::Command::Expand& expand, int64_t max_nodes) {
  if (expand.has_block()) {
    v1::DefineModelRequest request;
    *request.mutable_block() = expand.block();
    return DefinitionFromProto(request, max_nodes);
  }
  if (!expand.has_loss() || expand.loss().name().empty()) return Invalid("Expand wants `block` or `loss`, got neither");
  ASSIGN_OR_RETURN(const Spec spec, SpecFromProto(expand.loss(), Losses()));
  LossInputs inputs = {MakeVariable("prediction"), MakeVariable("label"), {}};
  if (expand.weighted()) inputs.sample_weight = MakeVariable("sample_weight");
  ModelDefinition definition;
  ASSIGN_OR_RETURN(definition.outputs.emplace_back(), Losses().Make(spec.type, spec.attrs, inputs));
  return definition;
}

}  // namespace

absl::StatusOr<v1::Expansion> Expand(const v1::Command& command, int64_t max_nodes) {
  ASSIGN_OR_RETURN(const ModelDefinition definition, Definition(command.expand(), max_nodes));
  v1::Expansion expansion;
  GraphToProto(definition, expansion.mutable_graph());
  for (const Parameter& parameter : definition.parameters) DescribeParameter(parameter, expansion.add_parameters());
  return expansion;
}

absl::StatusOr<Tensor> InitialValue(const v1::Variable& variable, const Spec& fallback, uint64_t seed, Allocator& host) {
  ASSIGN_OR_RETURN(const Shape shape, Annotate(ShapeFromProto(variable.shape(), /*known=*/true), variable.name()));
  DType dtype = DType::kFloat32;
  if (variable.has_dtype()) {
    ASSIGN_OR_RETURN(dtype, FromProto(variable.dtype()));
  }
  ASSIGN_OR_RETURN(Spec spec, SpecFromProto(variable.initializer(), Initializers()));
  if (spec.type.empty()) spec = InitializerByName(variable.name());
  return gluond::InitialValue(spec.type.empty() ? fallback : spec, variable.name(), shape, dtype, seed, host);
}

bool TakesLong(const v1::Command& command) {
  int64_t elements = 0;
  for (const v1::Command::Initialize::Target& target : command.initialize().targets()) {
    const absl::StatusOr<Shape> shape = ShapeFromProto(target.variable().shape(), /*known=*/true);
    if (shape.ok()) elements += std::min(shape->Size(), kLongElements);
    if (elements >= kLongElements) return true;
  }
  return false;
}

}  // namespace gluond::server
