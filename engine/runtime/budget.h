// Budget: bytes that may be in use at once. Charged before memory is allocated, refunded when it is freed. A budget
// may lie within another one: a model's within the server's. Thread-safe.
//
//   auto server = std::make_shared<Budget>("the server", 8 << 30, "--max_tensor_bytes");
//   auto model = std::make_shared<Budget>("model 'lenet'", 1 << 30, "--max_model_bytes", server);
//   RETURN_IF_ERROR(model->Charge(bytes));  // Charges both, or neither.

#ifndef ENGINE_RUNTIME_BUDGET_H_
#define ENGINE_RUNTIME_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace gluond {

class Budget {
 public:
  // `name` says whose it is and `flag` what sets the limit, for the message of a refusal.
  Budget(std::string name, int64_t limit, std::string flag, std::shared_ptr<Budget> parent = nullptr);

  // RESOURCE_EXHAUSTED names this budget or the one around it that is used up, the bytes wanted, used and allowed,
  // and the flag. Nothing is charged then.
  absl::Status Charge(int64_t bytes);
  // Requires: `bytes` were charged.
  void Refund(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  const std::string name_;
  const int64_t limit_;
  const std::string flag_;
  const std::shared_ptr<Budget> parent_;
  std::atomic<int64_t> used_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BUDGET_H_
