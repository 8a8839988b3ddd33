// Stores: all that outlives the process, in the folder --store_dir: checkpoints, live models, datasets, saved sessions, published
// versions, and whose they are. Without the folder sessions' saves and published versions are kept in memory, and nothing else is.

#ifndef SERVER_STORES_H_
#define SERVER_STORES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/checkpoint.h"
#include "server/durable/live_models.h"
#include "server/durable/loads.h"
#include "server/durable/saved_sessions.h"
#include "server/durable/stored_datasets.h"
#include "server/durable/stored_owners.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/sweeper.h"
#include "server/options.h"
#include "server/rpc/runner.h"
#include "server/serving/publisher.h"
#include "server/start/store_claim.h"

namespace gluond::server {

class Stores {
 public:
  // The arguments outlive Stop. No other server has the folder until Stop. FAILED_PRECONDITION: the path is no folder, or another
  // server has the folder.
  static absl::StatusOr<std::unique_ptr<Stores>> Open(const ServerOptions& options, Runner& runner, Devices& devices,
                                                      Models& models, Datasets& datasets);
  // Looks whether the options' folder could be opened, and changes nothing.
  static absl::Status Check(const ServerOptions& options);

  // Null without the folder, as the live models and the stored datasets.
  CheckpointStore* checkpoints() const { return checkpoints_.get(); }
  LiveModels* live() const { return live_.get(); }
  StoredDatasets* datasets() const { return datasets_.get(); }
  SavedSessions& saved_sessions() const { return *saved_sessions_; }
  Publisher& publisher() const { return *publisher_; }
  const VersionTable& served() const { return publisher_->table(); }

  // Begins to load what the folder has, many things at once. Once.
  void Load();
  // Waits until all is loaded.
  void WaitForLoads() { loads_->Wait(); }
  // Saves live models as often as the options say, from here on.
  void Follow();
  // No thing is loaded or saved from here on. Returns how many models could not be saved as they are.
  int64_t Stop();

 private:
  Stores(Runner& runner, Devices& devices, Models& models) : runner_(runner), devices_(devices), models_(models) {}
  absl::Status OpenAll(const ServerOptions& options, Datasets& datasets);

  Runner& runner_;
  Devices& devices_;
  Models& models_;
  StoreClaim claim_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::unique_ptr<SavedSessions> saved_sessions_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<StoredDatasets> datasets_;
  std::unique_ptr<LiveModels> live_;
  std::unique_ptr<Loads> loads_;  // Null before Load.
  std::unique_ptr<StoredOwners> owners_;
  std::unique_ptr<Sweeper> live_sweeper_;
};

}  // namespace gluond::server

#endif  // SERVER_STORES_H_
