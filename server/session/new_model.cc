#include "server/session/new_model.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/custom_spec.h"
#include "engine/core/dtype.h"
#include "engine/core/pending_fact.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/node_spec.h"
#include "server/codec/definition_codec.h"
#include "server/codec/tensor_codec.h"
#include "server/codec/trainer_codec.h"
#include "server/custom/hosts.h"
#include "server/hosted/graph_memory.h"
#include "server/hosted/placement.h"

namespace gluond::server {
namespace {

// Everybody may use a model: its operators are computed by the clients that share them.
absl::Status CheckIsShared(const Node& node, const NewModel& plan) {
  const AttrDict& attrs = node.attrs.dict;
  if (!attrs.contains(kCustomAttribute)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CustomSpec spec, CustomSpec::Of(attrs));
  if (spec.shared) return absl::OkStatus();
  const auto found = attrs.find("op_type");
  const std::string op_type = found == attrs.end() ? "" : found->second;
  auto* const hosts = dynamic_cast<CustomHosts*>(plan.devices->custom_host().get());
  if (!plan.scope.empty() && hosts != nullptr && hosts->IsShared(plan.scope, op_type)) return absl::OkStatus();
  const std::string what = op_type.empty() ? "the function" : absl::StrCat("custom operator '", Excerpt(op_type), "'");
  return FailedPrecondition(
      "node '", Excerpt(node.name()), "': ", what,
      " is computed by one client for itself alone, and a model is everybody's; share it (OfferOperator.shared) and keep the "
      "client connected, or leave it out of the graph");
}

absl::StatusOr<std::vector<NodeSpec>> SharedNodes(const NewModel& plan) {
  for (const NodePtr& node : PostOrder(plan.graph.outputs)) RETURN_IF_ERROR(CheckIsShared(*node, plan));
  std::vector<NodeSpec> nodes = ListNodes(plan.graph.outputs);
  for (NodeSpec& node : nodes) {
    const auto custom = node.attrs.find(kCustomAttribute);
    if (custom == node.attrs.end()) continue;
    ASSIGN_OR_RETURN(CustomSpec spec, CustomSpec::Parse(custom->second));
    spec.shared = true;
    custom->second = spec.ToText();
  }
  return nodes;
}

// The variable of a parameter, with its array's shape and dtype.
absl::StatusOr<v1::Variable> WithTypeOf(const Tensor& tensor, v1::Variable variable) {
  if (variable.kind() == v1::Variable::INPUT) {
    return absl::InvalidArgumentError("it is declared as an input; name it among the inputs, without an array");
  }
  Shape shape;
  if (!variable.shape().empty()) {
    ASSIGN_OR_RETURN(shape, ShapeFromProto(variable.shape(), /*known=*/false));
  }
  DType dtype = tensor.dtype();
  if (variable.has_dtype()) {
    ASSIGN_OR_RETURN(dtype, FromProto(variable.dtype()));
  }
  const Shape declared = shape;
  if (!ShapeAssign(&shape, tensor.shape()) || dtype != tensor.dtype()) {
    return Invalid("its array is ", Name(tensor.dtype()), tensor.shape().ToString(), ", expected ", Name(dtype),
                   declared.ToString(), " as it is declared");
  }
  variable.clear_shape();
  for (const int64_t dim : tensor.shape()) variable.add_shape(dim);
  variable.set_dtype(ToProto(tensor.dtype()));
  variable.set_kind(v1::Variable::PARAMETER);
  return variable;
}

absl::StatusOr<std::vector<std::string>> OutputNames(const NewModel& plan, std::vector<std::string> otherwise) {
  const auto& names = plan.request.outputs();
  if (names.empty()) return otherwise;
  if (static_cast<size_t>(names.size()) != otherwise.size()) {
    return Invalid("`outputs` has ", names.size(), " names, expected one for each of the graph's ", otherwise.size(),
                   " outputs, or none at all");
  }
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    return Invalid("`outputs` names '", Excerpt(name), "'", name.empty() ? "" : " twice", "; give each output a name of its own");
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<ModelDefinition> DefinitionOf(const NewModel& plan) {
  ASSIGN_OR_RETURN(const std::vector<NodeSpec> nodes, SharedNodes(plan));
  std::vector<EntrySpec> outputs;
  for (const NodeEntry& output : plan.graph.outputs) outputs.push_back({output.node->name(), output.index});
  google::protobuf::RepeatedPtrField<v1::Variable> variables;
  for (const v1::Variable& input : plan.request.inputs()) {
    *variables.Add() = input;
    variables.rbegin()->set_kind(v1::Variable::INPUT);
  }
  for (int i = 0; i < plan.request.parameters_size(); ++i) {
    const v1::Variable& variable = plan.request.parameters(i).variable();
    absl::StatusOr<v1::Variable> typed = WithTypeOf(plan.parameters[static_cast<size_t>(i)], variable);
    if (!typed.ok()) return Annotate(typed.status(), absl::StrCat("parameter '", Excerpt(variable.name()), "'"));
    *variables.Add() = *std::move(typed);
  }
  ASSIGN_OR_RETURN(ModelDefinition definition, DefinitionFromNodes(nodes, outputs, variables, plan.limits.max_graph_nodes));
  ASSIGN_OR_RETURN(definition.output_names, OutputNames(plan, std::move(definition.output_names)));
  return definition;
}

absl::StatusOr<int64_t> CheckedCount(absl::string_view what, int64_t count) {
  if (count >= 0) return count;
  return Invalid(what, " is ", count, "; want 0 or more");
}

absl::StatusOr<std::optional<TrainerState>> TrainerOf(const NewModel& plan, const ModelDefinition& definition) {
  const v1::Command::SaveAsModel& request = plan.request;
  if (!request.has_trainer()) {
    if (request.states().empty() && request.updates().empty() && request.step() == 0) return std::nullopt;
    return absl::InvalidArgumentError("`states`, `step` and `updates` are a trainer's; set `trainer`, or leave them out");
  }
  TrainerState state;
  ASSIGN_OR_RETURN(state.options, TrainerOptionsFromProto(request.trainer()));
  ASSIGN_OR_RETURN(state.step, CheckedCount("step", request.step()));
  for (int i = 0; i < request.states_size(); ++i) {
    state.states.push_back({request.states(i).name(), plan.states[static_cast<size_t>(i)]});
  }
  for (const auto& [name, updates] : request.updates()) {
    ASSIGN_OR_RETURN(state.updates.emplace_back(name, 0).second,
                     CheckedCount(absl::StrCat("`updates` of '", Excerpt(name), "'"), updates));
  }
  for (const Parameter& parameter : definition.parameters) {
    if (parameter.grad_req == GradReq::kNull || request.updates().contains(parameter.name)) continue;
    state.updates.emplace_back(parameter.name, request.step());
  }
  return state;
}

// The model, empty, and its contents.
absl::StatusOr<std::pair<HostedModelPtr, Checkpoint>> Create(const NewModel& plan) {
  const ScopedCustomHost host(plan.owners_host);
  Reservation meanwhile(plan.memory);
  RETURN_IF_ERROR(meanwhile.Grow(kMakingNodeBytes * CountNodes(plan.graph.outputs)));
  Checkpoint contents;
  ASSIGN_OR_RETURN(contents.model.definition, DefinitionOf(plan));
  ASSIGN_OR_RETURN(contents.trainer, TrainerOf(plan, contents.model.definition));
  contents.model.random.seed = plan.request.seed();
  for (int i = 0; i < plan.request.parameters_size(); ++i) {
    contents.model.parameters.push_back({plan.request.parameters(i).variable().name(), plan.parameters[static_cast<size_t>(i)]});
  }
  ASSIGN_OR_RETURN(HostedModelPtr hosted, HostedModel::Create(plan.request.model(), contents.model.definition, plan.request.seed(),
                                                              *plan.place, plan.devices->host(), plan.limits.max_model_bytes));
  hosted->SetVirtualShards(plan.shards, /*has_group=*/plan.shards.has_value());
  return std::pair(std::move(hosted), std::move(contents));
}

}  // namespace

void MakeModel(std::shared_ptr<const NewModel> plan, std::function<void(absl::StatusOr<HostedModelPtr>)> done) {
  const ScopedAccount account(plan->account);
  Lane& lane = *plan->lane;
  lane.PostAside([plan = std::move(plan), done = std::move(done)]() mutable {
    absl::StatusOr<std::pair<HostedModelPtr, Checkpoint>> made = Create(*plan);
    // A rule may have to ask a client first.
    if (AwaitFact(made.status(), [plan, done] { MakeModel(plan, done); })) return;
    if (!made.ok()) return done(made.status());
    const ScopedCustomHost host(plan->owners_host);
    const HostedModelPtr hosted = std::move(made->first);
    hosted->Restore(std::move(made->second), [hosted, done = std::move(done)](const absl::Status& restored) {
      const std::shared_ptr<Trainer> trainer = hosted->trainer();
      const absl::Status status = restored.ok() && trainer != nullptr ? CheckGroupTrains(*hosted, *trainer) : restored;
      status.ok() ? done(hosted) : done(status);
    });
  });
}

}  // namespace gluond::server
