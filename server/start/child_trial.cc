#include "server/start/child_trial.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gluond::server {
namespace {

// A dying program's last words have several lines.
std::string OneLine(absl::string_view text) {
  constexpr size_t kMostText = 300;
  return absl::CHexEscape(absl::StripSuffix(absl::StrReplaceAll(text.substr(0, kMostText), {{"\n", " "}}), " "));
}

// A file descriptor, closed in the end.
class TrialFile {
 public:
  explicit TrialFile(int file) : file_(file) {}
  ~TrialFile() { Close(); }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;

  int get() const { return file_; }
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  int file_;
};

// The child's part. A line in `told` is the mark that it has come to its end, and the error if it has one. All that the work
// prints goes to `said`. An exception ends it here, and its words are among the last.
[[noreturn]] void WorkInChild(absl::FunctionRef<absl::Status()> work, pid_t parent, int told, int said) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(said, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  const std::string text = absl::StrCat(work().message(), "\n");
  (void)!write(told, text.data(), text.size());
  _exit(0);
}

// Reads the first bytes of what comes, to the end of the child or of the time.
class TrialWatch {
 public:
  TrialWatch(pid_t child, int said) : child_(child), said_(said) {}

  // The child's wait status. -1: it has not ended within the time, and was killed.
  int Wait(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) {
        kill(child_, SIGKILL);
        waitpid(child_, &status, 0);
        return -1;
      }
      Read(/*milliseconds=*/2);
    }
    while (Read(0)) continue;
    return status;
  }
  const std::string& text() const { return text_; }

 private:
  bool Read(int milliseconds) {
    pollfd wanted{said_, POLLIN, 0};
    char bytes[4096];
    if (poll(&wanted, 1, milliseconds) <= 0 || (wanted.revents & POLLIN) == 0) return false;
    const ssize_t n = read(said_, bytes, sizeof(bytes));
    if (n <= 0) return false;
    if (text_.size() < sizeof(bytes)) text_.append(bytes, static_cast<size_t>(n));
    return ++reads_ < kMostReads;
  }

  static constexpr int kMostReads = 1 << 20;
  const pid_t child_;
  const int said_;
  std::string text_;
  int reads_ = 0;
};

absl::Status Died(int status, const std::string& said, std::chrono::milliseconds time) {
  const std::string words = said.empty() ? "" : absl::StrCat("; it said: ", OneLine(said));
  const auto failed = [&words](const auto&... how) { return absl::FailedPreconditionError(absl::StrCat(how..., words)); };
  if (status == -1) return failed("it was not loaded within ", time.count(), " ms");
  if (!WIFSIGNALED(status)) return failed("it ends the process, with status ", WEXITSTATUS(status), ", while it is loaded");
  const int number = WTERMSIG(status);
  return failed("it crashes while it is loaded (signal ", number, ", ", strsignal(number), ")");
}

}  // namespace

absl::Status TryInChild(absl::FunctionRef<absl::Status()> work, std::chrono::milliseconds time) {
  const TrialFile told(memfd_create("gluond-trial", MFD_CLOEXEC));
  int ends[2] = {-1, -1};
  const auto no_child = [] { return absl::UnavailableError(absl::StrCat("no child process can try it: ", strerror(errno))); };
  if (told.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) return no_child();
  const TrialFile said(ends[0]);
  TrialFile says(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return no_child();
  if (child == 0) WorkInChild(work, parent, told.get(), says.get());
  says.Close();
  TrialWatch watch(child, said.get());
  const int status = watch.Wait(time);
  std::string text(4096, '\0');
  const ssize_t n = pread(told.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (status != 0 || text.empty()) return Died(status, watch.text(), time);
  return text == "\n" ? absl::OkStatus() : absl::FailedPreconditionError(absl::StripSuffix(text, "\n"));
}

}  // namespace gluond::server
