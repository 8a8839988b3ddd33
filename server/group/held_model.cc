#include "server/group/held_model.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/transfer.h"
#include "engine/store/crc32c.h"
#include "engine/store/memory_file_system.h"
#include "engine/store/safetensors.h"
#include "engine/store/version_files.h"
#include "server/rpc/log.h"

namespace gluond::server {
namespace {

constexpr char kDirectory[] = "/group";
constexpr char kName[] = "model";
constexpr char kSums[] = "/sums.safetensors";

// Copies the sums of a file into a model that nobody else has yet.
absl::Status TakeSums(absl::string_view file, Model& model, Allocator& host_allocator) {
  absl::StatusOr<Safetensors> read = ReadSafetensors(file, host_allocator);
  if (!read.ok()) return Damaged(read.status(), kSums);
  for (const NamedTensor& sum : read->tensors) {
    ASSIGN_OR_RETURN(const size_t i, model.parameters().Find(sum.name));
    const Tensor& gradient = model.parameters()[i].grad;
    if (!gradient.defined() || gradient.shape() != sum.tensor.shape() || gradient.dtype() != sum.tensor.dtype()) {
      return absl::DataLossError(absl::StrCat("the sum of gradients of parameter '", sum.name, "' is not one of this model"));
    }
    RETURN_IF_ERROR(Copy(sum.tensor.blob(), gradient.blob(), model.options().lane->lanes()));
  }
  return absl::OkStatus();
}

// The device of that name, or another one of its kind.
absl::StatusOr<Place*> PlaceLike(const std::string& device, const Devices& devices) {
  if (const absl::StatusOr<Place*> same = devices.Find(device); same.ok()) return same;
  const absl::string_view kind = absl::string_view(device).substr(0, device.find(':'));
  for (Place* const place : devices.offered()) {
    if (absl::StartsWith(place->device.ToString(), kind)) return place;
  }
  return FailedPrecondition("the group's leader computes it on ", device, ", and this process offers no ", kind,
                            "; start it with such a device (--devices), or define the model on another one");
}

// The tensors alone.
int64_t BytesOf(const HeldModel& model) {
  int64_t bytes = 0;
  const auto add = [&bytes](const NamedTensors& tensors) {
    for (const NamedTensor& each : tensors) bytes += static_cast<int64_t>(each.tensor.bytes());
  };
  add(model.checkpoint.model.parameters);
  if (model.checkpoint.trainer.has_value()) add(model.checkpoint.trainer->states);
  add(model.sums);
  return bytes;
}

uint32_t Add(absl::string_view bytes, uint32_t crc) { return Crc32c(bytes, crc); }

template <class Number>
uint32_t AddNumber(Number number, uint32_t crc) {
  return Add(absl::string_view(reinterpret_cast<const char*>(&number), sizeof(number)), crc);
}

uint32_t AddTensors(const NamedTensors& tensors, uint32_t crc) {
  for (const NamedTensor& tensor : tensors) {
    crc = Add(tensor.name, crc);
    crc = Add(absl::string_view(tensor.tensor.data<char>(), tensor.tensor.bytes()), crc);
  }
  return crc;
}

uint32_t ChecksumOf(const HeldModel& model) {
  uint32_t crc = Add(model.name, 0);
  crc = AddTensors(model.checkpoint.model.parameters, crc);
  crc = AddTensors(model.sums, crc);
  crc = AddNumber(model.checkpoint.model.random.seed, crc);
  crc = AddNumber(model.checkpoint.model.random.runs, crc);
  if (!model.checkpoint.trainer.has_value()) return crc;
  const TrainerState& trainer = *model.checkpoint.trainer;
  crc = AddNumber(trainer.step, crc);
  for (const auto& [parameter, updates] : trainer.updates) crc = AddNumber(updates, Add(parameter, crc));
  return AddTensors(trainer.states, crc);
}

}  // namespace

uint32_t Checksums::Of(const HeldModels& models) {
  MutexLock lock(mu_);
  std::erase_if(known_, [](const auto& known) { return known.second.hosted.expired(); });
  uint32_t crc = 0;
  for (const HeldModel& model : models) {
    Known& known = known_[model.name];
    const uint64_t runs = model.checkpoint.model.random.runs;
    const bool is_same = known.hosted.lock() == model.hosted && known.edits == model.edits && known.runs == runs;
    // A model that was changed while it was held may have either's number.
    if (!is_same) known = {model.was_edited ? nullptr : model.hosted, model.edits, runs, ChecksumOf(model)};
    crc = AddNumber(known.crc, crc);
  }
  return crc;
}

NamedModels KnownModels::List() const {
  NamedModels models;
  for (auto& [name, hosted] : models_.List()) {
    if (hosted->virtual_shards().has_value() && WhyLate(name).ok()) models.emplace_back(name, std::move(hosted));
  }
  std::sort(models.begin(), models.end());
  return models;
}

absl::Status KnownModels::WhyLate(const std::string& name) const {
  const auto unheld = unheld_.find(name);
  const bool is_late = unheld != unheld_.end() && unheld->second.is_late != nullptr && *unheld->second.is_late;
  return is_late ? unheld->second.status : absl::OkStatus();
}

bool KnownModels::HasChanged(const std::string& name, const HostedModelPtr& hosted, uint64_t edits) const {
  const auto known = known_.find(name);
  return known == known_.end() || known->second.hosted.lock() != hosted || known->second.edits != edits;
}

bool KnownModels::Take(HeldModels& held, bool is_all, uint64_t number) {
  if (is_all) std::erase_if(unheld_, [this](const auto& unheld) { return WhyLate(unheld.first).ok(); });
  bool has_changed = false;
  std::erase_if(held, [&](const HeldModel& model) {
    if (model.status.ok()) return false;
    LogEvent("group_model_not_held", LogLevel::kError, absl::StrCat("model '", model.name, "': ", model.status.message()));
    unheld_[model.name] = {model.status, model.is_late};
    has_changed |= !is_all;  // All are held next, and the group goes on without this one.
    return true;
  });
  std::map<std::string, Known> known;
  for (const HeldModel& model : held) {
    const bool is_new = HasChanged(model.name, model.hosted, model.edits) || model.was_edited;
    known[model.name] = {model.hosted, model.edits, is_new ? number : known_.at(model.name).changed};
    has_changed |= is_new;
  }
  if (is_all) {
    has_changed |= known.size() != known_.size();
    known_ = std::move(known);
  } else {
    for (auto& [name, model] : known) known_[name] = std::move(model);
  }
  return has_changed;
}

void KnownModels::Applied(const std::string& name, uint64_t number) {
  const auto known = known_.find(name);
  if (known == known_.end()) return;
  ++known->second.edits;  // The step's own. Other changes since then differ from what members know.
  known->second.changed = number;
}

absl::StatusOr<uint64_t> KnownModels::Edits(const std::string& name) const {
  if (const auto known = known_.find(name); known != known_.end()) return known->second.edits;
  const auto unheld = unheld_.find(name);
  return unheld != unheld_.end() ? unheld->second.status : absl::AbortedError("the members do not know the model yet; try again");
}

absl::StatusOr<StateFiles> PackedModel::Files() {
  MutexLock lock(mu_);
  if (files_.has_value()) return *files_;
  const auto pack = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::StatusOr<StateFiles> {
    RETURN_IF_ERROR(memory_.Grow(BytesOf(model_)));
    MemoryFileSystem files;
    ASSIGN_OR_RETURN(const auto store, CheckpointStore::Open(files, kDirectory));
    Checkpoint checkpoint = model_.checkpoint;
    checkpoint.hosting.emplace();
    checkpoint.hosting->device = model_.hosted->place().device.ToString();
    checkpoint.hosting->seed = model_.hosted->model().options().seed;
    checkpoint.hosting->version = model_.hosted->version();
    RETURN_IF_ERROR(store->Save(kName, checkpoint).status());
    StateFiles made = files.files();
    if (model_.sums.empty()) return made;
    const auto sums = std::make_shared<std::string>();
    RETURN_IF_ERROR(WriteSafetensors(model_.sums, {}, [&sums](absl::string_view bytes) {
      absl::StrAppend(sums.get(), bytes);
      return absl::OkStatus();
    }));
    made[kSums] = sums;
    return made;
  };
  files_ = pack();
  model_.checkpoint = {};  // Its memory is wanted for the next step,
  model_.sums = {};        // as theirs.
  return *files_;
}

void FromFiles(std::string name, StateFiles files, Devices& devices, int64_t max_model_bytes,
               std::function<void(absl::StatusOr<HostedModelPtr>)> done) {
  std::shared_ptr<const std::string> sums;
  const auto make = [&]() -> absl::StatusOr<std::pair<HostedModelPtr, Checkpoint>> {
    MemoryFileSystem memory;
    if (const auto found = files.find(kSums); found != files.end()) {
      sums = found->second;
      files.erase(found);
    }
    for (auto& [path, bytes] : files) memory.Add(path, std::move(*bytes));
    ASSIGN_OR_RETURN(const auto store, CheckpointStore::Open(memory, kDirectory));
    ASSIGN_OR_RETURN(Checkpoint checkpoint, store->Load(kName, *devices.host().allocator));
    if (!checkpoint.hosting.has_value()) return absl::DataLossError("the state of a model has no place");
    ASSIGN_OR_RETURN(Place* const place, PlaceLike(checkpoint.hosting->device, devices));
    ASSIGN_OR_RETURN(HostedModelPtr hosted, HostedModel::Create(name, checkpoint.model.definition, checkpoint.hosting->seed, *place,
                                                                devices.host(), max_model_bytes, /*clients_are_away=*/true));
    hosted->SetVersion(checkpoint.hosting->version);
    hosted->SetVirtualShards(checkpoint.virtual_shards, /*has_group=*/true);
    return std::pair(std::move(hosted), std::move(checkpoint));
  };
  absl::StatusOr<std::pair<HostedModelPtr, Checkpoint>> made = make();
  if (!made.ok()) return done(Annotate(made.status(), absl::StrCat("model '", name, "' of the group")));
  const HostedModelPtr hosted = made->first;
  hosted->Restore(std::move(made->second), [hosted, sums, &devices, done = std::move(done)](absl::Status restored) {
    if (restored.ok() && sums != nullptr) restored = TakeSums(*sums, hosted->model(), *devices.host().allocator);
    restored.ok() ? done(hosted) : done(restored);
  });
}

}  // namespace gluond::server
