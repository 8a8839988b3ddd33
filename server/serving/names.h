// Names of the things that are served.

#ifndef SERVER_SERVING_NAMES_H_
#define SERVER_SERVING_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "server/identity/tenants.h"

namespace gluond::server {

// Labels that a served model has at most.
inline constexpr size_t kMostLabels = 64;

// `tenants`: those who may have it; null: none. INVALID_ARGUMENT: a name that no served model can have.
absl::Status CheckServedName(const std::string& name, const Tenants* tenants = nullptr);
// INVALID_ARGUMENT: the label is a number, or no name.
absl::Status CheckLabel(const std::string& label);

}  // namespace gluond::server

#endif  // SERVER_SERVING_NAMES_H_
