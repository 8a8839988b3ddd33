// WaitFor begins a function of a model and waits for its end. Neither a lane's thread nor gRPC's may call it.
//
//   RETURN_IF_ERROR(WaitFor([&](auto done) { hosted->Restore(std::move(checkpoint), std::move(done)); }));

#ifndef SERVER_HOSTED_WAIT_FOR_H_
#define SERVER_HOSTED_WAIT_FOR_H_

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace gluond::server {

inline absl::Status WaitFor(const std::function<void(std::function<void(absl::Status)> done)>& begin) {
  const auto ended = std::make_shared<std::promise<absl::Status>>();
  begin([ended](absl::Status status) { ended->set_value(std::move(status)); });
  return ended->get_future().get();
}

}  // namespace gluond::server

#endif  // SERVER_HOSTED_WAIT_FOR_H_
