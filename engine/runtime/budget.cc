#include "engine/runtime/budget.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/host_blocks.h"

namespace gluond {
namespace {

// Charges are one at a time: each looks at all of its budgets at one moment, and one that is refused takes nothing from
// another meanwhile. Refunds need no lock, as they only make room.
std::mutex g_charge;

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
  const Budget* outermost = this;
  {
    std::lock_guard lock(g_charge);
    for (const Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
      const int64_t used = budget->used_.load(std::memory_order_acquire);
      if (bytes <= budget->limit_ - used) continue;  // Written so that no sum can overflow.
      return absl::ResourceExhaustedError(absl::StrCat("memory of ", budget->name_, ": ", bytes, " bytes wanted, ", used,
                                                       " of ", budget->limit_, " in use; free some, or raise ",
                                                       budget->flag_));
    }
    for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
      budget->used_.fetch_add(bytes, std::memory_order_acq_rel);
      outermost = budget;
    }
  }
  MakeRoom(outermost->limit_ - outermost->used());
  return absl::OkStatus();
}

void Budget::Refund(int64_t bytes) {
  for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    budget->used_.fetch_sub(bytes, std::memory_order_acq_rel);
  }
}

}  // namespace gluond
