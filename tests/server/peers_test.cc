// A peer that resets its calls without an end, or leaves too many answers unread, is named, once.

#include "server/net/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/net/network.h"

namespace gluond::server {
namespace {

class PeersTest : public ::testing::Test {
 protected:
  PeersTest() {
    peers_.Guard(256, [this](const std::string& name, Ending) { ended_.push_back(name); });
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

// A call that is cancelled before it is sent counts as both.
TEST_F(PeersTest, FiveHundredCallsMayBeCancelledBeforeTheyAreSent) {
  const auto cancel = [this](int calls) {
    for (int i = 0; i < calls; ++i) {
      peers_.WasReset(peer_);
      peers_.WasNeverSent(peer_);
    }
  };
  cancel(500);
  EXPECT_TRUE(ended_.empty());
  cancel(1000);
  EXPECT_EQ(ended_.size(), 1u) << "they count for more than those that were sent";
}

TEST_F(PeersTest, ThreeThousandCallsMayBeLate) {
  for (int i = 0; i < 3000; ++i) peers_.WasLate(peer_);
  EXPECT_TRUE(ended_.empty());
  for (int i = 3000; i < 20'000; ++i) peers_.WasLate(peer_);
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(PeersTest, CallsThatAreOpenEndNoConnection) {
  const auto peer = std::make_shared<Peer>("ipv4:10.0.0.9:41014");
  std::vector<std::unique_ptr<Guest>> guests;
  for (int i = 0; i < 3000; ++i) guests.push_back(std::make_unique<Guest>(peers_, peer));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(Guest(peers_, peer).MayStay().ok());
  guests.resize(100);
  EXPECT_TRUE(Guest(peers_, peer).MayStay().ok());
  EXPECT_TRUE(ended_.empty());
}

TEST_F(PeersTest, APeerIsRenewedWhenAllItsCallsAreYoungerThanTheLastTime) {
  const auto peer = std::make_shared<Peer>("ipv4:10.0.0.9:41014");
  EXPECT_FALSE(peer->IsRenewed()) << "the headers of its first call may be under way";
  auto old = std::make_unique<Guest>(peers_, peer);
  EXPECT_TRUE(peer->IsRenewed()) << "it has begun since";
  const Guest young(peers_, peer);
  EXPECT_FALSE(peer->IsRenewed());
  old->End();
  EXPECT_FALSE(peer->IsRenewed()) << "gRPC may have something of it still";
  old = nullptr;
  EXPECT_TRUE(peer->IsRenewed());
  EXPECT_FALSE(peer->IsRenewed());
}

TEST_F(PeersTest, WhoWasAnsweredJustNowIsBusyAsWhoHasACallOpen) {
  const auto peer = std::make_shared<Peer>("ipv4:10.0.0.9:41014");
  const auto after = [](int seconds) { return std::chrono::steady_clock::now() + std::chrono::seconds(seconds); };
  EXPECT_FALSE(peer->IsBusy(after(0)));
  Guest guest(peers_, peer);
  EXPECT_TRUE(peer->IsBusy(after(60)));
  guest.Leave();
  EXPECT_TRUE(peer->IsBusy(after(0)));
  EXPECT_FALSE(peer->IsBusy(after(60)));
}

TEST(NetworkTest, IsAnAddressOfVersionFourAndHalfAnAddressOfVersionSix) {
  for (const auto& [peer, network] :
       std::vector<std::pair<std::string, std::string>>{{"ipv4:10.0.0.7:41014", "ipv4:10.0.0.7"},
                                                        {"ipv6:%5B2001:db8:0:1::7%5D:41014", "ipv6:2001:db8:0:1::/64"},
                                                        {"ipv6:%5B2001:db8:0:1:ffff:1:2:3%5D:1", "ipv6:2001:db8:0:1::/64"},
                                                        {"ipv6:%5B2001:db8:0:2::7%5D:41014", "ipv6:2001:db8:0:2::/64"},
                                                        {"ipv6:%5B::1%5D:41014", "ipv6:::/64"},
                                                        {"ipv6:%5Bfe80::1%252%5D:41014", "ipv6:fe80::/64"},
                                                        {"ipv6:%5Bnone%5D:41014", "ipv6:%5Bnone%5D"},
                                                        {"unix:", "unix"},
                                                        {"", ""}}) {
    EXPECT_EQ(NetworkOf(peer), network);
    EXPECT_EQ(Peer(peer).address(), network);
  }
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
  answer(8 * 256 - 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  answer(2);
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
