// Rings within a process: the contract, and what only the fake can be told, delays and deaths. gloo_ring_test.cc has the same
// contract over Gloo.

#include <net/if.h>

#include <atomic>

#include "server/group/ring_address.h"
#include "server/group/ring_reducer.h"
#include "tests/server/ring_contract.h"

namespace gluond::server {
namespace {

INSTANTIATE_TEST_SUITE_P(Fake, RingTest, RingsOf([]() -> std::unique_ptr<RingNetwork> { return std::make_unique<FakeNetwork>(); }));

class FakeRingTest : public testing::Test {
 protected:
  void FormAll(int64_t size) {
    for (int64_t rank = 0; rank < size; ++rank) {
      auto ring = Ring::Form({.rank = rank, .size = size, .generation = "1", .key = std::string(32, 'k')},
                             network_.Transport(static_cast<int>(rank), 0), texts_->Rendezvous(), nullptr);
      ASSERT_TRUE(ring.ok());
      rings_.push_back(*std::move(ring));
    }
    for (auto& ring : rings_) ASSERT_EQ(ring->Wait(), absl::OkStatus());
  }

  FakeNetwork network_;
  std::shared_ptr<FakeTexts> texts_ = std::make_shared<FakeTexts>();
  std::vector<std::unique_ptr<Ring>> rings_;
};

TEST_F(FakeRingTest, GoesOnWhileTheCallerDoes) {
  FormAll(2);
  network_.Delay(1, milliseconds(500));
  std::vector<std::vector<float>> rows(2, {1, 2, 3});
  std::atomic<int> ended = 0;
  for (int i = 0; i < 2; ++i) rings_[i]->Start(ViewOf(rows[i]), [&ended](absl::Status) { ++ended; });
  EXPECT_EQ(ended, 0);
  for (auto& ring : rings_) ASSERT_EQ(ring->Wait(), absl::OkStatus());
  EXPECT_EQ(ended, 2);
  EXPECT_THAT(rows[1], testing::ElementsAre(2, 4, 6));
}

TEST_F(FakeRingTest, FailsEverywhereWhereverARankDies) {
  for (int messages = 0; messages < 6; ++messages) {  // A sum of eight ranks has six.
    network_ = FakeNetwork();
    texts_ = std::make_shared<FakeTexts>();
    FormAll(8);
    network_.Kill(5, messages);
    std::vector<std::vector<float>> rows(8, std::vector<float>(64));
    // The ranks that have no more to do with the dead one may be done with the first.
    for (int sum = 0; sum < 2; ++sum) {
      for (int i = 0; i < 8; ++i) rings_[i]->Start(ViewOf(rows[i]));
    }
    for (auto& ring : rings_) EXPECT_EQ(ring->Wait().code(), absl::StatusCode::kUnavailable) << messages;
    rings_.clear();
  }
}

// A rank names the one that it waits for. In a ring of more than two, a third may have taken that one along.
TEST_F(FakeRingTest, NamesTheRankThatDies) {
  FormAll(2);
  network_.Kill(1);
  std::vector<std::vector<float>> rows(2, std::vector<float>(64));
  for (int i = 0; i < 2; ++i) rings_[i]->Start(ViewOf(rows[i]));
  for (auto& ring : rings_) EXPECT_EQ(ring->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rings_[0]->unreached(), 1);
}

// One step of each rank, whose buckets have so many elements: what its Finish tells, and whether that is the ring's failure.
TEST_F(FakeRingTest, AReducerComparesWhatItsStepsWillAdd) {
  FormAll(4);
  using Told = std::pair<absl::Status, bool>;
  const auto step = [this](const std::string& model, const std::vector<int64_t>& elements) {
    std::vector<std::vector<float>> rows;
    std::vector<std::shared_ptr<RingReducer>> reducers;
    for (size_t i = 0; i < rings_.size(); ++i) {
      rows.emplace_back(static_cast<size_t>(elements[i]), 1.0f);
      reducers.push_back(std::make_shared<RingReducer>(*rings_[i], model));
      reducers[i]->Begin({{DType::kFloat32, nullptr, elements[i]}});
      reducers[i]->Start({DType::kFloat32, rows[i].data(), elements[i]});
    }
    std::vector<Told> told;
    for (const auto& reducer : reducers) {
      std::promise<absl::Status> end;
      reducer->Finish([&end](absl::Status status) { end.set_value(std::move(status)); });
      const absl::Status status = end.get_future().get();
      told.emplace_back(status, reducer->has_failed());
    }
    if (told[0].first.ok()) {
      EXPECT_THAT(rows[3], testing::Each(4.0f));
    }
    return told;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(step("same", {8, 8, 8, 8}), testing::Each(Told(absl::OkStatus(), false)));
  }
  const std::vector<Told> told = step("other", {8, 8, 7, 8});
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].first.code(), i == 2 ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable);
    EXPECT_EQ(told[i].second, i != 2) << i;
  }
  EXPECT_THAT(std::string(told[2].first.message()), testing::HasSubstr("the gradients of other have other buckets in rank 2"));
}

// Join carries texts of some kilobytes, whatever the number of buckets.
TEST_F(FakeRingTest, ComparesLongLayoutsByACode) {
  FormAll(2);
  std::vector<float> values(100);
  std::vector<GradientBucket> many(1000, ViewOf(values)), other = many;
  other.back().elements = 99;
  for (auto& ring : rings_) ring->Compare("many", many);
  for (auto& ring : rings_) EXPECT_EQ(ring->Wait(), absl::OkStatus());
  EXPECT_LT(texts_->longest(), 4096u);
  rings_[0]->Compare("other", many);
  rings_[1]->Compare("other", other);
  EXPECT_EQ(rings_[1]->Wait().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Ring, OfOneNeedsNobody) {
  bool formed = false;
  auto ring = Ring::Form({}, nullptr, nullptr, [&](absl::Status status) { formed = status.ok(); });
  ASSERT_TRUE(ring.ok());
  std::vector<double> values{1, 2};
  (*ring)->Compare("any", {ViewOf(values)});
  (*ring)->Start(ViewOf(values));
  EXPECT_EQ((*ring)->Wait(), absl::OkStatus());
  EXPECT_TRUE(formed);
  EXPECT_THAT(values, testing::ElementsAre(1, 2));
}

TEST(Ring, SaysWhichOptionIsWrong) {
  const std::string key(32, 'k');
  for (const auto& [options, why] : std::vector<std::pair<Ring::Options, std::string>>{
           {{.size = 3, .key = key}, "a power of two"},
           {{.size = 0, .key = key}, "a power of two"},
           {{.size = 128, .key = key}, "at most 64"},
           {{.size = 64, .spares = 1, .key = key}, "at most 64"},
           {{.size = 2, .spares = 2, .key = key}, "fewer spares"},
           {{.size = 2, .spares = -1, .key = key}, "fewer spares"},
           {{.rank = 2, .size = 2, .key = key}, "no rank of 2 is 2"},
           {{.rank = -1, .size = 2, .key = key}, "no rank of 2 is -1"},
           {{.size = 2, .key = "short"}, "a key of 32"},
           {{.size = 2, .key = key}, "needs a transport"},
       }) {
    const auto ring = Ring::Form(options, nullptr, nullptr, nullptr);
    EXPECT_EQ(ring.status().code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(ring.status().message(), testing::HasSubstr(why));
  }
}

TEST(Ring, HasANewKeyEachTime) {
  const auto a = Ring::NewKey(), b = Ring::NewKey();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size(), Ring::kKeyBytes);
  EXPECT_NE(*a, *b);
}

TEST(RingAddress, KnowsPrivateOnes) {
  for (const char* address : {"127.0.0.1", "10.255.0.1", "172.16.0.1", "172.31.255.255", "192.168.3.4", "100.64.0.1", "100.127.0.1",
                              "::1", "fc00::1", "fdff::1"}) {
    EXPECT_TRUE(IsPrivateAddress(address)) << address;
  }
  for (const char* address : {"8.8.8.8", "11.0.0.1", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.63.0.1", "100.128.0.1",
                              "0.0.0.0", "::", "2001:db8::1", "fe80::1", "localhost", ""}) {
    EXPECT_FALSE(IsPrivateAddress(address)) << address;
  }
}

TEST(RingAddress, IsThisMachinesByAnyOfItsNames) {
  // Debian's /etc/hosts has 127.0.1.1 for the machine's own name.
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "[::1]"}) EXPECT_TRUE(IsOwnHost(host).value()) << host;
  EXPECT_FALSE(IsOwnHost("192.0.2.1").value());
  const absl::StatusOr<bool> unknown = IsOwnHost("nobody.invalid");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(unknown.status().message(), testing::HasSubstr("--group_role"));
}

TEST(RingAddress, IsOfAPrivateNetworkThatIsHere) {
  EXPECT_EQ(RingAddress("lo", false).value(), "127.0.0.1");
  EXPECT_EQ(RingAddress("127.0.0.1", false).value(), "127.0.0.1");
  struct if_nameindex* const all = if_nameindex();
  for (auto* each = all; each->if_index != 0; ++each) {
    const auto address = RingAddress(each->if_name, true);
    if (!address.ok()) continue;  // An interface without an address.
    const auto private_one = RingAddress(each->if_name, false);
    EXPECT_EQ(private_one.ok(), IsPrivateAddress(*address)) << *address;
    if (private_one.ok()) continue;
    EXPECT_THAT(private_one.status().message(), testing::HasSubstr("give --group_insecure"));
  }
  if_freenameindex(all);
  for (const char* place : {"", "8.8.8.8", "no-such-interface"}) {
    EXPECT_EQ(RingAddress(place, true).status().code(), absl::StatusCode::kInvalidArgument) << place;
  }
}

}  // namespace
}  // namespace gluond::server
