// A numeric check of an operator's gradient: sum_i dy[i] y[i], differentiated by the operator's own rule and by central
// differences, both in float64 on the CPU.

#ifndef SERVER_SERVICES_GRADIENT_CHECK_H_
#define SERVER_SERVICES_GRADIENT_CHECK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/node_attrs.h"
#include "engine/core/tensor.h"
#include "engine/runtime/cancellation.h"
#include "gluond/v1/operator.pb.h"
#include "server/hosted/devices.h"

namespace gluond::server {

struct GradientCheckOptions {
  std::string op;
  AttrDict attrs;
  std::vector<Tensor> inputs;  // On the host. Inputs of a floating type are differentiated.
  double epsilon = 1e-6;       // The step of the central difference.
  double tolerance = 1e-5;     // The largest error that passes.
  uint64_t seed = 0;
  std::shared_ptr<Cancellation> cancellation;
};

// `done` is called once. It may be called from this thread. Compiles, so not for a gRPC thread.
void StartGradientCheck(Place& place, GradientCheckOptions options,
                        std::function<void(absl::StatusOr<v1::CheckGradientResponse>)> done);

}  // namespace gluond::server

#endif  // SERVER_SERVICES_GRADIENT_CHECK_H_
