#include "server/hosted/hosted_model.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/hosted/graph_memory.h"

namespace gluond::server {

absl::StatusOr<HostedModelPtr> HostedModel::Create(std::string name, ModelDefinition definition, uint64_t seed, Place& place,
                                                   Place& host, int64_t max_bytes, bool clients_are_away, Lanes* lanes) {
  HostedModelPtr hosted(new HostedModel(place, lanes == nullptr ? *place.lanes : *lanes));
  hosted->graph_memory_ = Reservation(Budget::PartOf(host.budget));
  RETURN_IF_ERROR(hosted->graph_memory_.Grow(kNodeBytes * CountNodes(definition.outputs)));
  const std::string owner = absl::StrCat("model '", name, "'");
  hosted->budget_ = std::make_shared<Budget>(owner, max_bytes, "--max_model_bytes", Budget::PartOf(place.budget));
  hosted->host_budget_ = &place == &host ? hosted->budget_
                                         : std::make_shared<Budget>(absl::StrCat(owner, " on the host"), max_bytes,
                                                                    "--max_model_bytes", Budget::PartOf(host.budget));
  ASSIGN_OR_RETURN(std::shared_ptr<Allocator> allocator, DeviceAllocator::Create(place.device, hosted->budget_));
  hosted->host_allocator_ = allocator;
  if (&place != &host) {
    ASSIGN_OR_RETURN(hosted->host_allocator_, DeviceAllocator::Create(host.device, hosted->host_budget_));
  }
  ModelOptions options;
  options.name = std::move(name);
  options.seed = seed;
  options.lane = hosted->lane_.get();
  options.allocator = std::move(allocator);
  options.host_allocator = hosted->host_allocator_;
  options.clients_are_away = clients_are_away;
  ASSIGN_OR_RETURN(hosted->model_, Model::Create(std::move(definition), options));
  hosted->host_allocator_ = hosted->model_->options().host_allocator;
  return hosted;
}

std::shared_ptr<Trainer> HostedModel::trainer() const {
  MutexLock lock(mu_);
  return trainer_;
}

absl::StatusOr<std::shared_ptr<Trainer>> HostedModel::NeedTrainer() const {
  std::shared_ptr<Trainer> trainer = this->trainer();
  if (trainer != nullptr) return trainer;
  return FailedPrecondition("model '", model_->name(), "' has no trainer; call CreateTrainer");
}

absl::Status HostedModel::SetTrainer(std::shared_ptr<Trainer> trainer, bool replace) {
  const auto exists = [this] {
    return absl::AlreadyExistsError(
        absl::StrCat("model '", model_->name(), "' has a trainer already; set `replace` for a new one"));
  };
  if (!replace && this->trainer() != nullptr) return exists();
  if (computes_shards_) RETURN_IF_ERROR(trainer->ReserveShards(*virtual_shards_));
  MutexLock lock(mu_);
  if (trainer_ != nullptr && !replace) return exists();
  Count(Counts::kEdit);
  trainer_.swap(trainer);  // The old one goes without the lock, with the argument.
  return absl::OkStatus();
}

void HostedModel::Restore(Checkpoint checkpoint, std::function<void(absl::Status)> done) {
  // In one piece: no step falls between the values and the trainer that goes on from them.
  std::function<absl::Status()> then;
  if (checkpoint.trainer.has_value()) {
    absl::StatusOr<std::shared_ptr<Trainer>> trainer = Trainer::Create(model_, checkpoint.trainer->options);
    if (!trainer.ok()) return done(trainer.status());
    then = [this, trainer = *std::move(trainer), state = *std::move(checkpoint.trainer)]() -> absl::Status {
      RETURN_IF_ERROR(trainer->RestoreNow(state));
      return SetTrainer(trainer, /*replace=*/true);
    };
  }
  Change<absl::Status>(
      shared_from_this(), Counts::kVersion,
      [&](auto restored) { model_->Restore(std::move(checkpoint.model), std::move(restored), std::move(then)); }, std::move(done));
}

std::function<absl::Status()> HostedModel::Expect(uint64_t version) {
  return [self = shared_from_this(), version] {
    if (self->version() == version) return absl::OkStatus();
    return WithInfo(
        absl::AbortedError(absl::StrCat("model '", self->model().name(), "' has version ", self->version(), " by now, expected ",
                                        version, ": a step or another call has changed it; read the model again")),
        reason::kVersionChanged, {{"version", absl::StrCat(self->version())}});
  };
}

void HostedModel::Snapshot(std::function<void(absl::StatusOr<Checkpoint>)> done) {
  if (const std::shared_ptr<Trainer> trainer = this->trainer(); trainer != nullptr) {
    return trainer->Snapshot(
        [shards = virtual_shards_, done = std::move(done)](absl::StatusOr<std::pair<ModelState, TrainerState>> state) {
          if (!state.ok()) return done(state.status());
          done(Checkpoint{.model = std::move(state->first), .trainer = std::move(state->second), .virtual_shards = shards});
        });
  }
  model_->Snapshot([shards = virtual_shards_, done = std::move(done)](absl::StatusOr<ModelState> state) {
    if (!state.ok()) return done(state.status());
    done(Checkpoint{.model = *std::move(state), .trainer = std::nullopt, .virtual_shards = shards});
  });
}

std::shared_ptr<const HostedModel::Download> HostedModel::FindDownload(const std::string& parameter, uint64_t version) const {
  MutexLock lock(mu_);
  const bool is_it = download_ != nullptr && download_->version == version && download_->parameter.name == parameter;
  return is_it ? download_ : nullptr;
}

void HostedModel::SetDownload(std::shared_ptr<Download> download) {
  MutexLock lock(mu_);
  download_.swap(download);  // The old one goes without the lock, with the argument.
}

void HostedModel::Gave(const Download& download, uint64_t bytes) {
  std::shared_ptr<Download> ended;
  MutexLock lock(mu_);
  if (download_.get() != &download) return;
  download_->used = Clock::now();
  download_->given += bytes;
  if (download_->given >= download_->parameter.tensor.bytes()) ended.swap(download_);
}

void HostedModel::ForgetSilentDownload(Clock::duration lease) {
  std::shared_ptr<Download> ended;
  MutexLock lock(mu_);
  if (download_ != nullptr && Clock::now() - download_->used > lease) ended.swap(download_);
}

}  // namespace gluond::server
