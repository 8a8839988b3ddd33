#include "server/start/plugin_file.h"

#include <filesystem>

#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {

absl::StatusOr<std::string> FindPlugin(const std::string& path, absl::string_view flag, absl::string_view name,
                                       absl::string_view folder) {
  std::error_code error;
  if (!path.empty()) {
    if (std::filesystem::is_regular_file(path, error)) return path;
    return Unavailable(flag, ": there is no file '", Excerpt(path), "'");
  }
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const absl::string_view each : {absl::string_view(), absl::string_view("../lib"), folder}) {
    const std::filesystem::path candidate = here / std::string(each) / std::string(name);
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.string();
  }
  return Unavailable(flag, ": ", name, " is neither beside this program nor in ../lib or ", folder, "; build it, or name its file");
}

}  // namespace gluond::server
