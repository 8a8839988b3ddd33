#include "client/cpp/custom/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/custom/guarded.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

std::mutex registry_mutex;
std::map<std::string, RegisteredOpPtr>& Registry() {
  static auto* registry = new std::map<std::string, RegisteredOpPtr>;
  return *registry;
}
uint64_t registrations = 0;  // Guarded by registry_mutex.

absl::Status CheckNames(const std::string& op, const std::vector<std::string>& names, const char* method) {
  for (const std::string& name : names) {
    if (name.empty() || name.find_first_of(",;") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(method, "() of custom operator '", op, "' must list names without `,` and `;`, not '", name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RegisteredOpPtr FindRegistered(const std::string& name) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  const auto found = Registry().find(name);
  return found == Registry().end() ? nullptr : found->second;
}

Registration AddRegistered(const std::string& name, CustomOpClass kind, bool shared) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  RegisteredOpPtr& place = Registry()[name];
  Registration made;
  made.before = place;
  made.now = std::make_shared<const RegisteredOp>(RegisteredOp{name, std::move(kind), shared, registrations++});
  place = made.now;
  return made;
}

void TakeBack(const Registration& registration) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  const auto found = Registry().find(registration.now->name);
  if (found == Registry().end() || found->second != registration.now) return;
  if (registration.before == nullptr) {
    Registry().erase(found);
  } else {
    found->second = registration.before;
  }
}

absl::StatusOr<std::unique_ptr<CustomOpProp>> MakeProp(const RegisteredOp& registered, const KeywordArguments& arguments) {
  std::unique_ptr<CustomOpProp> prop;
  OwnError error;
  GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(registered.name, "'s prop"), &error, [&] {
    prop = registered.kind.make(arguments);
    return prop == nullptr ? absl::InvalidArgumentError("there is no prop") : absl::OkStatus();
  }));
  return prop;
}

absl::StatusOr<v1::CustomOperatorSpec> SpecOf(const RegisteredOp& registered, const CustomOpProp& prop) {
  v1::CustomOperatorSpec spec;
  spec.set_op_type(registered.name);
  spec.set_shared(registered.shared);
  spec.set_version(registered.version);
  std::vector<std::string> arguments, outputs, states;
  OwnError error;
  GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(registered.name, "'s prop"), &error, [&] {
    arguments = prop.ListArguments();
    outputs = prop.ListOutputs();
    states = prop.ListAuxiliaryStates();
    return absl::OkStatus();
  }));
  GLUOND_RETURN_IF_ERROR(CheckNames(registered.name, arguments, "ListArguments"));
  GLUOND_RETURN_IF_ERROR(CheckNames(registered.name, outputs, "ListOutputs"));
  GLUOND_RETURN_IF_ERROR(CheckNames(registered.name, states, "ListAuxiliaryStates"));
  std::vector<std::string> inputs = arguments;
  inputs.insert(inputs.end(), states.begin(), states.end());
  std::sort(inputs.begin(), inputs.end());
  if (const auto twice = std::adjacent_find(inputs.begin(), inputs.end()); twice != inputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("custom operator '", registered.name, "' has several inputs of the name '",
                                                   *twice, "'; ListArguments() and ListAuxiliaryStates() must name each once"));
  }
  if (outputs.empty()) return absl::InvalidArgumentError(absl::StrCat("custom operator '", registered.name, "' has no output"));
  for (const std::string& name : arguments) spec.add_arguments(name);
  for (const std::string& name : outputs) spec.add_outputs(name);
  for (const std::string& name : states) spec.add_auxiliary(name);
  spec.set_same_shape(registered.kind.same_shape && states.empty() && !arguments.empty());
  spec.set_same_dtype(registered.kind.same_dtype && !arguments.empty());
  // Places: gradients of outputs, then arguments, then outputs.
  const int m = static_cast<int>(arguments.size()), n = static_cast<int>(outputs.size());
  std::vector<int> out_grad(outputs.size()), in_data(arguments.size()), out_data(outputs.size());
  std::iota(out_grad.begin(), out_grad.end(), 0);
  std::iota(in_data.begin(), in_data.end(), n);
  std::iota(out_data.begin(), out_data.end(), n + m);
  std::vector<int> read;
  GLUOND_RETURN_IF_ERROR(Guarded(absl::StrCat(registered.name, ".DeclareBackwardDependency"), &error, [&] {
    read = prop.DeclareBackwardDependency(out_grad, in_data, out_data);
    return absl::OkStatus();
  }));
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  if (!read.empty() && (read.front() < 0 || read.back() >= 2 * n + m)) {
    return absl::InvalidArgumentError(absl::StrCat("DeclareBackwardDependency() of custom operator '", registered.name,
                                                   "' must give numbers of those that it was given, 0 to ", 2 * n + m - 1));
  }
  if (static_cast<int>(read.size()) == 2 * n + m) return spec;
  v1::CustomOperatorSpec::Dependencies& dependencies = *spec.mutable_dependencies();
  for (const int place : read) {
    if (place < n) {
      dependencies.add_out_grads(static_cast<uint32_t>(place));
    } else if (place < n + m) {
      dependencies.add_arguments(static_cast<uint32_t>(place - n));
    } else {
      dependencies.add_outputs(static_cast<uint32_t>(place - n - m));
    }
  }
  return spec;
}

}  // namespace gluond::client
