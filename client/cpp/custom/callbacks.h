// Callbacks: the answers to the server's questions: shapes, types, and passes of this program's operators.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_CALLBACKS_H_
#define GLUOND_CLIENT_CPP_CUSTOM_CALLBACKS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/custom/guarded.h"
#include "client/cpp/custom/registry.h"
#include "client/cpp/session/core.h"
#include "gluond/custom_op.h"
#include "gluond/v1/custom_operator.pb.h"

namespace gluond::client {

// An operator object lives from its forward pass to its backward pass. It is found by the number that the server gives the forward
// pass; those that no backward pass has come for are forgotten when there are very many. Thread-safe.
class Callbacks {
 public:
  // The answer, computed with arrays of the session.
  v1::CallbackResult Answer(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session);

 private:
  struct Instance {
    uint64_t number;
    std::shared_ptr<CustomOp> op;
  };

  absl::Status Infer(const v1::Callback& callback, v1::CallbackResult* result, OwnError* error);
  absl::Status Forward(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session, v1::CallbackResult* result,
                       OwnError* error);
  absl::Status Backward(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session, v1::CallbackResult* result,
                        OwnError* error);
  static absl::Status Function(const v1::Callback& callback, const std::shared_ptr<SessionCore>& session,
                               v1::CallbackResult* result, OwnError* error);
  void Add(uint64_t number, std::shared_ptr<CustomOp> op);
  absl::StatusOr<std::shared_ptr<CustomOp>> Find(uint64_t number, const std::string& op_type);

  std::mutex mutex_;
  std::list<Instance> waiting_, used_;  // Guarded by mutex_; the latest last.
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_CALLBACKS_H_
