// Whose a shared operator's name is, without streams. tests/server/custom_owner_test.cc has the same with clients, models and
// published versions.

#include "server/custom/shared_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/custom/hosts.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps what it is told.
class Channel final : public HostChannel {
 public:
  void Send(const v1::HostResponse& response) override { told.MergeFrom(response); }
  void SendCall(uint64_t call) override { calls.push_back(call); }
  void Replaced() override { is_replaced = true; }

  v1::HostResponse told;
  std::vector<uint64_t> calls;
  bool is_replaced = false;
};

class SharedOperatorsTest : public testing::Test {
 protected:
  using Offered = CustomHosts::Offered;

  std::shared_ptr<Channel> Open(const std::string& identity, const std::string& scope, bool is_admin = false,
                                const std::string& tenant = "") {
    auto channel = std::make_shared<Channel>();
    hosts_->Attach(tenant + scope, channel, {}, {tenant, identity, is_admin});
    return channel;
  }
  absl::StatusOr<Offered> Share(const std::shared_ptr<Channel>& channel, const std::string& name = "square") {
    v1::OfferOperator offer;
    offer.set_op_type(name);
    offer.set_shared(true);
    return hosts_->Offer(channel.get(), offer);
  }
  // Who is asked about a shared operator.
  bool IsAsked(const std::shared_ptr<Channel>& channel, const std::string& owner = "", const std::string& tenant = "") {
    const size_t before = channel->calls.size();
    CustomOperator op;
    op.scope = tenant;
    op.op_type = "square";
    op.owner = owner;
    (void)hosts_->InferShape(op, {Shape{++asked_}});
    return channel->calls.size() > before;
  }

  const std::shared_ptr<CustomHosts> hosts_ = std::make_shared<CustomHosts>();
  int64_t asked_ = 0;  // Each question is another one.
};

TEST_F(SharedOperatorsTest, ANameIsTheFirstIdentitysAlsoWhileItIsAway) {
  auto alice = Open("alice", "a"), eve = Open("eve", "e");
  EXPECT_EQ(*Share(alice), Offered::kShared);
  const absl::Status refused = Share(eve).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_THAT(refused.message(), HasSubstr("'square' belongs to 'alice'"));
  EXPECT_TRUE(IsAsked(alice) && !IsAsked(eve));
  EXPECT_THAT(hosts_->Detach(alice.get()), IsEmpty()) << "nothing is given up";
  EXPECT_TRUE(absl::IsPermissionDenied(Share(eve).status()));
  EXPECT_FALSE(IsAsked(eve));
  alice = Open("alice", "another");
  EXPECT_EQ(*Share(alice), Offered::kShared);
  EXPECT_TRUE(IsAsked(alice));
}

TEST_F(SharedOperatorsTest, AKeyOrTheRoleAdminTakesItOver) {
  const auto alice = Open("alice", "a"), root = Open("root", "r", /*is_admin=*/true);
  EXPECT_EQ(*Share(alice), Offered::kShared);
  EXPECT_EQ(*Share(root), Offered::kTakenOver);
  EXPECT_THAT(alice->told.taken_over(), ElementsAre("square"));
  EXPECT_TRUE(IsAsked(root));
  const auto bob = Open("bob", "r");  // With root's key.
  EXPECT_TRUE(root->is_replaced);
  EXPECT_EQ(*Share(bob), Offered::kTakenOver);
  EXPECT_EQ(*hosts_->OwnerOf("", "square"), "bob");
}

TEST_F(SharedOperatorsTest, OnlyTheSameIdentityInherits) {
  const auto first = Open("alice", "a"), eve = Open("eve", "e");
  auto second = Open("alice", "b");
  ASSERT_TRUE(Share(first).ok() && Share(second).ok());
  EXPECT_TRUE(IsAsked(second));
  hosts_->Detach(second.get());
  EXPECT_TRUE(IsAsked(first));
}

TEST_F(SharedOperatorsTest, AReleasedNameIsAnybodys) {
  const auto alice = Open("alice", "a"), eve = Open("eve", "e");
  ASSERT_TRUE(Share(alice).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(hosts_->Release(eve.get(), "square")));
  EXPECT_TRUE(hosts_->Release(alice.get(), "square").ok());
  EXPECT_TRUE(absl::IsNotFound(hosts_->Release(alice.get(), "square")));
  EXPECT_FALSE(IsAsked(alice));
  EXPECT_TRUE(Share(eve).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Share(alice).status()));
}

TEST_F(SharedOperatorsTest, WithoutANameTheKeyOwnsItWhileItsStreamIsOpen) {
  const auto first = Open("", "key");
  const auto other = Open("", "another");
  ASSERT_TRUE(Share(first).ok());
  EXPECT_THAT(Share(other).status().message(), HasSubstr("belongs to a connected client"));
  const auto resumed = Open("", "key");  // In the place of the first, whose names it has at once.
  EXPECT_TRUE(first->is_replaced);
  EXPECT_TRUE(absl::IsPermissionDenied(Share(other).status()));
  EXPECT_EQ(*Share(resumed), Offered::kShared);
  EXPECT_TRUE(IsAsked(resumed));
  EXPECT_THAT(hosts_->Detach(resumed.get()), ElementsAre("square"));
  EXPECT_EQ(*Share(other), Offered::kShared);
}

TEST_F(SharedOperatorsTest, APinnedGraphAsksItsOwnerAlone) {
  const auto alice = Open("alice", "a"), root = Open("root", "r", /*is_admin=*/true);
  ASSERT_TRUE(Share(alice).ok());
  EXPECT_TRUE(IsAsked(alice, "alice"));
  ASSERT_TRUE(Share(root).ok());
  EXPECT_FALSE(IsAsked(root, "alice") || IsAsked(alice, "alice"));
  EXPECT_TRUE(IsAsked(root));
  CustomOperator op;
  op.op_type = "square";
  op.owner = "alice";
  EXPECT_THAT(hosts_->InferShape(op, {Shape{++asked_}}).status().message(),
              HasSubstr("its version was published with that of 'alice'"));
}

TEST_F(SharedOperatorsTest, ARestartKeepsANameForItsOwner) {
  hosts_->Keep("", "square", "alice");
  EXPECT_TRUE(absl::IsPermissionDenied(Share(Open("eve", "e")).status()));
  EXPECT_TRUE(Share(Open("alice", "a")).ok());
}

TEST_F(SharedOperatorsTest, TenantsDoNotMeet) {
  const auto ann = Open("acme/ann", "a", false, "acme/"), gil = Open("globex/gil", "g", false, "globex/");
  EXPECT_TRUE(Share(ann).ok() && Share(gil).ok());
  EXPECT_TRUE(IsAsked(ann, "", "acme/") && !IsAsked(gil, "", "acme/"));
}

TEST_F(SharedOperatorsTest, AnOwnerHasSoManyNames) {
  for (int i = 0; i < 3; ++i) {
    const auto alice = Open("alice", "a");
    for (int j = 0; j < 5'000; ++j) {
      const bool fits = i * 5'000 + j < 10'000;
      ASSERT_EQ(absl::IsResourceExhausted(Share(alice, std::to_string(i * 5'000 + j)).status()), !fits);
    }
    hosts_->Detach(alice.get());
  }
}

}  // namespace
}  // namespace gluond::server
