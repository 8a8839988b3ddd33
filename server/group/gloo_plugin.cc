#include "server/group/gloo_plugin.h"

#include <dlfcn.h>

#include <csignal>

#include "engine/core/status_macros.h"
#include "server/start/plugin_file.h"

namespace gluond::server {

absl::StatusOr<GlooTransportMaker> LoadGloo(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, FindPlugin(path, "--gloo_plugin", "libgluond_gloo.so", "group/gloo"));
  void* const plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return Unavailable("no ring: ", dlerror(), "; apt-get install libgloo0");
  const auto maker = reinterpret_cast<GlooTransportMaker>(dlsym(plugin, kGlooTransport));
  if (maker == nullptr) return Unavailable("no ring: '", file, "' is no plugin of this server's version: ", dlerror());
  std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to peers that may be gone.
  return maker;
}

}  // namespace gluond::server
