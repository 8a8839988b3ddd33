#include "server/start/operator_libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "ops/library/operator_library.h"

namespace gluond::server {
namespace {

constexpr char kSymbol[] = "gluond_operator_library";

// The loader's texts and a dying program's have several lines.
std::string OneLine(absl::string_view text) {
  constexpr size_t kMostText = 300;
  return Excerpt(absl::StripSuffix(absl::StrReplaceAll(text, {{"\n", " "}}), " "), kMostText);
}

absl::StatusOr<std::vector<std::string>> Load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // Its operators stay until exit, and so does it.
  if (library == nullptr) return FailedPrecondition("it cannot be loaded: ", OneLine(dlerror()));
  const auto* const symbol = static_cast<const gluond_op_library*>(dlsym(library, kSymbol));
  if (symbol != nullptr) return ops::RegisterOperators(*symbol, path);
  return FailedPrecondition("it has no symbol ", kSymbol, "; define it by GLUOND_OPERATOR_LIBRARY of gluond_op.h");
}

// A file descriptor, closed in the end.
class LibraryFile {
 public:
  explicit LibraryFile(int file) : file_(file) {}
  ~LibraryFile() { Close(); }
  LibraryFile(const LibraryFile&) = delete;
  LibraryFile& operator=(const LibraryFile&) = delete;

  int get() const { return file_; }
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  int file_;
};

// What the child does: its last byte to `told` is a mark that it has come so far. All that the library prints goes to `said`.
[[noreturn]] void LoadInChild(const std::string& path, pid_t parent, int told, int said) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(said, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  const absl::StatusOr<std::vector<std::string>> loaded = Load(path);
  const std::string text = absl::StrCat(loaded.ok() ? "" : loaded.status().message(), "\n");
  (void)!write(told, text.data(), text.size());
  _exit(0);
}

// Reads the first bytes of what comes, to the end of the child or of the time.
class LibraryWatch {
 public:
  LibraryWatch(pid_t child, int said) : child_(child), said_(said) {}

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
  if (status == -1) return FailedPrecondition("it was not loaded within ", time.count(), " ms", words);
  if (WIFSIGNALED(status)) {
    return FailedPrecondition("it crashes while it is loaded (signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)), ")", words);
  }
  return FailedPrecondition("it ends the process, with status ", WEXITSTATUS(status), ", while it is loaded", words);
}

// Loads the library in a child process.
absl::Status Try(const std::string& path, std::chrono::milliseconds time) {
  const LibraryFile told(memfd_create("gluond-operator-library", MFD_CLOEXEC));
  int ends[2] = {-1, -1};
  if (told.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) return Unavailable("no child process can load it: ", strerror(errno));
  const LibraryFile said(ends[0]);
  LibraryFile says(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return Unavailable("no child process can load it: ", strerror(errno));
  if (child == 0) LoadInChild(path, parent, told.get(), says.get());
  says.Close();
  LibraryWatch watch(child, said.get());
  const int status = watch.Wait(time);
  std::string text(4096, '\0');
  const ssize_t n = pread(told.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (status != 0 || text.empty()) return Died(status, watch.text(), time);
  return text == "\n" ? absl::OkStatus() : absl::FailedPreconditionError(absl::StripSuffix(text, "\n"));
}

absl::StatusOr<std::vector<std::string>> TryAndLoad(const std::string& path, std::chrono::milliseconds time) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return NotFound("there is no such file");
  RETURN_IF_ERROR(Try(path, time));
  return Load(path);
}

}  // namespace

absl::StatusOr<std::vector<OperatorLibrary>> LoadOperatorLibraries(const std::vector<std::string>& paths,
                                                                   std::chrono::milliseconds time) {
  std::vector<OperatorLibrary> libraries;
  for (const std::string& path : paths) {
    // A name without a folder would be looked for in the system's.
    const std::string absolute = std::filesystem::absolute(path);
    absl::StatusOr<std::vector<std::string>> names = TryAndLoad(absolute, time);
    if (!names.ok()) return Annotate(names.status(), absl::StrCat("--operator_library=", Excerpt(path)));
    libraries.push_back({absolute, *std::move(names)});
  }
  return libraries;
}

}  // namespace gluond::server
