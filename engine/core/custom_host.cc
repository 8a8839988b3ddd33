#include "engine/core/custom_host.h"

#include <atomic>

namespace gluond {
namespace {
std::atomic<CustomHost*> the_host = nullptr;
}

CustomHost* GetCustomHost() { return the_host.load(); }
void SetCustomHost(CustomHost* host) { the_host = host; }

}  // namespace gluond
