#include "engine/runtime/budget.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/host_blocks.h"

namespace gluond {
namespace {

// A budget that accounts share keeps an eighth for parts with less than an equal share, and half of that for parts with
// less than a 256th.
constexpr int64_t kKept = 8;
constexpr int64_t kLittle = 256;

// Reservation::Cover charges in steps of so many bytes.
constexpr int64_t kStep = 64 << 10;

// Freed blocks that are kept are charged to nobody, and make room for charges. A block is kept before its charge is
// refunded: a thread that sees the refund sees the block. (A GPU's budget that is nearly used up makes them go for
// nothing, which costs the next large arrays of the host some time.)
void MakeRoom(int64_t left) {
  HostBlocks& blocks = HostBlocks::OfProcess();
  if (blocks.kept_bytes() > left) blocks.KeepAtMost(left);
}

// The group's limit, as an operator of a server knows it.
constexpr char kQuota[] = "--tenants:bytes";

// Budget::Holders names at most so many.
constexpr size_t kMostHolders = 8;

std::string Size(int64_t bytes) {
  if (bytes < 1 << 10) return absl::StrCat(bytes, " bytes");
  if (bytes < 1 << 20) return absl::StrFormat("%.1f KiB", bytes / 1024.0);
  if (bytes < 1 << 30) return absl::StrFormat("%.1f MiB", bytes / (1024.0 * 1024));
  return absl::StrFormat("%.1f GiB", bytes / (1024.0 * 1024 * 1024));
}

}  // namespace

Budget::Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent)
    : name_(std::move(name)),
      limit_(limit),
      flag_(std::move(flag)),
      parent_(std::move(parent)),
      outermost_(parent_ == nullptr ? *this : parent_->outermost_) {
  if (parent_ == nullptr) return;
  MutexLock lock(outermost_.mu_);
  outermost_.within_.insert(this);
}

Budget::Budget(std::shared_ptr<Budget> whole, AccountPtr account, AccountGroupPtr group, std::shared_ptr<Budget> all)
    : name_(group != nullptr ? absl::StrCat("tenant '", group->name(), "'")
                             : absl::StrCat(whole->name_, ", for ", account->name())),
      limit_(whole->limit_),
      flag_(group != nullptr ? kQuota : whole->flag_),
      parent_(std::move(whole)),
      account_(std::move(account)),
      group_(std::move(group)),
      all_(std::move(all)),
      outermost_(parent_->outermost_) {
  outermost_.within_.insert(this);
}

Budget::~Budget() {
  if (parent_ == nullptr) return;
  MutexLock lock(outermost_.mu_);
  outermost_.within_.erase(this);
}

// Parts, and parts of parts, have the mutex of the outermost budget, as their whole has, which clang's analysis cannot know.
ABSL_NO_THREAD_SAFETY_ANALYSIS std::shared_ptr<Budget> Budget::PartLocked(const std::shared_ptr<Budget>& whole,
                                                                          const AccountPtr& account, const AccountGroupPtr& group) {
  const void* const owner = account != nullptr ? static_cast<const void*>(account.get()) : group.get();
  std::weak_ptr<Budget>& known = whole->parts_[owner];
  std::shared_ptr<Budget> part = known.lock();
  if (part != nullptr) return part;
  std::shared_ptr<Budget> all;
  if (whole->all_ != nullptr) {
    all = PartLocked(whole->all_, account, group);
  } else if (whole->parent_ != nullptr && !whole->is_part()) {
    std::shared_ptr<Budget> outermost = whole->parent_;
    while (outermost->parent_ != nullptr) outermost = outermost->parent_;
    all = PartLocked(outermost, account, group);
  }
  part.reset(new Budget(whole, account, group, std::move(all)));
  known = part;
  if (whole->parts_.size() > whole->tidy_at_) {
    absl::erase_if(whole->parts_, [](const auto& entry) { return entry.second.expired(); });
    whole->tidy_at_ = 2 * whole->parts_.size() + 64;
  }
  return part;
}

// As PartLocked.
ABSL_NO_THREAD_SAFETY_ANALYSIS std::shared_ptr<Budget> Budget::PartOf(const std::shared_ptr<Budget>& whole) {
  const AccountPtr& account = CurrentAccount();
  if (account == nullptr) return whole;
  std::shared_ptr<Budget> groups;  // Outlives the lock, which its end would take.
  MutexLock lock(whole->outermost_.mu_);
  if (account->group() == nullptr) return PartLocked(whole, account, nullptr);
  groups = PartLocked(whole, nullptr, account->group());
  return PartLocked(groups, account, nullptr);
}

int64_t Budget::UsedBy(const AccountGroup& group) const {
  std::shared_ptr<Budget> part;  // Outlives the lock, which its end would take.
  MutexLock lock(outermost_.mu_);
  if (const auto known = parts_.find(&group); known != parts_.end()) part = known->second.lock();
  return part == nullptr ? 0 : part->used();
}

int64_t Budget::Available(const Budget& budget, const Budget* part, int64_t bytes) const {
  const int64_t limit = budget.limit(), left = budget.left();
  if (part == nullptr) return left;
  const Budget& holder = part->holder();
  if (bytes <= limit / kLittle - holder.held_) return left;
  const int64_t kept = limit / kKept;
  if (bytes <= left - kept) return left - kept;
  const Budget* const whole = budget.is_part() ? &budget.holder() : &outermost_;
  int64_t parts = 1;
  for (const Budget* other : outermost_.within_) {
    parts += other != &holder && other->parent_.get() == whole && other->is_part() && other->held_ > limit / kLittle;
  }
  return left - (bytes <= limit / parts - holder.held_ ? kept / 2 : kept);
}

bool Budget::IsWithin(const Budget& other) const {
  const Budget* budget = parent_.get();
  while (budget != nullptr && &budget->holder() != &other.holder()) budget = budget->parent_.get();
  return budget != nullptr;
}

bool Budget::IsOwn() const {
  const Budget* budget = this;
  while (budget != nullptr && budget->account_ == nullptr) budget = budget->parent_.get();
  return budget == nullptr || budget->account_ == CurrentAccount();
}

const AccountGroup* Budget::Owners() const {
  const Budget* budget = this;
  while (budget != nullptr && !budget->is_part()) budget = budget->parent_.get();
  if (budget == nullptr) return nullptr;
  return budget->group_ != nullptr ? budget->group_.get() : budget->account_->group().get();
}

std::string Budget::Holder() const {
  const AccountPtr& caller = CurrentAccount();
  // One tenant hears no names of another's. Work of nobody's account is the server's own, whose errors the default tenant sees.
  if ((caller == nullptr ? nullptr : caller->group().get()) != Owners()) return "others' things";
  if (account_ != nullptr) return IsOwn() ? "this connection's calls" : "another connection's calls";
  return absl::StrCat(name_, IsOwn() ? "" : " of another connection");
}

std::string Budget::Holders() const {
  MutexLock lock(outermost_.mu_);
  return HoldersOf(outermost_);
}

std::string Budget::HoldersOf(const Budget& whole) const {
  // Each budget's own holding: its use, less that of the budgets within it.
  absl::flat_hash_map<const Budget*, int64_t> own = {{&whole, whole.used()}};
  for (const Budget* budget : outermost_.within_) {
    if (!budget->IsWithin(whole)) continue;
    const int64_t bytes = budget->used();
    own[budget] += bytes;
    own[budget->parent_.get()] -= bytes;
  }
  if (own.size() == 1) return "";
  std::map<std::string, std::pair<int64_t, int>> sums;  // Bytes and how many, of all that are called the same.
  for (const auto& [budget, bytes] : own) {
    if (bytes <= 0) continue;
    auto& [sum, count] = sums[budget == &whole ? "the rest" : budget->Holder()];
    sum += bytes;
    ++count;
  }
  std::vector<std::tuple<int64_t, int, std::string>> holders;
  for (const auto& [name, sum] : sums) holders.emplace_back(sum.first, sum.second, name);
  std::sort(holders.rbegin(), holders.rend());
  const size_t left_out = holders.size() - std::min(holders.size(), kMostHolders);
  holders.resize(holders.size() - left_out);
  std::string text = absl::StrJoin(holders, ", ", [](std::string* out, const auto& holder) {
    const auto& [bytes, count, name] = holder;
    absl::StrAppend(out, count == 1 ? "" : absl::StrCat(count, " x "), name, " ", Size(bytes));
  });
  if (left_out > 0) absl::StrAppend(&text, " and ", left_out, " more");
  return text;
}

absl::Status Budget::Charge(int64_t bytes) {
  MutexLock lock(outermost_.mu_);
  const Budget* part = nullptr;
  for (const Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    const int64_t available = Available(*budget, part, bytes);
    if (budget->is_part()) part = budget;
    // The whole's message tells more than a part's.
    if (bytes <= available || budget->account_ != nullptr) continue;
    if (budget->group_ != nullptr && budget->group_->most_bytes() >= budget->limit_) continue;
    const int64_t kept = budget->left() - available;
    const std::string holders = HoldersOf(*budget);
    return OverLimit(budget->flag_, "memory of ", budget->name_, ": ", bytes, " bytes wanted, ", budget->counted(), " of ",
                     budget->limit(), " in use", holders.empty() ? "" : absl::StrCat(" (", holders, ")"),
                     kept == 0 ? "" : absl::StrCat(", ", kept, " kept for clients that hold little"),
                     "; free some, or "
                     "raise ",
                     budget->flag_);
  }
  for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    const int64_t used = budget->used_.fetch_add(bytes, std::memory_order_acq_rel) + bytes;
    budget->peak_.store(std::max(budget->peak(), used), std::memory_order_relaxed);
    if (budget->is_part()) budget->holder().held_.fetch_add(bytes, std::memory_order_relaxed);
  }
  MakeRoom(outermost_.limit_ - outermost_.used());
  return absl::OkStatus();
}

void Budget::Refund(int64_t bytes) {
  for (Budget* budget = this; budget != nullptr; budget = budget->parent_.get()) {
    budget->used_.fetch_sub(bytes, std::memory_order_acq_rel);
    if (budget->is_part()) budget->holder().held_.fetch_sub(bytes, std::memory_order_relaxed);
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
