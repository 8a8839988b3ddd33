#include "server/group/holding.h"

#include <utility>

#include "engine/core/status_macros.h"
#include "engine/runtime/transfer.h"

namespace gluond::server {
namespace {

// On the model's strand, or after it. A GPU's sums are copied to the host, as its parameters are.
absl::StatusOr<NamedTensors> SumsOf(const Model& model) {
  NamedTensors sums;
  const ModelOptions& options = model.options();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const LiveParameter& parameter = model.parameters()[i];
    if (parameter.grad_req != GradReq::kAdd || !parameter.grad.defined()) continue;
    Tensor sum = parameter.grad;
    if (options.lane->device().type != DeviceType::kCpu) {
      ASSIGN_OR_RETURN(sum, Tensor::Empty(*options.host_allocator, parameter.grad.shape(), parameter.grad.dtype()));
      RETURN_IF_ERROR(Copy(parameter.grad.blob(), sum.blob(), options.lane->lanes()));
    }
    sums.push_back({parameter.name, std::move(sum)});
  }
  return sums;
}

}  // namespace

std::shared_ptr<Holding> Holding::Begin(NamedModels models, Done done) {
  std::shared_ptr<Holding> holding(new Holding(std::move(done)));
  std::vector<HostedModelPtr> hosted;
  {
    MutexLock lock(holding->mu_);
    for (auto& [name, each] : models) {
      HeldModel& model = holding->models_.emplace_back();
      model.name = std::move(name);
      model.edits = each->state_edits();
      model.hosted = each;
      hosted.push_back(std::move(each));
    }
    for (size_t i = 0; i < hosted.size(); ++i) holding->waiting_.insert(i);
  }
  for (size_t i = 0; i < hosted.size(); ++i) {
    hosted[i]->Snapshot([holding, i](absl::StatusOr<Checkpoint> checkpoint) { holding->Held(i, std::move(checkpoint)); });
  }
  if (hosted.empty()) holding->Tell();
  return holding;
}

void Holding::Held(size_t i, absl::StatusOr<Checkpoint> checkpoint) {
  {
    MutexLock lock(mu_);
    if (done_ == nullptr) return late_.at(i)->store(false);
    HeldModel& model = models_[i];
    waiting_.erase(i);
    model.status = checkpoint.status();
    model.was_edited = model.edits != model.hosted->state_edits();
    if (checkpoint.ok()) {
      absl::StatusOr<NamedTensors> sums = SumsOf(model.hosted->model());  // No other call has begun since.
      model.status = sums.status();
      if (sums.ok()) model.sums = *std::move(sums);
      model.checkpoint = *std::move(checkpoint);
    }
    if (!waiting_.empty()) return;
  }
  Tell();
}

void Holding::GiveUpLate() {
  {
    MutexLock lock(mu_);
    if (done_ == nullptr) return;
    for (const size_t i : std::exchange(waiting_, {})) {
      HeldModel& model = models_[i];
      model.status =
          absl::UnavailableError("another call of the model has not ended; the group goes on without the model until then");
      model.is_late = late_[i] = std::make_shared<std::atomic<bool>>(true);
    }
  }
  Tell();
}

void Holding::Tell() {
  Done done;
  HeldModels models;
  {
    MutexLock lock(mu_);
    done = std::exchange(done_, nullptr);
    models = std::move(models_);
  }
  if (done != nullptr) done(std::move(models));
}

}  // namespace gluond::server
