#include "server/durable/stored_datasets.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

void StoredDatasets::Save(const std::string& name, HostedDatasetPtr hosted) {
  turns_.Run(name, [this, name, hosted = std::move(hosted)] { hosted->EndStoring(SaveNow(name, hosted)); });
}

absl::Status StoredDatasets::SaveNow(const std::string& name, const HostedDatasetPtr& hosted) {
  const absl::StatusOr<HostedDatasetPtr> now = datasets_.Find(name);
  if (!now.ok() || *now != hosted) {
    return absl::AbortedError(absl::StrCat("dataset '", name, "' was deleted before it was stored; upload it again"));
  }
  return Annotate(store_.Save(name, hosted->Parts()),
                  absl::StrCat("dataset '", name, "' is not stored and not committed; its bytes are kept for another `commit`"));
}

void StoredDatasets::Delete(const std::string& name, const std::optional<std::string>& expected, Done done) {
  turns_.Run(name, [this, name, expected, done = std::move(done)] { done(DeleteNow(name, expected)); });
}

absl::Status StoredDatasets::DeleteNow(const std::string& name, const std::optional<std::string>& expected) {
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

void StoredDatasets::Load(Loads& loads) {
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
          log_(EventLine("dataset_not_loaded", LogLevel::kError,
                         absl::StrCat("the stored dataset '", name, "' was not loaded and stays on the disk: ", status.message())));
        });
  }
}

Task<absl::Status> StoredDatasets::LoadOne(std::string name) {
  co_await PostedToDisk(runner_.dispatch);
  CO_ASSIGN_OR_RETURN(StoredDataset stored, store_.Load(name, *devices_.host().allocator));
  co_return datasets_.AddLoaded(name, std::make_shared<HostedDataset>(std::move(stored), /*stored=*/true,
                                                                      /*temporary=*/false));
}

}  // namespace gluond::server
