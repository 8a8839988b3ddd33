#include "server/stores.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/rpc/log.h"
#include "server/start/address.h"

namespace gluond::server {
namespace {

// Live checkpoints, datasets, saved sessions and published versions, in the store's directory. A look at the models costs
// less than 0.1 ms.
constexpr char kLive[] = ".live";
constexpr char kDatasets[] = ".datasets";
constexpr char kSessions[] = ".sessions";
constexpr char kVersions[] = ".versions";
constexpr char kOwners[] = ".owners";
constexpr std::chrono::milliseconds kLiveLook{50};

}  // namespace

absl::StatusOr<std::unique_ptr<Stores>> Stores::Open(const ServerOptions& options, Runner& runner, Devices& devices, Models& models,
                                                     Datasets& datasets) {
  std::unique_ptr<Stores> stores(new Stores(runner, devices, models));
  RETURN_IF_ERROR(stores->OpenAll(options, datasets));
  return stores;
}

absl::Status Stores::Check(const ServerOptions& options) {
  if (options.store_dir.empty() || LocalFileSystem().IsDirectory(absl::StrCat(options.store_dir, "/"))) return absl::OkStatus();
  std::error_code error;
  if (!std::filesystem::exists(options.store_dir, error)) return CheckFolderOf(options.store_dir, "--store_dir");
  return FailedPrecondition("--store_dir=", options.store_dir, " is no folder");
}

absl::Status Stores::OpenAll(const ServerOptions& options, Datasets& datasets) {
  const auto keep = [&](std::unique_ptr<CheckpointStore> sessions, std::unique_ptr<CheckpointStore> versions) {
    publisher_ = std::make_unique<Publisher>(runner_, devices_, std::move(versions), options.log, options.follow.address);
    const int64_t bytes = options.limits.max_named_session_bytes;
    saved_sessions_ = std::make_unique<SavedSessions>(runner_, std::move(sessions),
                                                      bytes > 0 ? bytes : devices_.memory()->limit() / 4, options.log);
  };
  if (options.store_dir.empty()) {
    keep(nullptr, nullptr);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(LocalFileSystem().MakeDirectory(absl::StrCat(options.store_dir, "/")),
                           absl::StrCat("--store_dir=", options.store_dir)));
  ASSIGN_OR_RETURN(claim_, ClaimStore(options.store_dir));
  ASSIGN_OR_RETURN(checkpoints_, CheckpointStore::Open(LocalFileSystem(), options.store_dir, CheckpointStore::kDefaultMaxBytes,
                                                       {.max_store_bytes = options.limits.max_store_bytes,
                                                        .max_checkpoints = options.limits.max_checkpoints,
                                                        .has_tenants = runner_.tenants.any(),
                                                        .keep_reserve = true,
                                                        .tenant_bytes = [this](absl::string_view name) {
                                                          const TenantPtr tenant = runner_.tenants.Find(name);
                                                          return tenant == nullptr ? 0 : tenant->quotas().store_bytes;
                                                        }}));
  const bool is_new = !LocalFileSystem().IsDirectory(absl::StrCat(options.store_dir, "/", kLive));
  const auto tell = [&](const CheckpointStore& store) {
    for (const absl::Status& fault : store.faults()) options.log(EventLine("store_damaged", LogLevel::kError, fault.message()));
  };
  const auto open = [&](absl::string_view folder) {
    std::unique_ptr<CheckpointStore> store = checkpoints_->OpenApart(folder);
    tell(*store);
    return store;
  };
  tell(*checkpoints_);
  std::unique_ptr<CheckpointStore> live = open(kLive);
  if (!is_new || !live->faults().empty()) runner_.sequences.ExpectRewound();
  live_ = std::make_unique<LiveModels>(runner_, devices_, models_, std::move(live), options.checkpoint_every, options.log);
  datasets_ = std::make_unique<StoredDatasets>(runner_, devices_, datasets, open(kDatasets), options.log);
  owners_ = std::make_unique<StoredOwners>(runner_, open(kOwners), options.log);
  std::unique_ptr<CheckpointStore> sessions = open(kSessions);
  keep(std::move(sessions), open(kVersions));
  runner_.tells_durable = options.checkpoint_every.any();
  return absl::OkStatus();
}

void Stores::Load() {
  loads_ = std::make_unique<Loads>(runner_, std::max(2, devices_.host().lanes->compute_threads()));
  runner_.check_loaded = [this](const std::string& model) { return models_.CheckLoaded(model); };
  if (owners_ != nullptr) owners_->Load();  // Before the things that are somebody's.
  if (datasets_ != nullptr) datasets_->Load(*loads_);
  saved_sessions_->Load();
  publisher_->Load(*loads_);
  if (live_ != nullptr) live_->Load(*loads_);
}

void Stores::Follow() {
  if (live_ != nullptr)
    live_sweeper_ = std::make_unique<Sweeper>(
        "live-models", [this] { live_->Look(); }, kLiveLook);
}

int64_t Stores::Stop() {
  if (loads_ != nullptr) loads_->Stop();
  if (live_ != nullptr) live_->Stop();
  const int64_t unsaved = live_ == nullptr ? 0 : live_->unsaved();
  if (datasets_ != nullptr) datasets_->Stop();
  saved_sessions_->Stop();
  publisher_->Stop();
  if (owners_ != nullptr) owners_->Stop();
  live_sweeper_.reset();
  return unsaved;
}

}  // namespace gluond::server
