#include "server/durable/turns.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "engine/core/mutex.h"

namespace gluond::server {
namespace {

class TurnsTest : public testing::Test {
 protected:
  void Run(
      const std::string& name, const std::string& account, std::function<void()> work = [] {}) {
    const ScopedAccount scope(std::make_shared<const Account>(account));
    turns_.Run(name, [this, work = std::move(work), account] {
      work();
      MutexLock lock(mu_);
      done_.push_back(account);
      accounts_.push_back(CurrentAccount() == nullptr ? "" : CurrentAccount()->name());
    });
  }

  Runner runner_{Limits(), [](absl::string_view) {}, std::make_shared<Budget>("the test", 1 << 20, "--none")};
  Turns turns_{runner_};
  Mutex mu_;
  std::vector<std::string> done_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> accounts_ ABSL_GUARDED_BY(mu_);
};

TEST_F(TurnsTest, WorkOfANameComesInOrderAndIsItsCallersWhoeverHadTheTurnBefore) {
  std::promise<void> go;
  const std::shared_future<void> may_go = go.get_future().share();
  Run("x", "ann", [may_go] { may_go.wait(); });
  for (const char* account : {"bob", "ann", "cid", "bob"}) Run("x", account);
  go.set_value();
  turns_.Stop();
  const MutexLock lock(mu_);
  EXPECT_EQ(done_, (std::vector<std::string>{"ann", "bob", "ann", "cid", "bob"}));
  EXPECT_EQ(accounts_, done_);
}

TEST_F(TurnsTest, OneNameDoesNotWaitForAnother) {
  std::promise<void> go;
  Run("x", "ann", [&] { go.get_future().wait(); });
  Run("y", "bob", [&] { go.set_value(); });
  turns_.Stop();  // Else it would not return.
  const MutexLock lock(mu_);
  EXPECT_EQ(done_.size(), 2u);
}

}  // namespace
}  // namespace gluond::server
