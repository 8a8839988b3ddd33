#include "engine/runtime/device_allocator.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/fair_threads.h"
#include "engine/runtime/host_blocks.h"

namespace gluond {
namespace {

// Whether a block of this size, once freed, is kept for the next use (host_blocks.h). The address sanitizer watches
// malloc's blocks only.
bool IsKept([[maybe_unused]] Device device, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  return device.type == DeviceType::kCpu && bytes >= HostBlocks::kLeastBytes;
#endif
}

absl::StatusOr<void*> Take(Device device, DeviceDriver& driver, size_t bytes) {
  HostBlocks& blocks = HostBlocks::OfProcess();
  if (IsKept(device, bytes)) {
    // Work of a pool is about to write all of it. An upload comes piece by piece, if it comes.
    void* const data = blocks.Take(bytes, /*find_pages=*/FairThreads::current_queue() != nullptr);
    if (data != nullptr) return data;
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", bytes, " bytes left"));
  }
  absl::StatusOr<void*> data = driver.Allocate(bytes);
  if (data.ok() || device.type != DeviceType::kCpu || blocks.kept_bytes() == 0) return data;
  blocks.KeepAtMost(0);
  return driver.Allocate(bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceAllocator>> DeviceAllocator::Create(Device device, std::shared_ptr<Budget> budget,
                                                                         bool shared) {
  ASSIGN_OR_RETURN(DeviceDriver * driver, FindDriver(device));
  return std::unique_ptr<DeviceAllocator>(new DeviceAllocator(device, driver, std::move(budget), shared));
}

absl::StatusOr<std::shared_ptr<Buffer>> DeviceAllocator::Allocate(size_t bytes) {
  if (bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  const int64_t charge = static_cast<int64_t>(bytes);
  const std::shared_ptr<Budget> payer = shared_ ? Budget::PartOf(budget_) : budget_;
  RETURN_IF_ERROR(payer->Charge(charge));
  absl::StatusOr<void*> data = Take(device_, *driver_, bytes);
  if (!data.ok()) {
    payer->Refund(charge);
    const std::string holders = absl::IsResourceExhausted(data.status()) ? budget_->Holders() : "";
    if (holders.empty()) return Annotate(data.status(), device_.ToString());
    return absl::ResourceExhaustedError(absl::StrCat(device_.ToString(), ": ", data.status().message(), "; here by: ", holders));
  }
  // The buffer holds the budget: it may be the last of its model's to go.
  const bool is_kept = IsKept(device_, bytes);
  return std::make_shared<Buffer>(*data, bytes, device_, [driver = driver_, data = *data, bytes, is_kept, budget = payer] {
    is_kept ? HostBlocks::OfProcess().GiveBack(data, bytes) : driver->Free(data, bytes);
    budget->Refund(static_cast<int64_t>(bytes));
  });
}

absl::StatusOr<std::shared_ptr<Buffer>> DeviceAllocator::Charge(size_t bytes) {
  const int64_t charge = static_cast<int64_t>(bytes);
  const std::shared_ptr<Budget> payer = shared_ ? Budget::PartOf(budget_) : budget_;
  RETURN_IF_ERROR(payer->Charge(charge));
  return std::make_shared<Buffer>(nullptr, 0, device_, [budget = payer, charge] { budget->Refund(charge); });
}

}  // namespace gluond
