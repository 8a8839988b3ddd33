// TrainingService's methods on the optimizer's state.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/tensors_codec.h"
#include "server/training_service.h"

namespace gluond::server {
namespace {

// The parameter of "<parameter>/<state>".
absl::string_view ParameterOf(absl::string_view state) { return state.substr(0, state.rfind('/')); }

// Puts `values` in place of the states of their names, or beside them. Whether they are states, and fit, the trainer
// itself says when it is restored.
void ReplaceStates(const NamedTensors& values, NamedTensors* states) {
  for (const NamedTensor& value : values) {
    const auto found = std::find_if(states->begin(), states->end(),
                                    [&](const NamedTensor& known) { return known.name == value.name; });
    found == states->end() ? states->push_back(value) : void(found->tensor = value.tensor);
  }
}

// Every trained parameter has seen `step` updates.
void SetStep(int64_t step, const Model& model, TrainerState* state) {
  state->step = step;
  state->updates.clear();
  for (const Parameter& parameter : model.parameters().List()) {
    if (parameter.grad_req != GradReq::kNull && step > 0) state->updates.emplace_back(parameter.name, step);
  }
}

}  // namespace

void TrainingService::GetOptimizerState(Call<v1::GetOptimizerStateRequest, v1::GetOptimizerStateResponse> call) {
  const v1::GetOptimizerStateRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  for (const std::string& name : request.names()) {
    FINISH_IF_ERROR(call, hosted->model().parameters().Get(name).status());
  }
  trainer->Snapshot([call, hosted, trainer](absl::StatusOr<std::pair<ModelState, TrainerState>> state) {
    if (!state.ok()) return call.Finish(state.status());
    const auto& wanted = call.request().names();
    NamedTensors states = std::move(state->second.states);
    std::erase_if(states, [&](const NamedTensor& tensor) {
      return !wanted.empty() && std::none_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
        return ParameterOf(tensor.name) == name;
      });
    });
    EncodeTensors(states, ReplyForm(call.request().encoding()), call.response().mutable_states(),
                  &call.reply_attachments());
    call.response().set_step(state->second.step);
    call.Finish();
  });
}

void TrainingService::SetOptimizerState(Call<v1::SetOptimizerStateRequest, v1::SetOptimizerStateResponse> call) {
  const v1::SetOptimizerStateRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  if (request.has_step() && request.step() < 0) {
    return call.Finish(absl::InvalidArgumentError(absl::StrCat("step is ", request.step(), "; want 0 or more")));
  }
  ASSIGN_OR_FINISH(call, NamedTensors values,
                   DecodeTensors("state", request.states(), call.attachments(), hosted->host_allocator()));
  trainer->Snapshot([call, hosted, trainer, values = std::move(values)](
                        absl::StatusOr<std::pair<ModelState, TrainerState>> state) {
    if (!state.ok()) return call.Finish(state.status());
    TrainerState changed = std::move(state->second);
    ReplaceStates(values, &changed.states);
    if (call.request().has_step()) SetStep(call.request().step(), hosted->model(), &changed);
    trainer->Restore(std::move(changed), [call, hosted, trainer](absl::Status status) { call.Finish(status); });
  });
}

}  // namespace gluond::server
