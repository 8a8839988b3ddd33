#include "server/session/exchange.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "server/codec/duration.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/graph_memory.h"
#include "server/hosted/placement.h"
#include "server/rpc/audit_log.h"

namespace gluond::server {
namespace {

// The memory of a name, beside its text, while an array of it is opened.
constexpr int64_t kBytesPerName = 128;

constexpr char kSaveAsModel[] = "SaveAsModel", kStoreToModel[] = "StoreToModel";

constexpr size_t kLongestKey = 128;
constexpr char kSaveSession[] = "SaveSession";

// The saved values of these names, in their order.
absl::StatusOr<std::vector<Tensor>> Pick(const SessionSave& save, const std::vector<std::string>& names) {
  absl::flat_hash_map<absl::string_view, const Tensor*> by_name;
  for (const NamedTensor& array : save.arrays) by_name.emplace(array.name, &array.tensor);
  std::vector<Tensor> tensors;
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      std::vector<std::string> all;
      for (const NamedTensor& array : save.arrays) all.push_back(array.name);
      return WithInfo(NotFound("no array '", Excerpt(name), "' was saved", DidYouMean(name, all)), reason::kNotFound,
                      {{"kind", "array"}, {"name", Excerpt(name)}});
    }
    tensors.push_back(*found->second);
  }
  return tensors;
}

}  // namespace

SessionExchange::~SessionExchange() {
  if (opening_.empty()) return;
  Scheduler& scheduler = session_.imperative.scheduler();
  const FailurePtr failure = scheduler.Failed(absl::CancelledError("the session has ended"), 0)->failure();
  for (const auto& [number, opening] : opening_) {
    for (const auto& [name, value] : opening.arrays) Value::Fail(value, failure, scheduler.queue());
  }
}

std::function<void(SessionExchange::OnLane)> SessionExchange::Return() {
  ++pending_;
  return [weak = weak_from_this(), lane = &lane()](OnLane work) {
    lane->Post([weak, lane, work = std::move(work)] {
      lane->ContinueAside([weak, work] {
        const auto self = weak.lock();
        if (self == nullptr || self->session_.answers.ended()) return;
        --self->pending_;
        work(*self);
      });
    });
  };
}

std::function<void(absl::StatusCode)> SessionExchange::Teller(absl::string_view command, const std::string& target,
                                                              Audit audit) const {
  return [changed = session_.shared.changed, command, audit, target](absl::StatusCode code) {
    if (changed != nullptr) changed(command, audit, target, code);
  };
}

void SessionExchange::RefuseChange(absl::string_view command, const std::string& target, uint64_t number,
                                   const absl::Status& status) const {
  Teller(command, target)(status.code());
  session_.answers.Fail(status, number);
}

absl::Status SessionExchange::Want(uint64_t array, Device device, uint64_t number, Wanted* wanted) {
  ASSIGN_OR_RETURN(const Array* found, session_.arrays.Find(array));
  wanted->Add(array, session_.imperative.CopyTo({found->value, {}, nullptr}, device, {.command = number}).value);
  return absl::OkStatus();
}

absl::Status SessionExchange::NameArrays(const Members& arrays, uint64_t number) {
  Opening& opening = opening_[number];
  opening.kept = Reservation(session_.memory);
  int64_t bytes = 0;
  for (const auto& [name, array] : arrays) bytes += 2 * static_cast<int64_t>(name.size()) + kBytesPerName;
  absl::Status status = opening.kept.Grow(bytes);
  absl::flat_hash_set<uint64_t> seen = {0};
  for (const auto& [name, array] : arrays) {
    if (!seen.insert(array).second) {
      status = Invalid("`arrays` gives '", Excerpt(name), "' the name ", array, array == 0 ? "" : ", as another one",
                       "; name each array by another number");
      continue;
    }
    auto value = std::make_shared<Value>();
    Array there = session_.imperative.CopyTo({value, {}, nullptr}, session_.home.device, {.command = number});
    session_.answers.Watch(there.value);
    session_.arrays.Set(array, std::move(there), number);
    opening.arrays.emplace_back(name, std::move(value));
  }
  return status;
}

std::vector<std::string> SessionExchange::NamesOfOpened(uint64_t number) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : opening_.at(number).arrays) names.push_back(name);
  return names;
}

void SessionExchange::Fill(uint64_t number, std::vector<Tensor> values) {
  const Opening opening = std::move(opening_.extract(number).mapped());
  ReadyQueue& queue = session_.imperative.scheduler().queue();
  for (size_t i = 0; i < opening.arrays.size(); ++i) Value::Set(opening.arrays[i].second, std::move(values[i]), queue);
}

void SessionExchange::Refuse(uint64_t number, const absl::Status& status) {
  Scheduler& scheduler = session_.imperative.scheduler();
  const FailurePtr failure = scheduler.Failed(status, number)->failure();
  session_.answers.Fail(failure, number);
  const Opening opening = std::move(opening_.extract(number).mapped());
  for (const auto& [name, value] : opening.arrays) Value::Fail(value, failure, scheduler.queue());
}

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
  absl::StatusOr<std::shared_ptr<NewModel>> planned = Plan(command, number, &wanted);
  if (!planned.ok()) return RefuseChange(kSaveAsModel, command.model(), number, planned.status());
  const auto make = [this, plan = *std::move(planned), number](std::vector<Tensor> tensors) {
    const auto states = tensors.begin() + plan->request.parameters_size();
    plan->states.assign(states, tensors.end());
    plan->parameters.assign(tensors.begin(), states);
    MakeModel(plan, [to_lane = Return(), plan, number](const absl::StatusOr<HostedModelPtr>& made) {
      to_lane([plan, number, made](SessionExchange& self) { self.MadeModel(number, *plan, made); });
    });
  };
  session_.answers.Await(std::move(wanted), number, make, Teller(kSaveAsModel, command.model()));
}

absl::StatusOr<std::shared_ptr<NewModel>> SessionExchange::Plan(const v1::Command::SaveAsModel& command, uint64_t number,
                                                                Wanted* wanted) {
  auto plan = std::make_shared<NewModel>();
  ASSIGN_OR_RETURN(plan->claim, May(command));
  RETURN_IF_ERROR(session_.shared.models.CanAdd(command.model(), command.replace()));
  ASSIGN_OR_RETURN(const std::shared_ptr<CachedGraph> graph, session_.calls.FindGraph(command.graph()));
  plan->kept = Reservation(session_.memory);
  RETURN_IF_ERROR(plan->kept.Grow(static_cast<int64_t>(command.SpaceUsedLong())));
  plan->place = &session_.home;
  if (!command.device().empty()) {
    ASSIGN_OR_RETURN(plan->place, session_.shared.devices.Find(command.device()));
  }
  for (const v1::Command::SaveAsModel::Member& member : command.parameters()) {
    RETURN_IF_ERROR(Want(member.array(), plan->place->device, number, wanted));
  }
  for (const v1::Command::SaveAsModel::State& state : command.states()) {
    RETURN_IF_ERROR(Want(state.array(), plan->place->device, number, wanted));
  }
  ASSIGN_OR_RETURN(plan->shards, VirtualShards(command.placement(), session_.shared.models));
  plan->request = command;
  plan->graph = graph->graph();
  plan->devices = &session_.shared.devices;
  plan->lane = &lane();
  plan->owners_host = session_.shared.devices.custom_host_of(command.model());
  if (!session_.shared.host.empty()) plan->scope = absl::StrCat(TenantPrefix(command.model()), session_.shared.host);
  plan->limits = session_.limits;
  plan->memory = session_.memory;
  plan->account = CurrentAccount();
  return plan;
}

void SessionExchange::MadeModel(uint64_t number, const NewModel& plan, absl::StatusOr<HostedModelPtr> made) {
  absl::Status status = made.status();
  if (status.ok()) status = session_.shared.models.Add(plan.request.model(), *made, plan.request.replace());
  if (plan.claim != nullptr) plan.claim->End(status.ok());
  if (!status.ok()) return RefuseChange(kSaveAsModel, plan.request.model(), number, status);
  Teller(kSaveAsModel, plan.request.model())(absl::StatusCode::kOk);
  session_.answers.Result(Describe(**made, /*graph=*/false, (*made)->version()), &v1::Reply::mutable_model, number);
}

// OpenModel.

void SessionExchange::OpenModel(const v1::Command::OpenModel& command, uint64_t number) {
  absl::Status status = NameArrays(command.arrays(), number);
  if (status.ok()) status = May(command).status();
  absl::StatusOr<HostedModelPtr> found = session_.shared.models.Use(command.model());
  if (status.ok()) status = found.status();
  Teller("OpenModel", command.model(), Audit::kMany)(status.code());
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
  absl::StatusOr<HostedModelPtr> found = session_.shared.models.Use(command.model());
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
    NamedTensors values;
    for (size_t i = 0; i < names.size(); ++i) values.push_back({names[i], std::move(tensors[i])});
    const auto done = [to_lane = Return(), hosted, tell, number](const absl::Status& status) {
      const uint64_t version = status.ok() ? hosted->version() : 0;
      tell(status.code());
      to_lane([hosted, number, status, version](SessionExchange& self) {
        self.session_.answers.Result(status.ok() ? self.Describe(*hosted, /*graph=*/false, version) : status,
                                     &v1::Reply::mutable_model, number);
      });
    };
    const ScopedCondition when(condition);
    HostedModel::Change<absl::Status>(
        hosted, HostedModel::Counts::kVersion,
        [&](auto counted) { hosted->model().SetParameters(std::move(values), std::move(counted)); }, done);
  };
  session_.answers.Await(std::move(wanted), number, set, tell);
}

// SaveSession and OpenSaved.

void SessionExchange::SaveSession(const v1::Command::SaveSession& command, uint64_t number) {
  Wanted wanted;
  auto save = std::make_shared<SessionSave>();
  auto kept = std::make_shared<Reservation>(session_.memory);
  absl::Status status = CheckStoredName("saved session", command.name());
  absl::StatusOr<Owners::ClaimPtr> claim = May(command);
  if (status.ok()) status = claim.status();
  if (status.ok()) status = kept->Grow(static_cast<int64_t>(command.SpaceUsedLong()));
  for (const auto& [name, array] : command.arrays()) {
    if (status.ok()) status = Annotate(Want(array, Device(), number, &wanted), absl::StrCat("array '", Excerpt(name), "'"));
    save->arrays.push_back({name, {}});
  }
  if (!status.ok()) return RefuseChange(kSaveSession, command.name(), number, status);
  save->summary.client = session_.shared.client;
  save->summary.manifest = command.manifest();
  save->random = session_.imperative.random();
  const auto tell = Teller(kSaveSession, command.name());
  const auto write = [this, save, kept, name = command.name(), key = command.key(), claim = *std::move(claim), tell,
                      number](std::vector<Tensor> tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) save->arrays[i].tensor = std::move(tensors[i]);
    const auto done = [to_lane = Return(), kept, claim, tell, number](const absl::StatusOr<v1::SavedSession>& saved) {
      if (claim != nullptr) claim->End(saved.ok());
      tell(saved.status().code());
      to_lane([kept, number, saved](SessionExchange& self) { self.Tell(number, saved, /*names=*/true); });
    };
    session_.shared.saved.Save(name, key, std::move(*save), done);
  };
  session_.answers.Await(std::move(wanted), number, write, tell);
}

void SessionExchange::OpenSaved(const v1::Command::OpenSaved& command, uint64_t number) {
  absl::Status status = NameArrays(command.arrays(), number);
  if (status.ok()) status = CheckStoredName("saved session", command.name());
  if (status.ok()) status = May(command).status();
  if (status.ok() && command.key().size() > kLongestKey) {
    status = Invalid("the key has ", command.key().size(), " bytes, and no key has more than ", kLongestKey);
  }
  const auto tell = Teller("OpenSaved", command.name(), Audit::kMany);
  if (!status.ok()) tell(status.code());
  if (!status.ok()) return Refuse(number, status);
  SavedSessions::Opening opening = {command.name(), command.key(), std::nullopt, nullptr, session_.memory};
  if (command.has_expected_version()) opening.version = command.expected_version();
  if (!command.arrays().empty()) opening.memory = session_.host_memory;
  session_.shared.saved.Open(std::move(opening), [to_lane = Return(), tell, number](absl::StatusOr<SavedSessions::Opened> opened) {
    tell(opened.status().code());
    const auto kept = std::make_shared<absl::StatusOr<SavedSessions::Opened>>(std::move(opened));
    to_lane([number, kept](SessionExchange& self) { self.OpenedSaved(number, *kept); });
  });
}

void SessionExchange::OpenedSaved(uint64_t number, absl::StatusOr<SavedSessions::Opened>& opened) {
  if (!opened.ok()) return Refuse(number, opened.status());
  const bool names = opened->save != nullptr;
  std::vector<Tensor> values;
  if (opened->save != nullptr) {
    absl::StatusOr<std::vector<Tensor>> picked = Pick(*opened->save, NamesOfOpened(number));
    if (!picked.ok()) return Refuse(number, picked.status());
    values = *std::move(picked);
    session_.imperative.SetRandom(opened->save->random);
  }
  Fill(number, std::move(values));
  Tell(number, std::move(opened->saved), names);
}

void SessionExchange::Tell(uint64_t number, absl::StatusOr<v1::SavedSession> saved, bool names) {
  if (names && saved.ok()) ToProto(std::chrono::seconds(session_.limits.GraceSeconds()), saved->mutable_grace());
  session_.answers.Result(std::move(saved), &v1::Reply::mutable_saved, number);
}

}  // namespace gluond::server
