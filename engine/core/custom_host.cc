#include "engine/core/custom_host.h"

#include <utility>

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FAbandon, "FAbandon");

namespace {
thread_local const ScopedCustomHost* current = nullptr;
}

ScopedCustomHost::ScopedCustomHost(CustomHostPtr host, std::string scope)
    : host_(std::move(host)), scope_(std::move(scope)), before_(std::exchange(current, this)) {}
ScopedCustomHost::~ScopedCustomHost() { current = before_; }

const ScopedCustomHost* ScopedCustomHost::Current() { return current; }

}  // namespace gluond
