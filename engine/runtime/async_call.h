// AsyncCall: one call of a kAsync operator, between the kernel's return and its completion. Thread-safe where
// Completion is; the rest is the lane's. Private to engine/runtime.

#ifndef ENGINE_RUNTIME_ASYNC_CALL_H_
#define ENGINE_RUNTIME_ASYNC_CALL_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/core/op_context.h"

namespace gluond {

// The owner of the run that waits for the call.
class AsyncOwner {
 public:
  virtual ~AsyncOwner() = default;
  // Tells that the call has completed, from any thread, and perhaps after the run has seen so by itself.
  virtual void OnComplete() = 0;
};

class AsyncCall final : public Completion::Receiver {
 public:
  // The operator's right to complete. Until the last copy is gone, the owner lives, and with it the memory that
  // the operator uses. Requires: !in_use().
  static Completion Begin(const std::shared_ptr<AsyncCall>& call, std::shared_ptr<AsyncOwner> owner);

  // Some copy of the Completion lives.
  bool in_use() const { return in_use_.load(std::memory_order_acquire); }
  bool completed() const;
  // Requires: completed().
  absl::Status TakeStatus();
  // The run goes on without the call: its owner is not told of the completion. False: it has completed already.
  bool Abandon();

  void Complete(absl::Status status) override;
  void AddRef() override { copies_.fetch_add(1, std::memory_order_relaxed); }
  void Release() override;

 private:
  std::atomic<int> copies_ = 0;
  std::atomic<bool> in_use_ = false;
  // While in use. Written by Begin and by the last Release only.
  std::shared_ptr<AsyncCall> self_;
  std::shared_ptr<AsyncOwner> owner_;

  mutable Mutex mu_;
  enum { kWaiting, kAbandoned, kCompleted } state_ ABSL_GUARDED_BY(mu_) = kCompleted;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// The calls of one step. An operator may keep a Completion that it has used: then the next call takes another one.
class AsyncCalls {
 public:
  const std::shared_ptr<AsyncCall>& Next() {
    for (const auto& call : calls_)
      if (!call->in_use()) return call;
    return calls_.emplace_back(std::make_shared<AsyncCall>());
  }

 private:
  std::vector<std::shared_ptr<AsyncCall>> calls_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_ASYNC_CALL_H_
