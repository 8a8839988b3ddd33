// DeviceAllocator: the Allocator of a device, paid from a budget. Thread-safe. Its buffers may outlive it.
//
// Its buffers hold whatever the memory held before, possibly another model's values. The executor overwrites all that
// it allocates; other code that shows fresh memory to a user fills it first (DeviceDriver::Zero).

#ifndef ENGINE_RUNTIME_DEVICE_ALLOCATOR_H_
#define ENGINE_RUNTIME_DEVICE_ALLOCATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "engine/runtime/budget.h"

namespace gluond {

class DeviceAllocator final : public Allocator {
 public:
  // Where the budget is `shared`, each account pays from its own part of it. UNAVAILABLE: no such device.
  static absl::StatusOr<std::unique_ptr<DeviceAllocator>> Create(Device device, std::shared_ptr<Budget> budget,
                                                                 bool shared = false);

  Device device() const override { return device_; }
  const std::shared_ptr<Budget>& budget() const { return budget_; }
  // RESOURCE_EXHAUSTED: the budget or the device has no more.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  // Also where the budget is shared, none of its parts pays: what is charged may be kept for whoever comes next.
  absl::StatusOr<std::shared_ptr<Buffer>> Charge(size_t bytes) override;

 private:
  DeviceAllocator(Device device, DeviceDriver* driver, std::shared_ptr<Budget> budget, bool shared)
      : device_(device), driver_(driver), budget_(std::move(budget)), shared_(shared) {}

  const Device device_;
  DeviceDriver* const driver_;
  const std::shared_ptr<Budget> budget_;
  const bool shared_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_DEVICE_ALLOCATOR_H_
