// An Account owns work. Pools of threads (fair_threads.h) share their time between accounts. Work that a thread posts
// is its account's: work inherits the account of the work that began it, through every queue. A server has one account
// for each connection; work without one (nullptr) is the process's own.
//
//   const ScopedAccount scope(peer->account());
//   lane.Post(...);  // The peer's work.

#ifndef ENGINE_RUNTIME_ACCOUNT_H_
#define ENGINE_RUNTIME_ACCOUNT_H_

#include <memory>
#include <string>
#include <utility>

namespace gluond {

class Account {
 public:
  explicit Account(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
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
