// HostedModel: a model as the server keeps it, with its trainer, its budget and its age. Thread-safe.

#ifndef SERVER_HOSTED_HOSTED_MODEL_H_
#define SERVER_HOSTED_HOSTED_MODEL_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/nn/model.h"
#include "engine/runtime/budget.h"
#include "engine/store/checkpoint.h"
#include "engine/train/trainer.h"
#include "server/hosted/devices.h"
#include "server/hosted/registry.h"

namespace gluond::server {

class HostedModel : public std::enable_shared_from_this<HostedModel> {
 public:
  using Clock = std::chrono::steady_clock;

  // As Model::Create; charges the model's tensors to a budget of `max_bytes` within that of the place. `clients_are_away`: as of
  // ModelOptions. `lanes`: those of the place on which it computes; null: the ones that models train on.
  static absl::StatusOr<std::shared_ptr<HostedModel>> Create(std::string name, ModelDefinition definition, uint64_t seed,
                                                             Place& place, Place& host, int64_t max_bytes,
                                                             bool clients_are_away = false, Lanes* lanes = nullptr);

  Model& model() const { return *model_; }
  const std::shared_ptr<Model>& model_ptr() const { return model_; }
  Place& place() const { return place_; }
  // Allocates the tensors of requests to this model.
  Allocator& host_allocator() const { return *host_allocator_; }
  int64_t tensor_bytes() const { return budget_->used() + (host_budget_ == budget_ ? 0 : host_budget_->used()); }
  std::chrono::system_clock::time_point created() const { return created_; }

  std::shared_ptr<Trainer> trainer() const;
  // FAILED_PRECONDITION: there is none.
  absl::StatusOr<std::shared_ptr<Trainer>> NeedTrainer() const;
  // ALREADY_EXISTS: there is one, unless `replace`. RESOURCE_EXHAUSTED: a group's steps would find no memory; while one trainer
  // replaces another, both count.
  absl::Status SetTrainer(std::shared_ptr<Trainer> trainer, bool replace);

  // Takes the values, the random state and, where it has one, the trainer of a model of the same definition, in order
  // with the model's other calls, as one change. Tensors lie on the host or on the model's device. `done` is called on
  // the model's lane, or at once where the trainer cannot be made. Errors: as Trainer::Create, Model::Restore and
  // Trainer::RestoreNow.
  void Restore(Checkpoint checkpoint, std::function<void(absl::Status)> done);

  // The model and its trainer, if it has one, at one moment, as Model::Snapshot.
  void Snapshot(std::function<void(absl::StatusOr<Checkpoint>)> done);

  // Counts changes of parameters and auxiliary states. Changed on the model's strand, in the callbacks of its calls, and
  // therefore exact when it is read there.
  uint64_t version() const { return version_; }
  // Counts, with those changes, the ones of the trainer alone. A live checkpoint follows this count.
  uint64_t edits() const { return edits_; }
  // The same without changes of the learning rate, which a group's steps bring along.
  uint64_t state_edits() const { return state_edits_; }
  enum class Counts {
    kNothing,  // The change is one of gradients alone, which no live checkpoint has; a group's members may have them.
    kRate,     // One of the learning rate alone.
    kEdit,
    kVersion,
  };
  // Begins a change of `hosted`. All code that changes a model or its trainer comes here: `begin` is to call the function of
  // either, with the callback that it is given. A change that succeeds is counted before `done` is called there.
  template <class Result>
  static void Change(const std::shared_ptr<HostedModel>& hosted, Counts counts,
                     const std::function<void(std::function<void(Result)>)>& begin, std::function<void(Result)> done) {
    begin([hosted, counts, done = std::move(done)](Result result) {
      if (result.ok()) hosted->Count(counts);
      done(std::move(result));
    });
  }
  // For a model that goes on where another process held it. Before it is shared.
  void SetVersion(uint64_t version) { restored_version_ = version_ = version; }
  // The version with which the model came from another process, which may have seen later ones. Nothing: the model is of
  // this process.
  const std::optional<uint64_t>& restored_version() const { return restored_version_; }
  // For a ScopedCondition: the model has this version still. ABORTED, with the reason VERSION_CHANGED and the `version`
  // that it has.
  std::function<absl::Status()> Expect(uint64_t version);

  // Numbers Forwards in training mode, so that a Backward can say which one it means.
  Mutex& recording_mu() ABSL_LOCK_RETURNED(recording_mu_) { return recording_mu_; }
  uint64_t& last_recording() ABSL_EXCLUSIVE_LOCKS_REQUIRED(recording_mu_) { return last_recording_; }

  // The virtual shards of a model of a group; nothing: this server alone trains it. Set before the model is shared. `has_group`:
  // whether this process is one of a group. Then a trainer's memory for all shards is charged with it: a group may be of one.
  void SetVirtualShards(std::optional<int64_t> shards, bool has_group) {
    virtual_shards_ = shards;
    computes_shards_ = has_group && shards.has_value();
  }
  const std::optional<int64_t>& virtual_shards() const { return virtual_shards_; }

  // Sets the model's life: it ends when no call has come for `ttl`.
  void SetTtl(Clock::duration ttl) { ttl_ = ttl; }
  const std::optional<Clock::duration>& ttl() const { return ttl_; }
  void Touch() { last_used_ = Clock::now(); }
  bool Expired() const { return ttl_.has_value() && Clock::now() - last_used_.load() > *ttl_; }

  // The parameter that is being downloaded, so that its chunks cost one copy and are of one moment: until all bytes have been
  // given, or none for a lease.
  struct Download {
    uint64_t version = 0;
    NamedTensor parameter;
    uint64_t given = 0;  // Bytes that the client has.
    Clock::time_point used = Clock::now();
  };
  // Null: there is none of this parameter and version.
  std::shared_ptr<const Download> FindDownload(const std::string& parameter, uint64_t version) const;
  void SetDownload(std::shared_ptr<Download> download);
  // So many bytes of it are on the way to the client.
  void Gave(const Download& download, uint64_t bytes);
  void ForgetSilentDownload(Clock::duration lease);

 private:
  HostedModel(Place& place, Lanes& lanes) : place_(place), lane_(lanes.Take()) {}

  void Count(Counts counts) {
    if (counts != Counts::kNothing) ++edits_;
    if (counts > Counts::kRate) ++state_edits_;
    if (counts == Counts::kVersion) ++version_;
  }

  Place& place_;
  const std::shared_ptr<Lane> lane_;
  Reservation graph_memory_;
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<Budget> host_budget_;
  std::shared_ptr<Allocator> host_allocator_;
  std::shared_ptr<Model> model_;
  const std::chrono::system_clock::time_point created_ = std::chrono::system_clock::now();
  std::optional<Clock::duration> ttl_;     // Set before the model is shared,
  std::optional<int64_t> virtual_shards_;  // as this,
  bool computes_shards_ = false;           // and this.
  std::atomic<Clock::time_point> last_used_ = Clock::now();
  std::optional<uint64_t> restored_version_;  // Set before the model is shared.
  std::atomic<uint64_t> version_ = 0;
  std::atomic<uint64_t> edits_ = 0;
  std::atomic<uint64_t> state_edits_ = 0;
  Mutex recording_mu_;
  uint64_t last_recording_ ABSL_GUARDED_BY(recording_mu_) = 0;

  mutable Mutex mu_;
  std::shared_ptr<Trainer> trainer_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Download> download_ ABSL_GUARDED_BY(mu_);
};

using HostedModelPtr = std::shared_ptr<HostedModel>;

// The models of a server.
class Models : public Registry<HostedModel> {
 public:
  explicit Models(int64_t limit, const Tenants* tenants = nullptr)
      : Registry("model", limit, "--max_models", tenants, &Quotas::models) {}

  // The least number of virtual shards of a model of the group that this server leads. Nothing: it leads none. Set before the first call.
  void SetLeastShards(int64_t shards) { least_shards_ = shards; }
  const std::optional<int64_t>& least_shards() const { return least_shards_; }

  // Finds a model and keeps it from expiring: its time begins when the last use ends.
  absl::StatusOr<HostedModelPtr> Use(const std::string& name) const {
    ASSIGN_OR_RETURN(HostedModelPtr model, Find(name));
    HostedModel* const used = model.get();
    return HostedModelPtr(used, [model = std::move(model)](HostedModel* m) { m->Touch(); });
  }

 private:
  std::optional<int64_t> least_shards_;
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_HOSTED_MODEL_H_
