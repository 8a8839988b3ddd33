// gRPC hands no connection's work to its default executor, where the work would wait behind others' floods.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "proto/server.grpc.pb.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

// How often the kernel has switched between other threads and those of this process that have the name.
int64_t Switches(const std::string& name) {
  int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm, word;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm != name) continue;
    std::ifstream status(task.path() / "status");
    while (status >> word) {
      if (!word.ends_with("voluntary_ctxt_switches:")) continue;
      int64_t count = 0;
      status >> count;
      sum += count;
    }
  }
  return sum;
}

class CombinerThreadsTest : public ServiceTest {
 protected:
  void Configure(ServerOptions* options) override { options->address = "127.0.0.1:0"; }

  // The switches of the executor's threads during many short calls at once.
  int64_t SwitchesOfCalls() {
    const auto stub = v1::ServerService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
    const int64_t before = Switches("default-executo");
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&stub] {
        for (int i = 0; i < kCalls; ++i) {
          grpc::ClientContext context;
          v1::GetServerInfoResponse response;
          EXPECT_TRUE(stub->GetServerInfo(&context, {}, &response).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const int64_t after = Switches("default-executo");
    EXPECT_GT(after, 0) << "gRPC has no such thread any more";
    return after - before;
  }

  static constexpr int kThreads = 8, kCalls = 500;
};

// There is a handful of switches where the connections' work stays away from the executor, and else there are hundreds.
// On a busy machine gRPC has other work for its threads, too, now and then.
TEST_F(CombinerThreadsTest, TheExecutorIsNotUsed) {
  int64_t least = SwitchesOfCalls();
  for (int round = 0; round < 4 && least >= kThreads * kCalls / 100; ++round) least = std::min(least, SwitchesOfCalls());
  EXPECT_LT(least, kThreads * kCalls / 100);
}

}  // namespace
}  // namespace gluond::server
