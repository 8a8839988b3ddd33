#include "server/admission.h"

#include "absl/strings/str_cat.h"

namespace gluond::server {

absl::StatusOr<Admission::Permit> Admission::Enter(int64_t bytes) {
  std::lock_guard lock(mu_);
  if (requests_ >= max_requests_) {
    return absl::ResourceExhaustedError(absl::StrCat("the server has ", requests_, " requests in flight, the limit of ",
                                                     "--max_requests; try again later"));
  }
  // A single request that is alone may pass: its size has its own limit.
  if (requests_ > 0 && bytes > max_bytes_ - bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("the requests in flight hold ", bytes_, " bytes, and ", bytes,
                                                     " more exceed the ", max_bytes_,
                                                     " of --max_request_bytes; try again later"));
  }
  ++requests_;
  bytes_ += bytes;
  return Permit(this, bytes);
}

int64_t Admission::requests() const {
  std::lock_guard lock(mu_);
  return requests_;
}

void Admission::Leave(int64_t bytes) {
  std::lock_guard lock(mu_);
  --requests_;
  bytes_ -= bytes;
}

}  // namespace gluond::server
