// Budget: bytes that may be in use at once. Charged before memory is allocated, refunded when it is freed. A budget
// may lie within another one: a model's within the server's. Thread-safe.
//
//   auto server = std::make_shared<Budget>("the server", 8 << 30, "--max_tensor_bytes");
//   auto model = std::make_shared<Budget>("model 'lenet'", 1 << 30, "--max_model_bytes", server);
//   RETURN_IF_ERROR(model->Charge(bytes));  // Charges both, or neither.
//
// Accounts share a budget by parts of it, Budget::PartOf(server). The last eighth of the whole is for parts that hold
// less than an equal share of the budget. The last half of that eighth is for parts that hold less than a 256th. So a
// few that take all they can get leave the others something. A part counts all that its owner holds of the outermost
// budget, by whichever budget within it. The accounts of a group share the part of their group, which may have a lower
// limit of its own.

#ifndef ENGINE_RUNTIME_BUDGET_H_
#define ENGINE_RUNTIME_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/runtime/account.h"

namespace gluond {

class Budget {
 public:
  // The message of a refusal names the budget, and the flag that sets its limit.
  Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent = nullptr);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // The part of `whole` that is the calling thread's account's; `whole` itself for a thread without an account.
  static std::shared_ptr<Budget> PartOf(const std::shared_ptr<Budget>& whole);

  // RESOURCE_EXHAUSTED names this budget or the one around it that is used up, the bytes wanted, used and allowed,
  // the largest holders, and the flag. Nothing is charged then.
  absl::Status Charge(int64_t bytes);
  // Requires: `bytes` were charged.
  void Refund(int64_t bytes);

  // The part of used() that the group's accounts have charged.
  int64_t UsedBy(const AccountGroup& group) const;
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // The most that was in use at once.
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t limit() const { return group_ == nullptr ? limit_ : std::min(limit_, group_->most_bytes()); }

  // The largest holders of the outermost budget, by those within it: "model 'lenet' 1.5 GiB, the session 20 MiB, 3 x
  // the session of another connection 2.0 MiB". Empty where there are none.
  std::string Holders() const;

 private:
  bool is_part() const { return account_ != nullptr || group_ != nullptr; }
  // The owner's part of the outermost budget; the budget itself, if it is no part.
  const Budget& holder() const { return all_ == nullptr ? *this : *all_; }
  Budget& holder() { return all_ == nullptr ? *this : *all_; }
  // The bytes of its limit() that are in use: for a group all that the group holds.
  int64_t counted() const { return group_ == nullptr ? used() : holder().held_.load(std::memory_order_relaxed); }
  // The bytes that nobody has taken of it yet.
  int64_t left() const { return std::min(limit() - counted(), limit_ - used()); }
  // `other`, or another part of the same owner, is around this budget.
  bool IsWithin(const Budget& other) const;
  // It is the calling thread's account's, or no account's.
  bool IsOwn() const;
  // The group that it belongs to, by the account or the group around it; null: none.
  const AccountGroup* Owners() const;
  // Its name in the list of holders.
  std::string Holder() const;
  // Holders of `whole`, which is this budget or one around it.
  std::string HoldersOf(const Budget& whole) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(outermost_.mu_);
  // The bytes that `budget`, this one or one around it, has now for `part`, the outermost part within it of those around
  // the charge, which wants `bytes` more. Null: there is none.
  int64_t Available(const Budget& budget, const Budget* part, int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(outermost_.mu_);

  const std::string name_;
  const int64_t limit_;
  const std::string flag_;
  const std::shared_ptr<Budget> parent_;
  const AccountPtr account_;           // The owner of this part of the parent, or
  const AccountGroupPtr group_;        // the owners; null, both: it is no part.
  const std::shared_ptr<Budget> all_;  // See holder(); null: itself.
  Budget& outermost_;
  mutable Mutex mu_;               // The outermost budget's is everybody's: a charge sees no half of another one.
  std::atomic<int64_t> used_ = 0;  // Added to with the lock.
  std::atomic<int64_t> peak_ = 0;  // Written with the lock.
  std::atomic<int64_t> held_ = 0;  // The owner's bytes, of holder(). Added to with the lock.
  absl::flat_hash_set<const Budget*> within_ ABSL_GUARDED_BY(mu_);  // All, of the outermost.
  // By the address of their owners.
  absl::flat_hash_map<const void*, std::weak_ptr<Budget>> parts_ ABSL_GUARDED_BY(outermost_.mu_);
  size_t tidy_at_ ABSL_GUARDED_BY(outermost_.mu_) = 64;

  // A part. One of the owners is null.
  Budget(std::shared_ptr<Budget> whole, AccountPtr account, AccountGroupPtr group, std::shared_ptr<Budget> all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(whole->outermost_.mu_);
  static std::shared_ptr<Budget> PartLocked(const std::shared_ptr<Budget>& whole, const AccountPtr& account,
                                            const AccountGroupPtr& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(whole->outermost_.mu_);
};

// Bytes charged to a budget, refunded at the end.
class Reservation {
 public:
  Reservation() = default;  // Charges nobody.
  explicit Reservation(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  Reservation(Reservation&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reservation() { Shrink(bytes_); }

  // Charges `bytes` more. As Budget::Charge.
  absl::Status Grow(int64_t bytes);
  // Requires: so many are charged.
  void Shrink(int64_t bytes);
  // Charges or refunds, in steps, so that at least `bytes` are charged and not much more. Fails as Budget::Charge; the
  // charge is then as before.
  absl::Status Cover(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Budget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BUDGET_H_
