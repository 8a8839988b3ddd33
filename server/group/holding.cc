#include "server/group/holding.h"

#include <utility>

namespace gluond::server {
namespace {

// On the model's strand, or after it. Empty for a model of another device than a CPU, which a group does not train.
NamedTensors SumsOf(const Model& model) {
  NamedTensors sums;
  if (model.options().lane->device().type != DeviceType::kCpu) return sums;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const LiveParameter& parameter = model.parameters()[i];
    if (parameter.grad_req == GradReq::kAdd && parameter.grad.defined()) sums.push_back({parameter.name, parameter.grad});
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
      model.checkpoint = *std::move(checkpoint);
      model.sums = SumsOf(model.hosted->model());  // No other call has begun since.
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
