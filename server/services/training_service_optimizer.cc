// TrainingService's methods on the optimizer's state.

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "server/codec/tensors_codec.h"
#include "server/services/expectation.h"
#include "server/services/training_service.h"

namespace gluond::server {
namespace {

// The parameter of "<parameter>/<state>".
absl::string_view ParameterOf(absl::string_view state) { return state.substr(0, state.rfind('/')); }

}  // namespace

void TrainingService::GetOptimizerState(Call<v1::GetOptimizerStateRequest, v1::GetOptimizerStateResponse> call) {
  const v1::GetOptimizerStateRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  for (const std::string& name : request.names()) {
    FINISH_IF_ERROR(call, hosted->model().parameters().Get(name).status());
  }
  trainer->Snapshot(call.Then([call, hosted, trainer](std::pair<ModelState, TrainerState> state) {
    const auto& names = call.request().names();
    const absl::flat_hash_set<absl::string_view> wanted(names.begin(), names.end());
    NamedTensors states = std::move(state.second.states);
    std::erase_if(states, [&](const NamedTensor& tensor) { return !wanted.empty() && !wanted.contains(ParameterOf(tensor.name)); });
    call.response().set_step(state.second.step);
    call.FinishWith(std::move(states), ReplyForm(call.request().encoding()), call.response().mutable_states());
  }));
}

void TrainingService::SetOptimizerState(Call<v1::SetOptimizerStateRequest, v1::SetOptimizerStateResponse> call) {
  const v1::SetOptimizerStateRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  ASSIGN_OR_FINISH(call, NamedTensors values,
                   DecodeTensors("state", request.states(), call.attachments(), hosted->host_allocator()));
  const std::optional<int64_t> step = request.has_step() ? std::optional<int64_t>(request.step()) : std::nullopt;
  Change<absl::Status>(
      call, hosted, HostedModel::Counts::kEdit, [&](auto done) { trainer->SetStates(std::move(values), step, std::move(done)); },
      [call, trainer] { call.Finish(); });
}

}  // namespace gluond::server
