#include "engine/core/custom_host.h"

#include <utility>

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FAbandon, "FAbandon");

namespace {
thread_local const CustomHostPtr* current = nullptr;
}

ScopedCustomHost::ScopedCustomHost(const CustomHostPtr& host) : before_(std::exchange(current, &host)) {}
ScopedCustomHost::~ScopedCustomHost() { current = before_; }

CustomHostPtr CurrentCustomHost() { return current == nullptr ? nullptr : *current; }

}  // namespace gluond
