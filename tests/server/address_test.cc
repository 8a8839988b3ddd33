// The addresses that may be listened on without --insecure_public.

#include "server/start/address.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

TEST(Address, ThisMachineOnly) {
  for (const char* address :
       {"127.0.0.1:50051", "127.9.9.9:1", "localhost:0", "[::1]:50051", "unix:/tmp/s", "unix:s", "unix-abstract:s"}) {
    EXPECT_TRUE(IsLocal(address)) << address;
    EXPECT_TRUE(CheckAddress(address, false, false).ok()) << address;
  }
}

TEST(Address, OthersNeedToBeAllowed) {
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", ":50051", "10.0.0.1:1", "127.0.0.1.example.com:1", "127.0.0:1",
                              "localhost.example.com:1", "dns:localhost:1"}) {
    EXPECT_FALSE(IsLocal(address)) << address;
    EXPECT_EQ(CheckAddress(address, false, false).code(), absl::StatusCode::kFailedPrecondition) << address;
    EXPECT_TRUE(CheckAddress(address, false, true).ok()) << address;
    EXPECT_TRUE(CheckAddress(address, true, false).ok()) << address;
  }
}

TEST(Address, WhatIsNoAddressIsRefused) {
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:http"}) {
    EXPECT_EQ(CheckAddress(address, false, true).code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(MetricsAddress, ThisMachineOnly) {
  EXPECT_EQ(*CheckMetricsAddress("localhost:9100", false, false), "127.0.0.1:9100");
  EXPECT_EQ(*CheckMetricsAddress("127.0.0.1:0", false, false), "127.0.0.1:0");
  EXPECT_EQ(*CheckMetricsAddress("[::1]:9100", false, false), "[::1]:9100");
}

TEST(MetricsAddress, OthersNeedATokenOrToBeAllowed) {
  for (const char* address : {"0.0.0.0:9100", "[::]:9100", "10.0.0.1:1"}) {
    EXPECT_EQ(CheckMetricsAddress(address, false, false).status().code(), absl::StatusCode::kFailedPrecondition) << address;
    EXPECT_EQ(*CheckMetricsAddress(address, true, false), address);
    EXPECT_EQ(*CheckMetricsAddress(address, false, true), address);
  }
}

// civetweb would read a list of ports, with letters that mean more.
TEST(MetricsAddress, WhatIsNoNumberIsRefused) {
  for (const char* address : {"", "9100", ":9100", "127.0.0.1", "127.0.0.1:9100s", "127.0.0.1:1,2", "127.0.0.1:99999", "+80:1",
                              "name:1", "unix:s", "::1:9100", "[::1:9100", "127.0.0.1,1.2.3.4:1"}) {
    EXPECT_EQ(CheckMetricsAddress(address, true, true).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(InsecurePublic, IsAListOfPortsOrWhatAFlagWithoutAValueMeans) {
  struct {
    const char* text;
    bool grpc, metrics;
  } const kCases[] = {{"grpc", true, false}, {"metrics", false, true}, {"grpc,metrics", true, true}, {"metrics,grpc", true, true},
                      {"true", true, true},  {"1", true, true},        {"false", false, false},      {"no", false, false}};
  for (const auto& [text, grpc, metrics] : kCases) {
    InsecurePublic flag, again;
    std::string error;
    EXPECT_TRUE(AbslParseFlag(text, &flag, &error)) << text << error;
    EXPECT_TRUE(flag.grpc == grpc && flag.metrics == metrics) << text;
    EXPECT_TRUE(AbslParseFlag(AbslUnparseFlag(flag), &again, &error));
    EXPECT_TRUE(again.grpc == grpc && again.metrics == metrics) << text;
  }
  for (const char* text : {"", "http", "grpc,", "grpc metrics"}) {
    InsecurePublic flag;
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &flag, &error)) << text;
  }
  for (const auto& [argument, expected] :
       {std::pair("--insecure_public", "--insecure_public=true"), std::pair("-insecure_public", "--insecure_public=true"),
        std::pair("--noinsecure_public", "--insecure_public=false"), std::pair("--insecure_public=grpc", "--insecure_public=grpc"),
        std::pair("insecure_public", "insecure_public"), std::pair("", "")}) {
    EXPECT_STREQ(WithValue(argument), expected);
  }
}

}  // namespace
}  // namespace gluond::server
