#include "server/session/exchange.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/graph_memory.h"

namespace gluond::server {
namespace {

constexpr char kSaveAsModel[] = "SaveAsModel", kStoreToModel[] = "StoreToModel";

}  // namespace

absl::StatusOr<v1::Model> SessionExchange::Describe(const HostedModel& hosted, bool graph, uint64_t version) const {
  Reservation meanwhile(session_.memory);
  if (graph) RETURN_IF_ERROR(meanwhile.Grow(kMakingNodeBytes * CountNodes(hosted.model().definition().outputs)));
  v1::Model model;
  DescribeModel(hosted, /*parameters=*/true, graph, &model);
  model.set_version(version);
  return model;
}

// SaveAsModel.

void SessionExchange::SaveAsModel(const v1::Command::SaveAsModel& command, uint64_t number) {
  Wanted wanted;
  absl::StatusOr<Owners::ClaimPtr> claim = May(command);
  absl::StatusOr<std::shared_ptr<NewModel>> planned = claim.ok() ? Plan(command, number, &wanted) : claim.status();
  if (!planned.ok()) return RefuseChange(kSaveAsModel, command.model(), number, planned.status());
  (*planned)->claim = *std::move(claim);
  const auto make = [this, plan = *std::move(planned), number](std::vector<Tensor> tensors) {
    ++pending_;
    const auto states = tensors.begin() + plan->request.parameters_size();
    plan->states.assign(states, tensors.end());
    plan->parameters.assign(tensors.begin(), states);
    MakeModel(plan, [to_lane = Return(), plan, number](const absl::StatusOr<HostedModelPtr>& made) {
      to_lane([plan, number, made](SessionExchange& self) { self.MadeModel(number, *plan, made); });
    });
  };
  session_.answers.Await(std::move(wanted.values), std::move(wanted.arrays), number, make, Teller(kSaveAsModel, command.model()));
}

absl::StatusOr<std::shared_ptr<NewModel>> SessionExchange::Plan(const v1::Command::SaveAsModel& command, uint64_t number,
                                                                Wanted* wanted) {
  RETURN_IF_ERROR(session_.models.CanAdd(command.model(), command.replace()));
  ASSIGN_OR_RETURN(const std::shared_ptr<CachedGraph> graph, session_.calls.FindGraph(command.graph()));
  auto plan = std::make_shared<NewModel>();
  plan->kept = Reservation(session_.memory);
  RETURN_IF_ERROR(plan->kept.Grow(static_cast<int64_t>(command.SpaceUsedLong())));
  plan->place = &session_.home;
  if (!command.device().empty()) {
    ASSIGN_OR_RETURN(plan->place, session_.devices.Find(command.device()));
  }
  for (const v1::Command::SaveAsModel::Member& member : command.parameters()) {
    RETURN_IF_ERROR(Want(member.array(), plan->place->device, number, wanted));
  }
  for (const v1::Command::SaveAsModel::State& state : command.states()) {
    RETURN_IF_ERROR(Want(state.array(), plan->place->device, number, wanted));
  }
  plan->request = command;
  plan->graph = graph->graph();
  plan->host = &session_.devices.host();
  plan->lane = &lane();
  plan->custom_host = session_.devices.custom_host();
  plan->owners_host = session_.devices.custom_host_of(command.model());
  if (!session_.host.empty()) plan->scope = absl::StrCat(TenantPrefix(command.model()), session_.host);
  plan->max_graph_nodes = session_.limits.max_graph_nodes;
  plan->max_model_bytes = session_.limits.max_model_bytes;
  plan->memory = session_.memory;
  plan->account = CurrentAccount();
  return plan;
}

void SessionExchange::MadeModel(uint64_t number, const NewModel& plan, absl::StatusOr<HostedModelPtr> made) {
  --pending_;
  absl::Status status = made.status();
  if (status.ok()) status = session_.models.Add(plan.request.model(), *made, plan.request.replace());
  if (plan.claim != nullptr) plan.claim->End(status.ok());
  if (!status.ok()) return RefuseChange(kSaveAsModel, plan.request.model(), number, status);
  Teller(kSaveAsModel, plan.request.model())(absl::StatusCode::kOk);
  session_.answers.Result(Describe(**made, /*graph=*/false, (*made)->version()), &v1::Reply::mutable_model, number);
}

// OpenModel.

void SessionExchange::OpenModel(const v1::Command::OpenModel& command, uint64_t number) {
  absl::Status status = NameArrays(command.arrays(), number);
  if (status.ok()) status = May(command).status();
  absl::StatusOr<HostedModelPtr> found = session_.models.Use(command.model());
  if (status.ok()) status = found.status();
  Teller("OpenModel", command.model(), Audit::kMany)(status.code());
  ++pending_;
  if (!status.ok()) return Refuse(number, status);
  const HostedModelPtr hosted = *std::move(found);
  hosted->model().strand().Do<absl::StatusOr<NamedTensors>>(
      [hosted, names = NamesOfOpened(number)] { return hosted->model().memory().Hold(names); },
      [to_lane = Return(), hosted, number](const absl::StatusOr<NamedTensors>& values) {
        to_lane([hosted, number, values, version = hosted->version()](SessionExchange& self) {
          self.OpenedModel(number, hosted, values, version);
        });
      });
}

void SessionExchange::OpenedModel(uint64_t number, const HostedModelPtr& hosted, absl::StatusOr<NamedTensors> values,
                                  uint64_t version) {
  absl::StatusOr<v1::Model> model = Describe(*hosted, /*graph=*/true, version);
  if (!values.ok() || !model.ok()) return Refuse(number, values.ok() ? model.status() : values.status());
  std::vector<Tensor> tensors;
  for (NamedTensor& value : *values) tensors.push_back(std::move(value.tensor));
  Fill(number, std::move(tensors));
  session_.answers.Result(std::move(model), &v1::Reply::mutable_model, number);
}

// StoreToModel.

void SessionExchange::StoreToModel(const v1::Command::StoreToModel& command, uint64_t number) {
  absl::StatusOr<HostedModelPtr> found = session_.models.Use(command.model());
  absl::Status status = May(command).status();
  if (status.ok()) status = found.status();
  Wanted wanted;
  std::vector<std::string> names;
  for (const auto& [name, array] : command.arrays()) {
    if (status.ok()) status = Want(array, (*found)->place().device, number, &wanted);
    names.push_back(name);
  }
  if (!status.ok()) return RefuseChange(kStoreToModel, command.model(), number, status);
  const auto condition = command.has_expected_version() ? (*found)->Expect(command.expected_version()) : nullptr;
  const auto tell = Teller(kStoreToModel, command.model());
  const auto set = [this, hosted = *std::move(found), names, condition, tell, number](std::vector<Tensor> tensors) {
    ++pending_;
    NamedTensors values;
    for (size_t i = 0; i < names.size(); ++i) values.push_back({names[i], std::move(tensors[i])});
    const auto done = [to_lane = Return(), hosted, tell, number](const absl::Status& status) {
      const uint64_t version = status.ok() ? hosted->version() : 0;
      tell(status.code());
      to_lane([hosted, number, status, version](SessionExchange& self) { self.StoredToModel(number, hosted, status, version); });
    };
    const ScopedCondition when(condition);
    HostedModel::Change<absl::Status>(
        hosted, HostedModel::Counts::kVersion,
        [&](auto counted) { hosted->model().SetParameters(std::move(values), std::move(counted)); }, done);
  };
  session_.answers.Await(std::move(wanted.values), std::move(wanted.arrays), number, set, tell);
}

void SessionExchange::StoredToModel(uint64_t number, const HostedModelPtr& hosted, const absl::Status& status, uint64_t version) {
  --pending_;
  if (!status.ok()) return session_.answers.Fail(status, number);
  session_.answers.Result(Describe(*hosted, /*graph=*/false, version), &v1::Reply::mutable_model, number);
}

}  // namespace gluond::server
