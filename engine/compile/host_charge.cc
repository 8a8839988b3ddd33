#include "engine/compile/host_charge.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"

namespace gluond {

absl::Status HostCharge::Set(int64_t bytes) {
  if (payer_ == nullptr) return absl::OkStatus();
  while (bytes_ > bytes) {
    bytes_ -= parts_.back().bytes;
    parts_.pop_back();
  }
  if (bytes_ == bytes) return absl::OkStatus();
  const int64_t more = bytes - bytes_;
  absl::StatusOr<std::shared_ptr<Buffer>> paid = payer_->Charge(static_cast<size_t>(more));
  if (absl::IsResourceExhausted(paid.status()) && payer_->LetGo()) paid = payer_->Charge(static_cast<size_t>(more));
  RETURN_IF_ERROR(paid.status());
  parts_.push_back({*std::move(paid), more});
  bytes_ = bytes;
  return absl::OkStatus();
}

}  // namespace gluond
