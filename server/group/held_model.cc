#include "server/group/held_model.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/transfer.h"
#include "engine/store/crc32c.h"
#include "engine/store/memory_file_system.h"
#include "engine/store/safetensors.h"
#include "engine/store/version_files.h"

namespace gluond::server {
namespace {

constexpr char kDirectory[] = "/group";
constexpr char kName[] = "model";
constexpr char kSums[] = "/sums.safetensors";

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

void HoldNext(std::shared_ptr<NamedModels> models, size_t next, std::shared_ptr<HeldModels> held,
              std::function<void(absl::StatusOr<HeldModels>)> done) {
  if (next == models->size()) return done(std::move(*held));
  const auto& [name, hosted] = (*models)[next];
  held->push_back({name, hosted, hosted->edits(), {}, {}});
  hosted->Snapshot([models, next, held, done = std::move(done)](absl::StatusOr<Checkpoint> checkpoint) mutable {
    if (!checkpoint.ok()) return done(checkpoint.status());
    held->back().checkpoint = *std::move(checkpoint);
    held->back().sums = SumsOf(held->back().hosted->model());  // No other call has begun since.
    HoldNext(std::move(models), next + 1, std::move(held), std::move(done));
  });
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

}  // namespace

void HoldModels(NamedModels models, std::function<void(absl::StatusOr<HeldModels>)> done) {
  HoldNext(std::make_shared<NamedModels>(std::move(models)), 0, std::make_shared<HeldModels>(), std::move(done));
}

uint32_t Checksum(const HeldModels& models) {
  uint32_t crc = 0;
  for (const HeldModel& model : models) {
    crc = Add(model.name, crc);
    crc = AddTensors(model.checkpoint.model.parameters, crc);
    crc = AddTensors(model.sums, crc);
    crc = AddNumber(model.checkpoint.model.random.seed, crc);
    crc = AddNumber(model.checkpoint.model.random.runs, crc);
    if (!model.checkpoint.trainer.has_value()) continue;
    const TrainerState& trainer = *model.checkpoint.trainer;
    crc = AddNumber(trainer.step, crc);
    crc = AddNumber(trainer.learning_rate.value_or(-1), crc);
    for (const auto& [parameter, updates] : trainer.updates) crc = AddNumber(updates, Add(parameter, crc));
    crc = AddTensors(trainer.states, crc);
  }
  return crc;
}

absl::StatusOr<StateFiles> ToFiles(const HeldModel& model) {
  MemoryFileSystem files;
  ASSIGN_OR_RETURN(const auto store, CheckpointStore::Open(files, kDirectory));
  Checkpoint checkpoint = model.checkpoint;
  checkpoint.hosting.emplace();
  checkpoint.hosting->device = model.hosted->place().device.ToString();
  checkpoint.hosting->seed = model.hosted->model().options().seed;
  checkpoint.hosting->version = model.hosted->version();
  checkpoint.hosting->virtual_shards = model.hosted->virtual_shards();
  RETURN_IF_ERROR(store->Save(kName, checkpoint).status());
  StateFiles made = files.files();
  if (model.sums.empty()) return made;
  const auto sums = std::make_shared<std::string>();
  RETURN_IF_ERROR(WriteSafetensors(model.sums, {}, [&sums](absl::string_view bytes) {
    absl::StrAppend(sums.get(), bytes);
    return absl::OkStatus();
  }));
  made[kSums] = sums;
  return made;
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
    absl::StatusOr<Place*> place = devices.Find(checkpoint.hosting->device);
    if (!place.ok()) place = devices.Find("");
    RETURN_IF_ERROR(place.status());
    ASSIGN_OR_RETURN(HostedModelPtr hosted,
                     HostedModel::Create(name, checkpoint.model.definition, checkpoint.hosting->seed, **place, devices.host(),
                                         max_model_bytes, /*clients_are_away=*/true));
    hosted->SetVersion(checkpoint.hosting->version);
    hosted->SetVirtualShards(checkpoint.hosting->virtual_shards, /*has_group=*/true);
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
