// StoredDatasets keeps the committed datasets of a server in its store, so that the next process has them. A dataset
// that was uploaded as `temporary` stays in memory.
//
//   StoredDatasets stored(runner, devices, datasets, std::move(store), log);
//   stored.Load(loads);                // Before the first call.
//   ... datasets.Upload(...) returns kStore: stored.Save("fashion", hosted);
//   stored.Delete("fashion", /*expected=*/std::nullopt, [](const absl::Status& status) { ... });
//   stored.Stop();
//
// Thread-safe. Save and Delete return at once: the disk has threads of its own (rpc/dispatch.h). Saves and deletions of
// one name take place one after another, in the order of the calls.

#ifndef SERVER_DURABLE_STORED_DATASETS_H_
#define SERVER_DURABLE_STORED_DATASETS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/store/dataset_store.h"
#include "server/durable/loads.h"
#include "server/durable/turns.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class StoredDatasets {
 public:
  // `store` holds datasets alone. All else is there until Stop returns.
  StoredDatasets(Runner& runner, Devices& devices, Datasets& datasets, std::unique_ptr<CheckpointStore> store, LogSink log)
      : runner_(runner), devices_(devices), datasets_(datasets), store_(std::move(store)), log_(std::move(log)), turns_(runner) {}

  // Begins to read the datasets that the store has. One that is damaged, or that this server cannot hold, is logged and stays
  // on the disk until a dataset of its name is stored or deleted.
  void Load(Loads& loads);

  // Writes the dataset and then ends its storing. Requires: its Receive has returned kStore.
  void Save(const std::string& name, HostedDatasetPtr hosted);

  // Deletes the dataset from the store and then from memory; what only one of them has, too. Calls `done` with an error
  // of the disk, after which memory has the dataset still, or with NOT_FOUND. On any thread. ABORTED, with the reason
  // VERSION_CHANGED: another one than that of the `expected` etag has the name, and stays.
  using Done = std::function<void(const absl::Status&)>;
  void Delete(const std::string& name, const std::optional<std::string>& expected, Done done);

  // Waits for the saves and deletions under way. Requires: all calls have ended.
  void Stop() { turns_.Stop(); }

 private:
  absl::Status SaveNow(const std::string& name, const HostedDatasetPtr& hosted);
  absl::Status DeleteNow(const std::string& name, const std::optional<std::string>& expected);
  Task<absl::Status> LoadOne(std::string name);

  Runner& runner_;
  Devices& devices_;
  Datasets& datasets_;
  DatasetStore store_;
  const LogSink log_;
  Turns turns_;
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_STORED_DATASETS_H_
