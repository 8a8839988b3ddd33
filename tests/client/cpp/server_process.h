// ServerProcess: gluond-server as a process, on one store and, from the second start on, on one port.

#ifndef GLUOND_TESTS_CLIENT_CPP_SERVER_PROCESS_H_
#define GLUOND_TESTS_CLIENT_CPP_SERVER_PROCESS_H_

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

extern char** environ;

namespace gluond::client {

class ServerProcess {
 public:
  ServerProcess() {
    std::string pattern = testing::TempDir() + "/server_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~ServerProcess() {
    Kill();
    std::filesystem::remove_all(folder_);
  }
  ServerProcess(const ServerProcess&) = delete;

  // Returns when it serves.
  void Start(const std::vector<std::string>& flags) {
    const std::string port_file = folder_ + "/port";
    std::filesystem::remove(port_file);
    std::vector<std::string> words = {"server/gluond-server", "--address=" + address(),   "--devices=cpu",
                                      "--cpu_threads=1",      "--port_file=" + port_file, "--store_dir=" + folder_ + "/store"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ), 0);
    while (!std::filesystem::exists(port_file)) {
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "the server has not started";
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::ifstream(port_file) >> port_;
  }
  void Kill(int signal = SIGKILL) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  std::string folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace gluond::client

#endif  // GLUOND_TESTS_CLIENT_CPP_SERVER_PROCESS_H_
