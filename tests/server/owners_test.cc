// Whose things are, where several callers make, delete and look at the same moment. tests/server/ownership_test.py has every
// method.

#include "server/identity/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace gluond::server {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class OwnersTest : public testing::Test {
 protected:
  OwnersTest() {
    owners_.SetStrict(true);
    owners_.SetExists(Thing::kModel, [this](const std::string& name) {
      if (on_look_ != nullptr) std::exchange(on_look_, nullptr)();
      return there_.contains(name);
    });
    owners_.OnChange([this] { ++changes_; });
  }
  static IdentityPtr Caller(const char* name, const char* roles = "train") {
    return std::make_shared<const Identity>(Identity{name, *Roles::Parse(roles)});
  }
  absl::StatusOr<Owners::ClaimPtr> May(const IdentityPtr& caller, Deed deed, const std::string& name = "m") {
    return owners_.May(caller, {{Thing::kModel, deed, name}});
  }
  void Make(const IdentityPtr& caller, const std::string& name = "m") {
    const auto claim = May(caller, Deed::kMake, name);
    ASSERT_TRUE(claim.ok()) << claim.status();
    there_.insert(name);
    if (*claim != nullptr) (*claim)->End(true);
  }

  Owners owners_;
  std::set<std::string> there_;
  std::function<void()> on_look_;  // Happens while somebody looks whether there is a thing.
  int changes_ = 0;
  const IdentityPtr alice_ = Caller("alice"), eve_ = Caller("eve"), root_ = Caller("root", "admin");
};

TEST_F(OwnersTest, AThingIsItsMakers) {
  Make(alice_);
  EXPECT_EQ(changes_, 1);
  for (const Deed deed : {Deed::kRead, Deed::kChange, Deed::kDelete, Deed::kMake}) {
    EXPECT_TRUE(May(alice_, deed).ok() && May(root_, deed).ok());
    const auto refused = May(eve_, deed).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused));
    EXPECT_THAT(refused.message(), HasSubstr("the model 'm' is that of 'alice'"));
  }
  EXPECT_TRUE(May(eve_, Deed::kAsk).ok());
  EXPECT_TRUE(May(nullptr, Deed::kDelete).ok()) << "nobody asks who callers are";
  Make(root_);  // Replaced by the admin, it stays alice's.
  EXPECT_EQ(owners_.OwnerOf(Thing::kModel, "m"), "alice");
}

TEST_F(OwnersTest, WhatIsBeingMadeIsItsMakersAlready) {
  auto claim = May(alice_, Deed::kMake);
  ASSERT_TRUE(claim.ok());
  EXPECT_TRUE(absl::IsAborted(May(eve_, Deed::kMake).status()));
  there_.insert("m");  // It is there a moment before the call ends.
  EXPECT_TRUE(absl::IsPermissionDenied(May(eve_, Deed::kChange).status()));
  EXPECT_TRUE(May(alice_, Deed::kChange).ok());
  (*claim)->End(true);
  EXPECT_EQ(owners_.OwnerOf(Thing::kModel, "m"), "alice");
}

TEST_F(OwnersTest, ACallThatFailsHasMadeNothing) {
  for (const bool is_dropped : {false, true}) {
    auto claim = May(alice_, Deed::kMake);
    ASSERT_TRUE(claim.ok());
    is_dropped ? claim->reset() : (*claim)->End(false);
    EXPECT_EQ(owners_.OwnerOf(Thing::kModel, "m"), "");
    EXPECT_TRUE(May(eve_, Deed::kMake).ok());
  }
  EXPECT_EQ(changes_, 0);
}

TEST_F(OwnersTest, WhoLooksWhileAnotherMakesDoesNotBecomeTheOwner) {
  on_look_ = [this] { Make(alice_); };
  // Eve's first look finds nothing; by the second there is alice's.
  there_.erase("m");
  owners_.SetExists(Thing::kModel, [this](const std::string& name) {
    const bool is_there = there_.contains(name);
    if (on_look_ != nullptr) std::exchange(on_look_, nullptr)();
    return is_there;
  });
  EXPECT_TRUE(absl::IsPermissionDenied(May(eve_, Deed::kMake).status()));
  EXPECT_EQ(owners_.OwnerOf(Thing::kModel, "m"), "alice");
}

TEST_F(OwnersTest, ANameWhoseThingIsGoneIsAnybodys) {
  Make(alice_);
  there_.clear();
  EXPECT_TRUE(May(eve_, Deed::kDelete).ok()) << "the method says that there is none";
  Make(eve_);
  EXPECT_TRUE(absl::IsPermissionDenied(May(alice_, Deed::kRead).status()));
  Make(alice_, "n");
  there_.erase("n");
  EXPECT_THAT(owners_.Take(), UnorderedElementsAre(Pair(Owners::Key(Thing::kModel, "m"), "eve")));
}

TEST_F(OwnersTest, WhatHasNoOwnerIsTheAdmins) {
  there_ = {"old", "acme/old"};
  EXPECT_THAT(May(eve_, Deed::kRead, "old").status().message(), HasSubstr("has no owner, and is the admin's"));
  EXPECT_TRUE(May(root_, Deed::kDelete, "old").ok());
  EXPECT_TRUE(May(Caller("acme/boss", "admin"), Deed::kDelete, "acme/old").ok());
  const auto local = std::make_shared<const Identity>(Identity{.name = "local", .roles = Roles::All(), .is_anybodys = true});
  Make(local, "anybodys");
  EXPECT_FALSE(May(eve_, Deed::kRead, "anybodys").ok());
}

TEST_F(OwnersTest, AGrantIsForNamesOfTheCallersTenant) {
  Identity reader{"acme/rita", *Roles::Parse("train")};
  ASSERT_TRUE(reader.grants.Add("reads", "digits,alice-*").ok());
  const auto rita = std::make_shared<const Identity>(reader);
  for (const char* name : {"acme/digits", "acme/alice-1", "acme/bobs", "digits"}) Make(root_, name);
  EXPECT_TRUE(May(rita, Deed::kRead, "acme/digits").ok() && May(rita, Deed::kRead, "acme/alice-1").ok());
  EXPECT_FALSE(May(rita, Deed::kChange, "acme/digits").ok());
  EXPECT_FALSE(May(rita, Deed::kRead, "acme/bobs").ok());
  EXPECT_FALSE(May(rita, Deed::kRead, "digits").ok());
  EXPECT_FALSE(reader.grants.Add("changes", "a*b").ok());
}

TEST_F(OwnersTest, WhereThingsAreSharedOwnersAreKeptAndNobodyIsAsked) {
  owners_.SetStrict(false);
  Make(alice_);
  EXPECT_TRUE(May(eve_, Deed::kDelete).ok());
  Make(eve_);
  owners_.SetStrict(true);
  EXPECT_TRUE(May(alice_, Deed::kDelete).ok());
  EXPECT_FALSE(May(eve_, Deed::kDelete).ok());
}

}  // namespace
}  // namespace gluond::server
