// Admission bounds what is in flight: the number of requests at work or waiting, and their bytes. Thread-safe.

#ifndef SERVER_ADMISSION_H_
#define SERVER_ADMISSION_H_

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"

namespace gluond::server {

class Admission {
 public:
  Admission(int64_t max_requests, int64_t max_bytes) : max_requests_(max_requests), max_bytes_(max_bytes) {}

  // One request's place, given back when it is destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(Admission* admission, int64_t bytes) : admission_(admission), bytes_(bytes) {}
    Permit(Permit&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)), bytes_(other.bytes_) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Permit() {
      if (admission_ != nullptr) admission_->Leave(bytes_);
    }

   private:
    Admission* admission_ = nullptr;
    int64_t bytes_ = 0;
  };

  // RESOURCE_EXHAUSTED names the limit that is reached and its flag.
  absl::StatusOr<Permit> Enter(int64_t bytes);

  int64_t requests() const;

 private:
  void Leave(int64_t bytes);

  const int64_t max_requests_;
  const int64_t max_bytes_;
  mutable std::mutex mu_;
  int64_t requests_ = 0;  // Guarded by mu_.
  int64_t bytes_ = 0;     // Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_ADMISSION_H_
