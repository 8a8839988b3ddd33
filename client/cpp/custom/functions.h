// Functions that this program has computed and that a backward pass may come back to (gluond/function.h). For its gradient the server
// calls this program with the function's number, until it says that no backward pass can reach the function any more.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_FUNCTIONS_H_
#define GLUOND_CLIENT_CPP_CUSTOM_FUNCTIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "gluond/ndarray.h"

namespace gluond::client {

struct FunctionParts;

struct RecordedFunction {
  std::shared_ptr<const FunctionParts> parts;
  std::vector<NDArray> arguments;
  NDArray result;
};

// Keeps the function, and returns its number.
uint64_t KeepFunction(RecordedFunction function);
void ReleaseFunction(uint64_t number);
// The gradients of those arguments that are wanted; others are not defined. FAILED_PRECONDITION: the function is not kept any more, or
// has no derivative.
absl::StatusOr<std::vector<NDArray>> FunctionGradients(uint64_t number, const NDArray& gradient, const std::vector<bool>& wanted);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_FUNCTIONS_H_
