// A peer that resets its calls without an end, or has too many for too long, is named, once.

#include "server/net/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gluond::server {
namespace {

class PeersTest : public ::testing::Test {
 protected:
  PeersTest() {
    peers_.Guard(256, [this](const std::string& name, absl::string_view) { ended_.push_back(name); });
  }

  Peers peers_;
  Peer peer_{"ipv4:10.0.0.7:41014"};
  std::vector<std::string> ended_;
};

TEST_F(PeersTest, ResetsWithoutAnEndEndTheConnectionOnce) {
  for (int i = 0; i < 5000; ++i) peers_.WasReset(peer_);
  EXPECT_EQ(ended_, std::vector<std::string>{"ipv4:10.0.0.7:41014"});
}

TEST_F(PeersTest, AsManyCallsAsMayBeUnderWayMayBeReset) {
  for (int i = 0; i < 256; ++i) peers_.WasReset(peer_);
  EXPECT_TRUE(ended_.empty());
}

TEST_F(PeersTest, CallsThatAreNeverSentCountForMore) {
  for (int i = 0; i < 64; ++i) peers_.WasNeverSent(peer_);
  EXPECT_TRUE(ended_.empty());
  for (int i = 64; i < 256; ++i) peers_.WasNeverSent(peer_);
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(PeersTest, CallsThatAreLateCountForLess) {
  for (int i = 0; i < 2000; ++i) peers_.WasLate(peer_);
  EXPECT_TRUE(ended_.empty());
  for (int i = 2000; i < 5000; ++i) peers_.WasLate(peer_);
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(PeersTest, AnswersThatAreNotReadCountWhereTheyAreTooManyForTooLong) {
  const auto peer = std::make_shared<Peer>("ipv4:10.0.0.9:41014");
  std::vector<std::unique_ptr<Guest>> guests;
  const auto answer = [&](int count) {
    for (int i = 0; i < count; ++i) {
      guests.push_back(std::make_unique<Guest>(peers_, peer));
      guests.back()->Leave();
    }
  };
  answer(8 * 256);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  answer(1);
  EXPECT_TRUE(ended_.empty()) << "for a moment there may seem to be more";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  answer(2);
  EXPECT_EQ(ended_, std::vector<std::string>{"ipv4:10.0.0.9:41014"});
}

TEST_F(PeersTest, EachPeerIsCountedByItself) {
  for (int i = 0; i < 400; ++i) {
    Peer other("ipv4:10.0.0.8:41014");
    for (int k = 0; k < 10; ++k) peers_.WasReset(other);
  }
  EXPECT_TRUE(ended_.empty());
}

}  // namespace
}  // namespace gluond::server
