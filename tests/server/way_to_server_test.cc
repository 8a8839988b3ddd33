// WayToServer: what a server shows another one, and that no proxy of the environment's stands between them.

#include "server/rpc/way_to_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

using testing::HasSubstr;

class WayToServerTest : public testing::Test {
 protected:
  static std::string File(const std::string& name, const std::string& text) {
    const std::string path = std::filesystem::path(testing::TempDir()) / name;
    std::ofstream(path) << text;
    return path;
  }
  // Why there is no way.
  static std::string Refusal(const WayToServer::Options& options) {
    const absl::StatusOr<WayToServer> way = WayToServer::Open(options);
    EXPECT_EQ(way.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(way.status().message());
  }
};

TEST_F(WayToServerTest, FilesThatAreNoneAreNamedByTheirFlags) {
  const std::string empty = File("empty", "\n"), nothing = File("nothing", ""), token = File("token", "secret\n");
  for (const std::string flag : {"--follow", "--group"}) {
    WayToServer::Options options = {.flag = flag, .address = "127.0.0.1:1", .authority = "", .token_file = empty};
    EXPECT_THAT(Refusal(options), HasSubstr(absl::StrCat(flag, "_token_file=", empty, " has no token")));
    options.token_file = "/nowhere";
    EXPECT_THAT(Refusal(options), HasSubstr(absl::StrCat(flag, "_token_file=/nowhere")));
    options = {.flag = flag, .address = "192.0.2.1:1", .authority = nothing, .token_file = token};
    EXPECT_THAT(Refusal(options), HasSubstr(absl::StrCat(flag, "_ca=", nothing, " is empty")));
    options.authority = "";
    EXPECT_THAT(Refusal(options), HasSubstr("in clear"));
    options.address = "127.0.0.1:1";
    EXPECT_TRUE(WayToServer::Open(options).ok());
  }
}

TEST_F(WayToServerTest, ItGoesThroughNoProxyOfTheEnvironment) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  grpc::AsyncGenericService none;
  builder.RegisterAsyncGenericService(&none);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  setenv("http_proxy", "http://127.0.0.1:9", /*overwrite=*/1);
  const absl::StatusOr<WayToServer> way =
      WayToServer::Open({.flag = "--group", .address = absl::StrCat("127.0.0.1:", port), .authority = "", .token_file = ""});
  ASSERT_TRUE(way.ok()) << way.status();
  EXPECT_TRUE(way->channel()->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  unsetenv("http_proxy");
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) continue;
}

}  // namespace
}  // namespace gluond::server
