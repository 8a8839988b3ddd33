#include "engine/core/interruption.h"

namespace gluond {
namespace {

thread_local const InterruptionScope* innermost = nullptr;

}  // namespace

InterruptionScope::InterruptionScope(absl::FunctionRef<absl::Status()> check) : check_(check), outer_(innermost) {
  innermost = this;
}

InterruptionScope::~InterruptionScope() { innermost = outer_; }

absl::Status CheckInterrupted() { return innermost == nullptr ? absl::OkStatus() : innermost->check_(); }

}  // namespace gluond
