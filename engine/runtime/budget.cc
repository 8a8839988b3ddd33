#include "engine/runtime/budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/host_blocks.h"

namespace gluond {
namespace {

// Freed blocks that are kept are charged to nobody, and make room for what is. A block is kept before its charge is
// refunded, so that whoever sees the refund sees the block. (A GPU's budget that is nearly used up makes them go for
// nothing, which costs the next large arrays of the host some time.)
void MakeRoom(int64_t left) {
  HostBlocks& blocks = HostBlocks::OfProcess();
  if (blocks.kept_bytes() > left) blocks.KeepAtMost(left);
}

}  // namespace

Budget::Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent)
    : name_(std::move(name)), limit_(limit), flag_(std::move(flag)), parent_(std::move(parent)) {}

absl::Status Budget::Charge(int64_t bytes) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) {  // Written so that no sum can overflow.
      return absl::ResourceExhaustedError(
          absl::StrCat("memory of ", name_, ": ", bytes, " bytes wanted, ", used, " of ", limit_,
                       " in use; free some, or raise ", flag_));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_acq_rel));
  if (parent_ == nullptr) {
    MakeRoom(limit_ - used - bytes);
    return absl::OkStatus();
  }
  absl::Status status = parent_->Charge(bytes);
  if (!status.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

void Budget::Refund(int64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_acq_rel);
  if (parent_ != nullptr) parent_->Refund(bytes);
}

}  // namespace gluond
