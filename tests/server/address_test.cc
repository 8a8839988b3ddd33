// The addresses that may be listened on without --insecure_public.

#include "server/start/address.h"

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

TEST(Address, ThisMachineOnly) {
  for (const char* address : {"127.0.0.1:50051", "127.9.9.9:1", "localhost:0", "[::1]:50051", "unix:/tmp/s", "unix:s"}) {
    EXPECT_TRUE(IsLocal(address)) << address;
    EXPECT_TRUE(CheckAddress(address, false, false).ok()) << address;
  }
}

TEST(Address, OthersNeedToBeAllowed) {
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", ":50051", "10.0.0.1:1", "127.0.0.1.example.com:1",
                              "127.0.0:1", "localhost.example.com:1", "dns:localhost:1"}) {
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
  for (const char* address : {"", "9100", ":9100", "127.0.0.1", "127.0.0.1:9100s", "127.0.0.1:1,2", "127.0.0.1:99999",
                              "+80:1", "name:1", "unix:s", "::1:9100", "[::1:9100", "127.0.0.1,1.2.3.4:1"}) {
    EXPECT_EQ(CheckMetricsAddress(address, true, true).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace gluond::server
