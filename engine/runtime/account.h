// An Account owns work. Pools of threads (fair_threads.h) share their time between accounts. Work that a thread posts
// is its account's: work inherits the account of the work that began it, through every queue. A server has one account
// for each connection; work without one (nullptr) is the process's own.
//
//   const ScopedAccount scope(peer->account());
//   lane.Post(...);  // The peer's work.
//
// Accounts of one AccountGroup are one to others: pools share their time between groups first, and a budget knows a
// group's own limit. Accounts without a group are one together.

#ifndef ENGINE_RUNTIME_ACCOUNT_H_
#define ENGINE_RUNTIME_ACCOUNT_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace gluond {

// Thread-safe.
class AccountGroup {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  explicit AccountGroup(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  // A group with twice another's share gets twice its time while both have work. More than 0; accounts without a group
  // have 1.
  double share() const { return share_.load(std::memory_order_relaxed); }
  // Bytes that the group may hold of each outermost budget.
  int64_t most_bytes() const { return most_bytes_.load(std::memory_order_relaxed); }
  void Set(double share, int64_t most_bytes) {
    share_.store(share, std::memory_order_relaxed);
    most_bytes_.store(most_bytes, std::memory_order_relaxed);
  }

 private:
  const std::string name_;
  std::atomic<double> share_ = 1;
  std::atomic<int64_t> most_bytes_ = kNoLimit;
};
using AccountGroupPtr = std::shared_ptr<const AccountGroup>;

class Account {
 public:
  explicit Account(std::string name, AccountGroupPtr group = nullptr) : name_(std::move(name)), group_(std::move(group)) {}
  const std::string& name() const { return name_; }
  // Null: it is in none.
  const AccountGroupPtr& group() const { return group_; }

 private:
  const std::string name_;
  const AccountGroupPtr group_;
};
using AccountPtr = std::shared_ptr<const Account>;

// The account of the calling thread.
const AccountPtr& CurrentAccount();

// While it lives, the calling thread works for `account`.
class ScopedAccount {
 public:
  explicit ScopedAccount(AccountPtr account);
  ~ScopedAccount();
  ScopedAccount(const ScopedAccount&) = delete;
  ScopedAccount& operator=(const ScopedAccount&) = delete;

 private:
  AccountPtr before_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_ACCOUNT_H_
