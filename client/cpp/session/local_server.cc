#include "client/cpp/session/local_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gluond/status_macros.h"

extern char** environ;

namespace gluond::client {
namespace {

constexpr absl::Duration kStart = absl::Seconds(60);
// $0: the server's folder. $@: its command. The keeper, a part of the shell, reads from the pipe until this program is gone, and
// then ends the group of both. The server is never without a keeper, and no reused process number is ever ended.
constexpr char kScript[] =
    "exec 3<&0 </dev/null >\"$0/log\" 2>&1\n"
    "{ read -r _; /bin/rm -rf \"$0\"; kill -9 0; } <&3 >/dev/null 2>&1 &\n"
    "exec \"$@\" 3<&-";
// A socket's path has 107 bytes at most; the folder may have the rest.
constexpr size_t kLongestFolder = 107 - sizeof("/gluond-123456/socket");

bool CanRun(const std::string& path) {
  struct stat file;
  return !path.empty() && stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0;
}

absl::StatusOr<std::string> FindServer() {
  if (const char* named = getenv("GLUOND_SERVER"); named != nullptr && *named != '\0') {
    if (CanRun(named)) return std::string(named);
    return absl::NotFoundError(absl::StrCat("GLUOND_SERVER=", named, " is no program that can be run"));
  }
  const char* path = getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    std::string program = absl::StrCat(folder, "/gluond-server");
    if (CanRun(program)) return program;
  }
  return absl::NotFoundError(
      "there is no gluond-server to start: it was looked for at GLUOND_SERVER and on PATH. Install it, or use a running one: "
      "GLUOND_ADDRESS=host:port, or Session::Connect(\"host:port\")");
}

// The ends of pipes that a forked child closes, so that the servers end with this process.
std::mutex& ForkMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::set<int>& Pipes() {
  static auto* pipes = new std::set<int>;
  return *pipes;
}
void InChild() {
  for (const int pipe : Pipes()) close(pipe);
  Pipes().clear();
  ForkMutex().unlock();
}

bool Answers(const std::string& path) {
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client < 0) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const bool answers = connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(client);
  return answers;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LocalServer>> LocalServer::Start() {
  static const bool watches_forks = pthread_atfork([] { ForkMutex().lock(); }, [] { ForkMutex().unlock(); }, InChild) == 0;
  (void)watches_forks;
  GLUOND_ASSIGN_OR_RETURN(const std::string binary, FindServer());
  std::shared_ptr<LocalServer> server(new LocalServer);
  std::error_code error;
  std::string parent = std::filesystem::temp_directory_path(error).string();
  if (error || parent.size() > kLongestFolder) parent = "/tmp";
  std::string folder = absl::StrCat(parent, "/gluond-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("a local server needs a folder for its socket, and none can be made in ", parent, ": ", std::strerror(errno)));
  }
  server->folder_ = folder;
  server->address_ = absl::StrCat("unix:", folder, "/socket");
  server->owner_ = getpid();
  std::vector<std::string> words = {"/bin/sh",          "-c", kScript, folder, binary, absl::StrCat("--address=", server->address_),
                                    "--drain_seconds=0"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  {
    std::lock_guard<std::mutex> lock(ForkMutex());
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0)
      return absl::UnavailableError(absl::StrCat("no pipe for a local server: ", std::strerror(errno)));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, pipe[0], 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // Ctrl-C is for the program, not for its server.
    const int failure = posix_spawn(&server->process_, "/bin/sh", &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pipe[0]);
    server->keeper_ = pipe[1];
    Pipes().insert(pipe[1]);
    if (failure != 0) {
      server->process_ = -1;
      return absl::UnavailableError(absl::StrCat("a local server cannot be started: ", std::strerror(failure)));
    }
  }
  const absl::Time deadline = absl::Now() + kStart;
  while (!Answers(folder + "/socket")) {
    GLUOND_RETURN_IF_ERROR(server->Check());
    if (absl::Now() > deadline) {
      return absl::UnavailableError(absl::StrCat("the local server ", binary, " did not start:\n", server->LastLines()));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return server;
}

LocalServer::~LocalServer() {
  if (owner_ != getpid()) return;  // In a forked child: the server is the parent's.
  if (process_ > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!HasEnded()) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  if (keeper_ >= 0) {
    std::lock_guard<std::mutex> lock(ForkMutex());
    Pipes().erase(keeper_);
    close(keeper_);
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

bool LocalServer::HasEnded() {
  has_ended_ = has_ended_ || waitpid(process_, nullptr, WNOHANG) == process_;
  return has_ended_;
}

absl::Status LocalServer::Check() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!HasEnded()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the local server has ended. Its last lines:\n", LastLines()));
}

std::string LocalServer::LastLines() const {
  std::ifstream log(folder_ + "/log");
  std::deque<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    lines.push_back(line);
    if (lines.size() > 20) lines.pop_front();
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace gluond::client
