#include "gluond/function.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/custom/functions.h"
#include "client/cpp/custom/guarded.h"
#include "client/cpp/custom/host.h"
#include "client/cpp/session/core.h"
#include "client/cpp/session/mode.h"
#include "gluond/autograd.h"
#include "gluond/status_macros.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::client {

struct FunctionParts {
  std::string name;
  Function::Body body;
  std::mutex mutex;
  std::map<int, Function::Derivative> derivatives;  // Guarded by mutex.
};

namespace {

std::mutex functions_mutex;
std::map<uint64_t, std::shared_ptr<const RecordedFunction>>& KeptFunctions() {
  static auto* functions = new std::map<uint64_t, std::shared_ptr<const RecordedFunction>>;
  return *functions;
}
uint64_t last_function = 0;  // Guarded by functions_mutex.

}  // namespace

uint64_t KeepFunction(RecordedFunction function) {
  std::lock_guard<std::mutex> lock(functions_mutex);
  KeptFunctions()[++last_function] = std::make_shared<const RecordedFunction>(std::move(function));
  return last_function;
}

void ReleaseFunction(uint64_t number) {
  std::shared_ptr<const RecordedFunction> released;  // Freed without the lock.
  std::lock_guard<std::mutex> lock(functions_mutex);
  const auto found = KeptFunctions().find(number);
  if (found == KeptFunctions().end()) return;
  released = std::move(found->second);
  KeptFunctions().erase(found);
}

absl::StatusOr<std::vector<NDArray>> FunctionGradients(uint64_t number, const NDArray& gradient, const std::vector<bool>& wanted) {
  std::shared_ptr<const RecordedFunction> function;
  {
    std::lock_guard<std::mutex> lock(functions_mutex);
    const auto found = KeptFunctions().find(number);
    if (found != KeptFunctions().end()) function = found->second;
  }
  if (function == nullptr) return absl::FailedPreconditionError("a recorded function is gone; it belongs to another process");
  std::vector<NDArray> gradients(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    Function::Derivative derivative;
    {
      FunctionParts& parts = const_cast<FunctionParts&>(*function->parts);
      std::lock_guard<std::mutex> lock(parts.mutex);
      const auto found = parts.derivatives.find(static_cast<int>(i));
      if (found != parts.derivatives.end()) derivative = found->second;
    }
    if (!derivative) {
      return absl::FailedPreconditionError(absl::StrCat(function->parts->name, " has no derivative by its argument ", i,
                                                        ": give it one (DefGrad), or detach the argument"));
    }
    gradients[i] = derivative(gradient, function->result, function->arguments);
  }
  return gradients;
}

Function::Function(Body body, std::string name) : parts_(std::make_shared<FunctionParts>()) {
  parts_->body = std::move(body);
  parts_->name = std::move(name);
}

const Function& Function::DefGrad(Derivative derivative, int argument) const {
  std::lock_guard<std::mutex> lock(parts_->mutex);
  parts_->derivatives[argument] = std::move(derivative);
  return *this;
}

NDArray Function::operator()(const std::vector<NDArray>& arguments, Place place) const {
  NDArray result;
  OwnError error;
  const absl::Status status = Guarded(parts_->name, &error, [&] {
    const autograd::Scope pause(false, autograd::IsTraining());
    result = parts_->body(arguments);
    return absl::OkStatus();
  });
  if (!status.ok()) return NDArray::Failed(status, place);
  if (!autograd::IsRecording() || arguments.empty()) return result;
  std::vector<NDArray> inputs = arguments;
  inputs.push_back(result);
  const auto session = SessionOf(parts_->name, inputs);
  if (!session.ok()) return NDArray::Failed(session.status(), place);
  const absl::Status open = (*session)->host().Open();
  if (!open.ok()) return NDArray::Failed(open, place);
  v1::CustomOperatorSpec spec;
  spec.mutable_function()->set_number(KeepFunction({parts_, arguments, result}));
  spec.mutable_function()->set_inputs(static_cast<uint32_t>(arguments.size()));
  spec.mutable_function()->set_outputs(1);
  return InvokeCustom("_CustomFunction", inputs, {}, 1, &spec, place)[0];
}

}  // namespace gluond::client
