// A HostCharge is what an allocator is charged for memory of the host that somebody else allocates, and whose size changes.
//
//   HostCharge charge(&allocator);
//   RETURN_IF_ERROR(charge.Set(most));    // Before the memory is taken.
//   RETURN_IF_ERROR(charge.Set(kept));    // When the rest has been freed.
//
// The charge goes with the object. Not thread-safe.

#ifndef ENGINE_COMPILE_HOST_CHARGE_H_
#define ENGINE_COMPILE_HOST_CHARGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/tensor.h"

namespace gluond {

class HostCharge {
 public:
  // Nobody pays where `payer`, which outlives the calls of Set, is null.
  explicit HostCharge(Allocator* payer = nullptr) : payer_(payer) {}

  // Charges or refunds until so many bytes are paid for. RESOURCE_EXHAUSTED, after the memory's owner has let
  // go of what it keeps only to be faster: names the budget that is used up. A charge that was to grow is as before then.
  absl::Status Set(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  struct Part {
    std::shared_ptr<Buffer> paid;
    int64_t bytes;
  };

  Allocator* payer_;
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_COMPILE_HOST_CHARGE_H_
