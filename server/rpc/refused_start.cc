#include "server/rpc/refused_start.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/rpc/log.h"

namespace gluond::server {
namespace {

constexpr std::chrono::seconds kTime{2};

// Takes text for std::cerr, which tells it to write on after each piece of a line.
class Lines final : public std::stringbuf {
 private:
  int sync() override {
    const std::string text = str();
    const size_t end = text.rfind('\n') + 1;  // 0: no line is whole.
    for (const absl::string_view line : absl::StrSplit(absl::string_view(text).substr(0, end), '\n', absl::SkipEmpty())) {
      LogRefusedStart(absl::StripPrefix(line, "ERROR: "));
    }
    str(text.substr(end));
    pubseekoff(0, std::ios_base::end, std::ios_base::out);
    return 0;
  }
};

}  // namespace

std::string LineOfRefusedStart(absl::string_view why) {
  if (isatty(STDERR_FILENO) == 1) return absl::StrCat("gluond-server: ", why, "\n");
  return EventLine("start_refused", LogLevel::kError, why);
}

void LogRefusedStart(absl::string_view why) {
  LogToStderr({LineOfRefusedStart(why), /*is_kept=*/true});
  FlushLogs(kTime);  // The process ends.
}

void WithRefusalsOfFlags(absl::FunctionRef<void()> parse) {
  static Lines& lines = *new Lines;  // Abseil may end the process within `parse`.
  std::streambuf* const before = std::cerr.rdbuf(&lines);
  parse();
  std::cerr.rdbuf(before);
}

}  // namespace gluond::server
