#include "engine/runtime/await_fact.h"

#include <utility>

#include "engine/core/pending_fact.h"

namespace gluond {
namespace {

// Everything but OnCancel happens on the lane.
class Waiter final : public Cancellation::Listener, public std::enable_shared_from_this<Waiter> {
 public:
  Waiter(Lane& lane, std::shared_ptr<Cancellation> cancellation, std::function<void(absl::Status)> then)
      : lane_(lane), cancellation_(std::move(cancellation)), then_(std::move(then)) {}

  void Begin() {
    if (cancellation_ == nullptr) return;
    if (!cancellation_->Listen(this)) return OnCancel();
    if (cancellation_->deadline() != Cancellation::Clock::time_point::max()) {
      lane_.DoAt(cancellation_->deadline(), &deadline_);
    }
  }

  // From any thread.
  void Post() {
    const ScopedAccount account(account_);
    lane_.Post([self = shared_from_this()] { self->End(); });
  }
  void OnCancel() override { Post(); }

 private:
  class Deadline final : public Work {
   public:
    explicit Deadline(Waiter* waiter) : waiter_(waiter) {}
    void Do() override { waiter_->Post(); }

   private:
    Waiter* const waiter_;
  };

  void End() {
    if (then_ == nullptr) return;
    absl::Status status;
    if (cancellation_ != nullptr) {
      status = cancellation_->Check();
      cancellation_->Unlisten(this);
      lane_.Forget(&deadline_);
    }
    std::exchange(then_, nullptr)(status);
  }

  Lane& lane_;
  const AccountPtr account_ = CurrentAccount();
  const std::shared_ptr<Cancellation> cancellation_;
  std::function<void(absl::Status)> then_;  // Null: done.
  Deadline deadline_{this};
};

}  // namespace

bool AwaitFactOnLane(const absl::Status& status, Lane& lane, std::shared_ptr<Cancellation> cancellation,
                     std::function<void(absl::Status)> then) {
  const auto waiter = std::make_shared<Waiter>(lane, std::move(cancellation), std::move(then));
  if (!AwaitFact(status, [waiter] { waiter->Post(); })) return false;
  waiter->Begin();
  return true;
}

}  // namespace gluond
