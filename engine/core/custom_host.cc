#include "engine/core/custom_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FAbandon, "FAbandon");
GLUOND_DECLARE_OP_ATTR(FCustomOperator, "FCustomOperator");

namespace {
thread_local const ScopedCustomHost* current = nullptr;
}

ScopedCustomHost::ScopedCustomHost(CustomHostPtr host, std::string scope)
    : host_(std::move(host)), scope_(std::move(scope)), before_(std::exchange(current, this)) {}
ScopedCustomHost::~ScopedCustomHost() { current = before_; }

const ScopedCustomHost* ScopedCustomHost::Current() { return current; }

absl::StatusOr<CustomHost*> HostOf(const CustomOperator& op) {
  if (op.is_unknown_clients) {
    return absl::FailedPreconditionError(
        absl::StrCat("custom operator '", op.op_type,
                     "' is one client's own, and no credential says whose (OpenSession.host, "
                     "DefineModelRequest.host), as where the graph comes from a checkpoint; define the model with its client's "
                     "credential and load the checkpoint into it, or share the operator (OfferOperator.shared) and say so "
                     "(CustomOperatorSpec.shared)"));
  }
  if (op.host != nullptr) return op.host.get();
  return absl::UnavailableError(absl::StrCat("nobody computes the custom operator '", op.op_type, "' here"));
}

}  // namespace gluond
