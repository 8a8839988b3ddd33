#include "engine/runtime/device_allocator.h"

#include <limits>
#include <utility>

#include "engine/core/status_macros.h"

namespace gluond {

absl::StatusOr<std::unique_ptr<DeviceAllocator>> DeviceAllocator::Create(Device device,
                                                                         std::shared_ptr<Budget> budget) {
  ASSIGN_OR_RETURN(DeviceDriver * driver, FindDriver(device));
  return std::unique_ptr<DeviceAllocator>(new DeviceAllocator(device, driver, std::move(budget)));
}

absl::StatusOr<std::shared_ptr<Buffer>> DeviceAllocator::Allocate(size_t bytes) {
  if (bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  const int64_t charge = static_cast<int64_t>(bytes);
  RETURN_IF_ERROR(budget_->Charge(charge));
  absl::StatusOr<void*> data = driver_->Allocate(bytes);
  if (!data.ok()) {
    budget_->Refund(charge);
    return Annotate(data.status(), device_.ToString());
  }
  // The buffer holds the budget: it may be the last of its model's to go.
  return std::make_shared<Buffer>(*data, bytes, device_,
                                  [driver = driver_, data = *data, bytes, budget = budget_] {
                                    driver->Free(data, bytes);
                                    budget->Refund(static_cast<int64_t>(bytes));
                                  });
}

}  // namespace gluond
