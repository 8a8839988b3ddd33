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
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
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
  void Load(Loads& loads) {
    const absl::StatusOr<std::vector<std::string>> names = store_.Names();
    if (!names.ok()) {
      return log_(EventLine("datasets_not_loaded", LogLevel::kError,
                            absl::StrCat("no stored dataset can be loaded: ", names.status().message())));
    }
    datasets_.BeginLoading(*names);
    for (const std::string& name : *names) {
      loads.Add(
          name, [this, name] { return LoadOne(name); },
          [this, name](const absl::Status& status) {
            datasets_.EndLoading(name);
            if (status.ok()) return;
            log_(EventLine(
                "dataset_not_loaded", LogLevel::kError,
                absl::StrCat("the stored dataset '", name, "' was not loaded and stays on the disk: ", status.message())));
          });
    }
  }

  // Writes the dataset and then ends its storing. Requires: its Receive has returned kStore.
  void Save(const std::string& name, HostedDatasetPtr hosted) {
    turns_.Run(name, [this, name, hosted = std::move(hosted)] { hosted->EndStoring(SaveNow(name, hosted)); });
  }

  // Deletes the dataset from the store and then from memory; what only one of them has, too. Calls `done` with an error
  // of the disk, after which memory has the dataset still, or with NOT_FOUND. On any thread. ABORTED, with the reason
  // VERSION_CHANGED: another one than that of the `expected` etag has the name, and stays.
  using Done = std::function<void(const absl::Status&)>;

  void Delete(const std::string& name, const std::optional<std::string>& expected, Done done) {
    turns_.Run(name, [this, name, expected, done = std::move(done)] { done(DeleteNow(name, expected)); });
  }

  // Waits for the saves and deletions under way. Requires: all calls have ended.
  void Stop() { turns_.Stop(); }

 private:
  absl::Status SaveNow(const std::string& name, const HostedDatasetPtr& hosted) {
    const absl::StatusOr<HostedDatasetPtr> now = datasets_.Find(name);
    if (!now.ok() || *now != hosted) {
      return absl::AbortedError(absl::StrCat("dataset '", name, "' was deleted before it was stored; upload it again"));
    }
    return Annotate(store_.Save(name, hosted->Parts()),
                    absl::StrCat("dataset '", name, "' is not stored and not committed; its bytes are kept for another `commit`"));
  }

  absl::Status DeleteNow(const std::string& name, const std::optional<std::string>& expected) {
    RETURN_IF_ERROR(datasets_.CheckLoaded(name));  // Its load would bring it back.
    HostedDatasetPtr hosted;
    if (expected.has_value()) {
      ASSIGN_OR_RETURN(hosted, datasets_.Expect(name, *expected));
    }
    if (CheckStoredName("dataset", name).ok()) {
      const absl::Status deleted = store_.Delete(name);
      if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
      if (deleted.ok() && !datasets_.Find(name).ok()) return absl::OkStatus();
    }
    return hosted == nullptr ? datasets_.Remove(name).status() : datasets_.Remove(name, hosted);
  }

  Task<absl::Status> LoadOne(std::string name) {
    co_await PostedToDisk(runner_.dispatch);
    CO_ASSIGN_OR_RETURN(StoredDataset stored, store_.Load(name, *devices_.host().allocator));
    co_return datasets_.AddLoaded(name, std::make_shared<HostedDataset>(std::move(stored), /*stored=*/true,
                                                                        /*temporary=*/false));
  }

  Runner& runner_;
  Devices& devices_;
  Datasets& datasets_;
  DatasetStore store_;
  const LogSink log_;
  Turns turns_;
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_STORED_DATASETS_H_
