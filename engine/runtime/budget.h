// Budget: bytes that may be in use at once. Charged before memory is allocated, refunded when it is freed. A budget
// may lie within another one: a model's within the server's. Thread-safe.
//
//   auto server = std::make_shared<Budget>("the server", 8 << 30, "--max_tensor_bytes");
//   auto model = std::make_shared<Budget>("model 'lenet'", 1 << 30, "--max_model_bytes", server);
//   RETURN_IF_ERROR(model->Charge(bytes));  // Charges both, or neither.
//
// Accounts share a budget by parts of it, Budget::PartOf(server): no part may take the last eighth of the whole, but those
// that hold less than an equal share of it; and of that eighth the last half is for those that hold less than a 256th. So a
// few that take all they can get leave the others something.

#ifndef ENGINE_RUNTIME_BUDGET_H_
#define ENGINE_RUNTIME_BUDGET_H_

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
  // `name` says whose it is and `flag` what sets the limit, for the message of a refusal.
  Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent = nullptr);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // The part of `whole` that is the calling thread's account's; `whole` itself for a thread without an account.
  static std::shared_ptr<Budget> PartOf(const std::shared_ptr<Budget>& whole);

  // RESOURCE_EXHAUSTED names this budget or the one around it that is used up, the bytes wanted, used and allowed,
  // who holds most of them, and the flag. Nothing is charged then.
  absl::Status Charge(int64_t bytes);
  // Requires: `bytes` were charged.
  void Refund(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // The most that was in use at once.
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

  // Who holds most of the outermost budget, by those within it: "model 'lenet' 1.5 GiB, the session 20 MiB, 3 x the session
  // of another connection 2.0 MiB". Empty where there are none.
  std::string Holders() const;

 private:
  bool IsWithin(const Budget& other) const;
  // Of the calling thread's account, or of none.
  bool IsOwn() const;
  // What it is called among those that hold something.
  std::string Holder() const;
  // Holders of `whole`, which is this budget or one around it.
  std::string HoldersOf(const Budget& whole) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(outermost_.mu_);
  // The bytes that `budget`, this one or one around it, has now for `within`, a part or a budget of its own within
  // it that wants `bytes` more. Null: for itself.
  int64_t Available(const Budget& budget, const Budget* within, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(outermost_.mu_);

  const std::string name_;
  const int64_t limit_;
  const std::string flag_;
  const std::shared_ptr<Budget> parent_;
  const AccountPtr account_;  // Whose part of the parent it is; null: it is no part.
  Budget& outermost_;
  mutable Mutex mu_;  // The outermost budget's is everybody's: a charge sees no half of another one.
  std::atomic<int64_t> used_ = 0;  // Added to with the lock.
  std::atomic<int64_t> peak_ = 0;  // Written with the lock.
  absl::flat_hash_set<const Budget*> within_ ABSL_GUARDED_BY(mu_);  // All, of the outermost.
  absl::flat_hash_map<const Account*, std::weak_ptr<Budget>> parts_ ABSL_GUARDED_BY(outermost_.mu_);
  size_t tidy_at_ ABSL_GUARDED_BY(outermost_.mu_) = 64;

  Budget(std::shared_ptr<Budget> whole, AccountPtr account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(whole->outermost_.mu_);
};

// Bytes charged to a budget, refunded at the end.
class Reservation {
 public:
  Reservation() = default;  // Of nothing.
  explicit Reservation(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  Reservation(Reservation&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
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
  // Charges or refunds, in steps, so that at least `bytes` are charged and not much more. As Budget::Charge; then at
  // least what was charged stays so.
  absl::Status Cover(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Budget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BUDGET_H_
