// Values between memory and the session.

#ifndef GLUOND_CLIENT_CPP_SESSION_TRANSFER_H_
#define GLUOND_CLIENT_CPP_SESSION_TRANSFER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/session/core.h"
#include "gluond/tensor.h"

namespace gluond::client {

struct Kind {
  Shape shape;
  DType dtype;
};

// Gives the name a value, in pieces where no message holds it.
absl::Status Put(SessionCore& session, uint64_t name, DType dtype, const Shape& shape, absl::string_view bytes,
                 const std::string& device, Place place);
// Waits for the value.
absl::StatusOr<Tensor> Fetch(SessionCore& session, uint64_t name, Place place);
absl::StatusOr<Kind> Describe(SessionCore& session, uint64_t name, Place place);
// Gives the value of `from` to the name `to`.
absl::Status AssignTo(SessionCore& session, uint64_t to, uint64_t from, const std::string& device, bool recording, Place place);
// The first element, of any dtype. Requires one.
double FirstOf(const Tensor& tensor);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_TRANSFER_H_
