#include "server/hosted/devices.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/start/memory.h"

namespace gluond::server {
namespace {

// Sixteen clients whose operators take seconds leave a place for the others' short ones.
constexpr int kMostAtWork = 17;

}  // namespace

absl::StatusOr<std::unique_ptr<Devices>> Devices::Open(const std::string& wanted, int cpu_threads, const Limits& limits,
                                                       int serve_share) {
  std::vector<Device> list;
  if (wanted == "auto") {
    for (int i = 0; i < NumGpus(); ++i) list.push_back({DeviceType::kGpu, i});
    list.push_back(Device());
  } else {
    for (absl::string_view name : absl::StrSplit(wanted, ',')) {
      ASSIGN_OR_RETURN(const Device device, Annotate(Device::Parse(name), "--devices (auto, cpu, gpu:0 or gpu:0,cpu)"));
      if (!absl::c_linear_search(list, device)) list.push_back(device);
    }
  }
  auto devices = std::make_unique<Devices>();
  const int64_t memory = limits.max_memory_bytes > 0 ? limits.max_memory_bytes : MachineMemory() / 4 * 3;
  devices->memory_ = std::make_shared<Budget>("the server", memory, "--max_memory_bytes");
  ASSIGN_OR_RETURN(devices->host_, devices->Add(Device(), cpu_threads, limits, serve_share));
  for (Device device : list) {
    Place* place = devices->host_;
    if (device.type == DeviceType::kGpu) {
      ASSIGN_OR_RETURN(place, devices->Add(device, cpu_threads, limits, serve_share));
    }
    devices->offered_.push_back(place);
  }
  return devices;
}

absl::StatusOr<Place*> Devices::Add(Device device, int cpu_threads, const Limits& limits, int serve_share) {
  ASSIGN_OR_RETURN(DeviceDriver * driver, FindDriver(device));
  auto place = std::make_unique<Place>();
  place->device = device;
  place->description = driver->description();
  place->memory_bytes = driver->total_bytes();
  // Nobody can hold more than there is, whatever the flag says.
  int64_t limit = std::min(limits.max_tensor_bytes, place->memory_bytes);
  const bool on_host = device.type == DeviceType::kCpu;
  if (on_host) limit = std::min(limit, memory_->limit() / 4 * 3);  // Requests need memory, too.
  place->budget = std::make_shared<Budget>(absl::StrCat("the server's ", device.ToString()), limit, "--max_tensor_bytes",
                                           on_host ? memory_ : nullptr);
  ASSIGN_OR_RETURN(place->allocator, DeviceAllocator::Create(device, place->budget, /*shared=*/true));
  const double share = serve_share / 100.0;
  LaneOptions options = {.threads = cpu_threads, .most_at_work = kMostAtWork, .weight = 1 - share};
  if (!on_host) options.host_memory = host_->allocator;
  ASSIGN_OR_RETURN(place->lanes, Lanes::Create(device, options, *place->allocator));
  if (on_host) {
    const int at_work = std::max(1, static_cast<int>(share * place->lanes->compute_threads() + 0.5));
    place->own_serving_lanes = Lanes::CreateBeside(
        *place->lanes, {.most_at_work = kMostAtWork, .at_work = at_work, .weight = share, .urgent = true, .name = "serving"},
        *place->allocator);
  }
  places_.push_back(std::move(place));
  return places_.back().get();
}

absl::StatusOr<Place*> Devices::Find(const std::string& name) const {
  if (name.empty()) return offered_[0];
  ASSIGN_OR_RETURN(const Device device, Device::Parse(name));
  for (Place* place : offered_) {
    if (place->device == device) return place;
  }
  return NotFound("this server has no device '", Excerpt(name), "'; it has: ",
                  absl::StrJoin(offered_, ", ", [](std::string* out, Place* p) { out->append(p->device.ToString()); }));
}

int64_t Devices::tensor_bytes() const {
  int64_t sum = 0;
  for (const auto& place : places_) sum += place->budget->used();
  return sum;
}

}  // namespace gluond::server
