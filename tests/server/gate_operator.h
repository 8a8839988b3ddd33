// An operator that computes as soon as the test opens its gate: `_test_gate`, y = x. For one file of a test.

#ifndef TESTS_SERVER_GATE_OPERATOR_H_
#define TESTS_SERVER_GATE_OPERATOR_H_

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/runtime/account.h"

namespace gluond::server {

// What the operator does: it waits while the gate is closed, and notes whose work it is.
class Gate {
 public:
  static Gate& Get() {
    static Gate gate;
    return gate;
  }
  void Set(bool closed) {
    std::lock_guard lock(mu_);
    closed_ = closed;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mu_);
    const AccountPtr& account = CurrentAccount();
    if (account != nullptr) groups_.insert(account->group() == nullptr ? "" : account->group()->name());
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
  }
  void WaitForOne() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return came_ > 0; });
  }
  // The groups of the accounts that have come since the last call; "": none.
  std::set<std::string> TakeGroups() {
    std::lock_guard lock(mu_);
    came_ = 0;
    return std::exchange(groups_, {});
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool closed_ = false;
  int came_ = 0;
  std::set<std::string> groups_;
};

inline absl::Status PassGate(const NodeAttrs&, const OpContext&, absl::Span<const TBlob> inputs, absl::Span<const OpReqType>,
                             absl::Span<const TBlob> outputs) {
  Gate::Get().Pass();
  std::memcpy(outputs[0].data, inputs[0].data, inputs[0].bytes());
  return absl::OkStatus();
}

namespace {

GLUOND_REGISTER_OP(_test_gate)
    .describe("y = x, as soon as the test's gate is open.")
    .add_argument("data", "NDArray", "Any shape.")
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FCompute>("FCompute<cpu>", PassGate);

}  // namespace
}  // namespace gluond::server

#endif  // TESTS_SERVER_GATE_OPERATOR_H_
