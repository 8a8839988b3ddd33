#include "engine/core/start_thread.h"

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gluond {
namespace {

std::string (*line_of_no_thread)(absl::string_view why) = [](absl::string_view why) { return absl::StrCat(why, "\n"); };

}  // namespace

void SetLineOfNoThread(std::string (*line)(absl::string_view why)) { line_of_no_thread = line; }

bool TryToStart(std::thread* thread, std::function<void()> body) {
  try {
    *thread = std::thread(std::move(body));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void StartOrExit(std::thread* thread, absl::string_view what, std::function<void()> body) {
  if (TryToStart(thread, std::move(body))) return;
  const std::string line = line_of_no_thread(absl::StrCat("cannot start the thread of ", what,
                                                          ": the process has all threads that it may have; raise the limit "
                                                          "(ulimit -u, or a container's pids.max)"));
  (void)!write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

}  // namespace gluond
