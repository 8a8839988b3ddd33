// LiveModels keeps the models of a server in its store, so that the next process goes on with them. A live checkpoint has
// the definition, values and trainer of a model, its place on the server, and the last numbered call of each client in the
// values. A live checkpoint is of a moment between two numbered calls on the model. A call of many steps is in it as a
// whole or not at all.
//
//   LiveModels live(runner, devices, models, std::move(store), schedule, log);
//   live.Load(loads);                  // Before the first call.
//   Sweeper sweeper("live-models", [&] { live.Look(); }, std::chrono::milliseconds(50));
//   ...
//   live.SaveAll();                    // At the end.
//   while (live.busy() && ...) ...
//   live.Stop();
//
// Thread-safe. All but Stop return at once: snapshots are taken on the models' strands, and the disk has
// threads of its own (rpc/dispatch.h).

#ifndef SERVER_DURABLE_LIVE_MODELS_H_
#define SERVER_DURABLE_LIVE_MODELS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/store/checkpoint.h"
#include "server/durable/loads.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/runner.h"
#include "server/start/checkpoint_schedule.h"

namespace gluond::server {

class LiveModels {
 public:
  // `store` holds live checkpoints alone. All else outlives this.
  LiveModels(Runner& runner, Devices& devices, Models& models, std::unique_ptr<CheckpointStore> store,
             const CheckpointSchedule& schedule, LogSink log)
      : runner_(runner), devices_(devices), models_(models), store_(std::move(store)), schedule_(schedule), log_(std::move(log)) {}

  // Begins to make the models that the store has, each with its sequence numbers. Nothing saves them before. A model that
  // is damaged, of a newer format, or too large for this server, is logged and stays on the disk. The first save of a model
  // of the same name sets it aside under another name (CheckpointStore::SetAside), and nothing here deletes it.
  void Load(Loads& loads);

  // Begins to save each model that is due. A model is due when it is new, or has another trainer than at its last
  // checkpoint. So is a model that has changed for as long, or taken as many steps, as the schedule says. Deletes the
  // checkpoints of models that are no more.
  void Look();
  // Begins to save each model that its checkpoint does not show as it is.
  void SaveAll();
  // Whether saves or deletions are under way.
  bool busy() const { return under_way_ > 0; }
  // Saves that failed, and the models whose last save did.
  int64_t failures() const { return failures_; }
  int64_t unsaved() const;
  // Seconds since the moment of each model's checkpoint, or since the model was made; 0 while the checkpoint shows the model
  // as it is. Empty where the schedule has none saved before the end.
  std::map<std::string, double> Ages() const;

  // Calls `done` when the model's checkpoint is deleted: the model is no more. On any thread.
  using Done = std::function<void(const absl::Status&)>;
  void Forget(const std::string& model, Done done);

  // Begins no more saves, and waits for those under way. Requires: all calls have ended.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  // A model at the moment of a snapshot, as far as it tells whether the model has changed since.
  struct Mark {
    std::weak_ptr<HostedModel> model;
    std::weak_ptr<Trainer> trainer;
    uint64_t edits = 0;
    int64_t step = 0;
    Sequences::Numbers numbers = {};
  };
  struct Entry {
    bool stored = false;   // A checkpoint is on the disk, or may be.
    bool busy = false;     // It is being loaded, saved or deleted.
    bool pausing = false;  // A save waits until no numbered call runs.
    Mark mark;
    Clock::time_point since = {};       // The checkpoint's moment.
    Clock::time_point not_before = {};  // The next try after a failure.
    bool failed = false;                // The last save made no checkpoint.
    std::string told;                   // The log's last line on that.
    std::vector<Done> forget;           // To be deleted for these when it is not busy.
  };

  Mark MarkOf(const std::string& name, const HostedModelPtr& hosted) const;
  bool IsDue(const std::string& name, const Entry& entry, const HostedModelPtr& hosted, Clock::time_point now) const;
  void Save(const std::string& name, HostedModelPtr hosted);
  void Write(const std::string& name, const Mark& mark, const Checkpoint& checkpoint);
  absl::Status WriteToStore(const std::string& name, const Checkpoint& checkpoint);
  absl::Status SetAside(const std::string& name);
  bool IsUnread(const std::string& name) const;
  // Ends a save. `mark` is null where there is no new checkpoint.
  void Saved(const std::string& name, const Mark* mark, const absl::Status& status);
  absl::Status DeleteFromStore(const std::string& name);
  void DeleteNow(const std::string& name, std::vector<Done> done);
  Task<absl::Status> LoadOne(std::string name);
  absl::StatusOr<HostedModelPtr> Make(const std::string& name, const Checkpoint& checkpoint);
  absl::StatusOr<Checkpoint> Read(const std::string& name) const;
  void Loaded(const std::string& name, const absl::Status& status);
  void Log(absl::string_view event, absl::string_view what, const std::string& name, const absl::Status& status);

  Runner& runner_;
  Devices& devices_;
  Models& models_;
  const std::unique_ptr<CheckpointStore> store_;
  const CheckpointSchedule schedule_;
  const LogSink log_;
  std::atomic<int64_t> under_way_ = 0;
  std::atomic<int64_t> failures_ = 0;

  mutable Mutex mu_;
  CondVar ended_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);  // By model.
  std::set<std::string> unread_ ABSL_GUARDED_BY(mu_);          // Checkpoints that Load could not load, where they were.
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_LIVE_MODELS_H_
