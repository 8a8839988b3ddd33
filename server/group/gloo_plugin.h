// Loads libgluond_gloo.so, so that a server without a group needs none of Gloo's libraries.

#ifndef SERVER_GROUP_GLOO_PLUGIN_H_
#define SERVER_GROUP_GLOO_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/group/ring_transport.h"

namespace gluond::server {

// Empty `path`: looked for beside this program, in ../lib, and in group/gloo. The plugin stays until the process ends. From now on
// SIGPIPE is ignored. UNAVAILABLE: the file is not there, or it cannot be loaded, or it is of another version.
absl::StatusOr<GlooTransportMaker> LoadGloo(const std::string& path);

}  // namespace gluond::server

#endif  // SERVER_GROUP_GLOO_PLUGIN_H_
