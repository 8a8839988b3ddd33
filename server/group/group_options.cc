#include "server/group/group_options.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

absl::Status ParseGroupSize(absl::string_view text, GroupOptions* options) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const bool is_size =
      parts.size() <= 2 && absl::SimpleAtoi(parts.front(), &options->min) && absl::SimpleAtoi(parts.back(), &options->max);
  if (is_size) return absl::OkStatus();
  return Invalid("--group_size is '", text,
                 "'; want MIN:MAX, the processes without which no step runs and the most that may join, as 2:4");
}

}  // namespace gluond::server
