// gluond serve: becomes gluond-server.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"

namespace gluond::cli {
namespace {

constexpr char kServer[] = "gluond-server";

std::vector<std::string> Candidates() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  // Beside this program where it is installed, and where Bazel puts it.
  std::vector<std::string> paths = {here / kServer, here / "../../server" / kServer};
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (!folder.empty()) paths.push_back(absl::StrCat(folder, "/", kServer));
  }
  return paths;
}

std::optional<std::string> FindServer() {
  for (const std::string& path : Candidates()) {
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

}  // namespace

absl::Status Serve(const Arguments& arguments) {
  const bool help = std::find(arguments.begin(), arguments.end(), "--help") != arguments.end() ||
                    std::find(arguments.begin(), arguments.end(), "-h") != arguments.end();
  if (help) {
    std::cout << "Usage: gluond serve [OPTION]...\n\n"
                 "Starts gluond-server in place of this command; Ctrl-C or SIGTERM stops it. All "
                 "options\n"
                 "are the server's own; without any it listens on loopback only. Often used:\n\n"
                 "  --address=HOST:PORT   where to listen; port 0 takes a free one\n"
                 "  --port_file=FILE      writes the port there\n"
                 "  --store_dir=FOLDER    keeps checkpoints there, and the models for the next start\n"
                 "  --checkpoint_every=500steps,10m   how often models are saved meanwhile\n"
                 "  --devices=LIST        auto, cpu or gpu:0\n"
                 "  --group=HOST:PORT     trains models together with other servers: leads there, or joins\n"
                 "  --serve=FILE          versions to serve, in YAML; SIGHUP has it read again\n"
                 "  --check               checks the flags and files, and ends\n\n"
                 "`gluond-server --help` lists them all.\n";
    return absl::OkStatus();
  }
  const std::optional<std::string> server = FindServer();
  if (!server.has_value()) {
    return absl::NotFoundError(
        "gluond-server was found neither beside this command nor in ../../server nor on PATH. "
        "Build it "
        "(`bazel build -c opt //server:gluond-server`) or put its folder on PATH.");
  }
  std::vector<char*> argv = {const_cast<char*>(server->c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::cout.flush();
  execv(server->c_str(), argv.data());
  return absl::InternalError(absl::StrCat(*server, " cannot be started: ", std::strerror(errno)));
}

}  // namespace gluond::cli
