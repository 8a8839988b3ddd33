#include "engine/runtime/budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/host_blocks.h"

namespace gluond {
namespace {

// Of a budget that accounts share: the part that is kept for those who hold little, and how much that is.
constexpr int64_t kKept = 8;
constexpr int64_t kLittle = 256;

// Of Reservation::Cover.
constexpr int64_t kStep = 64 << 10;

// Freed blocks that are kept are charged to nobody, and make room for what is. A block is kept before its charge is
// refunded, so that whoever sees the refund sees the block. (A GPU's budget that is nearly used up makes them go for
// nothing, which costs the next large arrays of the host some time.)
void MakeRoom(int64_t left) {
  HostBlocks& blocks = HostBlocks::OfProcess();
  if (blocks.kept_bytes() > left) blocks.KeepAtMost(left);
}

}  // namespace

Budget::Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent)
    : name_(std::move(name)), limit_(limit), flag_(std::move(flag)), parent_(std::move(parent)),
      mu_(parent_ == nullptr ? own_mu_ : parent_->mu_) {}

Budget::Budget(std::shared_ptr<Budget> whole, AccountPtr account)
    : name_(absl::StrCat(whole->name_, ", for ", account->name())), limit_(whole->limit_), flag_(whole->flag_),
      parent_(std::move(whole)), account_(std::move(account)), mu_(parent_->mu_) {}

std::shared_ptr<Budget> Budget::PartOf(const std::shared_ptr<Budget>& whole) {
  const AccountPtr& account = CurrentAccount();
  if (account == nullptr) return whole;
  std::lock_guard lock(whole->mu_);
  std::weak_ptr<Budget>& known = whole->parts_[account.get()];
  std::shared_ptr<Budget> part = known.lock();
  if (part != nullptr) return part;
  part.reset(new Budget(whole, account));
  known = part;
  if (whole->parts_.size() > whole->tidy_at_) {
    absl::erase_if(whole->parts_, [](const auto& entry) { return entry.second.expired(); });
    whole->tidy_at_ = 2 * whole->parts_.size() + 64;
  }
  return part;
}

int64_t Budget::Available(const Budget* within, int64_t bytes) const {
  const bool is_part = within != nullptr && within->account_ != nullptr;
  const bool little = is_part && bytes <= limit_ / kLittle - within->used();
  return limit_ - used() - (is_part && !little ? limit_ / kKept : 0);
}

absl::Status Budget::Charge(int64_t bytes) {
  std::lock_guard lock(mu_);
  const Budget* within = nullptr;
  for (const Budget* budget = this; budget != nullptr; within = budget, budget = budget->parent_.get()) {
    const int64_t available = budget->Available(within, bytes);
    if (bytes <= available) continue;
    const int64_t kept = budget->limit_ - budget->used() - available;
    return absl::ResourceExhaustedError(absl::StrCat(
        "memory of ", budget->name_, ": ", bytes, " bytes wanted, ", budget->used(), " of ", budget->limit_, " in use",
        kept == 0 ? "" : absl::StrCat(", ", kept, " kept for clients that hold little"), "; free some, or raise ",
        budget->flag_));
  }
  Budget* outermost = this;
  for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    budget->used_.fetch_add(bytes, std::memory_order_acq_rel);
    outermost = budget;
  }
  MakeRoom(outermost->limit_ - outermost->used());
  return absl::OkStatus();
}

void Budget::Refund(int64_t bytes) {
  for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    budget->used_.fetch_sub(bytes, std::memory_order_acq_rel);
  }
}

absl::Status Reservation::Grow(int64_t bytes) {
  if (budget_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(budget_->Charge(bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status Reservation::Cover(int64_t bytes) {
  if (bytes <= bytes_ && bytes_ - bytes < 2 * kStep) return absl::OkStatus();
  const int64_t wanted = (bytes + kStep - 1) / kStep * kStep;
  if (wanted > bytes_) return Grow(wanted - bytes_);
  Shrink(bytes_ - wanted);
  return absl::OkStatus();
}

void Reservation::Shrink(int64_t bytes) {
  if (budget_ != nullptr) budget_->Refund(bytes);
  bytes_ -= bytes;
}

}  // namespace gluond
