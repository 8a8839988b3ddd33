// Devices: the devices that this server computes on. Each has its lanes and one budget of memory; the CPU is always
// there, since requests are decoded and replies encoded in its memory. Immutable once opened.

#ifndef SERVER_HOSTED_DEVICES_H_
#define SERVER_HOSTED_DEVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/custom_host.h"
#include "engine/core/device.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/tenant_name.h"
#include "server/start/limits.h"

namespace gluond::server {

struct Place {
  Device device;
  std::string description;
  int64_t memory_bytes = 0;
  std::shared_ptr<Budget> budget;
  std::shared_ptr<DeviceAllocator> allocator;
  std::unique_ptr<Lanes> lanes;
  std::unique_ptr<Lanes> own_serving_lanes;  // On a CPU alone, beside `lanes`.

  // The lanes of published versions: on a CPU their work waits for no training step, and shares the threads with
  // training by weight. A GPU has one stream for all.
  Lanes& serving_lanes() const { return own_serving_lanes == nullptr ? *lanes : *own_serving_lanes; }
};

class Devices {
 public:
  // `wanted` is "auto" (every GPU, then the CPU), "cpu", or a list like "gpu:0,cpu", the default first.
  // `serve_share`: percent of a CPU's threads that published versions have while models train as well, 1 to 99.
  // INVALID_ARGUMENT: a name that no device can have. UNAVAILABLE: a GPU was named and is not there.
  static absl::StatusOr<std::unique_ptr<Devices>> Open(const std::string& wanted, int cpu_threads, const Limits& limits,
                                                       int serve_share = kServeShare);
  static constexpr int kServeShare = 50;

  // The devices that models may run on; the first is the default.
  const std::vector<Place*>& offered() const { return offered_; }
  // All devices, with the CPU, whether models may run there or not.
  const std::vector<std::unique_ptr<Place>>& all() const { return places_; }
  // Empty `name`: the default. NOT_FOUND lists the devices.
  absl::StatusOr<Place*> Find(const std::string& name) const;
  // The CPU, where tensors of requests and replies lie.
  Place& host() const { return *host_; }
  // The memory of the process, which pays for the host's tensors and for requests.
  const std::shared_ptr<Budget>& memory() const { return memory_; }
  // Bytes of tensors held on all devices.
  int64_t tensor_bytes() const;

  // Computes clients' operators in the graphs of this server. Null: nobody does. Set before the first graph is made.
  const CustomHostPtr& custom_host() const { return custom_host_; }
  // The same for the graphs of whoever owns a name, "acme/digits".
  CustomHostPtr custom_host_of(absl::string_view name) const {
    const absl::string_view tenant = TenantPrefix(name);
    return tenant.empty() || tenants_host_ == nullptr ? custom_host_ : tenants_host_(tenant);
  }
  // `of_tenant` makes the one of a tenant's graphs, of "acme/".
  using HostOfTenant = std::function<CustomHostPtr(absl::string_view tenant)>;
  void SetCustomHost(CustomHostPtr host, HostOfTenant of_tenant = nullptr) {
    custom_host_ = std::move(host);
    tenants_host_ = std::move(of_tenant);
  }

 private:
  absl::StatusOr<Place*> Add(Device device, int cpu_threads, const Limits& limits, int serve_share);

  std::shared_ptr<Budget> memory_;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<Place*> offered_;
  Place* host_ = nullptr;
  CustomHostPtr custom_host_;
  HostOfTenant tenants_host_;
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_DEVICES_H_
