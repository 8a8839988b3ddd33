// Names of callers: any text is one, and no two of them meet where they are joined to others.

#include "server/identity/names.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

std::string Inside(absl::string_view said) { return CallersName(said).value_or("none"); }

TEST(Names, OfLettersDigitsAndAFewOthersAreWhatTheyWere) {
  for (const char* name : {"alice", "carol.k-1_x", "7", "acme/ann", "acme.org/a.b-c_d"}) EXPECT_EQ(Inside(name), name);
}

TEST(Names, OfTheWorldAreNames) {
  EXPECT_EQ(Inside("system:serviceaccount:ml:trainer"), "system:serviceaccount:ml:trainer");
  EXPECT_EQ(Inside("ann@corp.com"), "ann@corp.com");
  EXPECT_EQ(Inside("auth0|5f7c"), "auth0%7C5f7c");
  EXPECT_EQ(Inside("Ann Müller"), "Ann%20M%C3%BCller");
  EXPECT_EQ(Inside("acme/system:serviceaccount:ml:trainer"), "acme/system:serviceaccount:ml:trainer");
  EXPECT_EQ(Inside(std::string(256, 'a')), std::string(256, 'a'));
}

TEST(Names, OfAUriAreOfNoTenant) {
  EXPECT_EQ(Inside("spiffe://acme/x"), "spiffe:%2F%2Facme%2Fx");
  EXPECT_EQ(Inside("acme/spiffe://acme/x"), "acme/spiffe:%2F%2Facme%2Fx");
  EXPECT_EQ(Inside("/acme"), "%2Facme");
  EXPECT_EQ(Inside("a b/c"), "a%20b%2Fc");
}

TEST(Names, ThatAreEmptyTooLongNoUtf8OrHaveControlCharactersAreNone) {
  for (const std::string& name :
       {std::string(), std::string("acme/"), std::string(257, 'a'), std::string("a\nb"), std::string("a\0b", 3),
        std::string("a\x7f"), std::string("\xff"), std::string("\xc0\xaf"), std::string("\xe2\x82"), std::string("\xed\xa0\x80"),
        std::string("\xf4\x90\x80\x80"), std::string("\xc2\x85")}) {
    EXPECT_EQ(CallersName(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(Names, OfCallersAndTheirClientsNeverMeet) {
  absl::flat_hash_set<std::string> joined;
  for (const char* caller : {"a", "a/b", "b", "a%2Fb", "spiffe://a/b", "spiffe:"}) {
    for (const char* client : {"c", "b/c", "b%2Fc", "/c", "a/b/c", "%2Fc", "%", "%25"}) {
      EXPECT_TRUE(joined.insert(ClientOf(Inside(caller), client)).second) << caller << " " << client;
    }
  }
  EXPECT_EQ(ClientOf("alice", "laptop 7|x"), "alice/laptop 7|x");  // Stores have such names.
}

TEST(Names, InAFileHaveBytesThatMeanSomethingElseThereEncoded) {
  EXPECT_EQ(*CallersNameInFile("Ann%20Lee"), "Ann%20Lee");
  EXPECT_EQ(*CallersNameInFile("spiffe://acme/x"), "spiffe:%2F%2Facme%2Fx");
  EXPECT_EQ(*CallersNameInFile("a%2Fb"), "a%2Fb");  // Not b of the tenant a.
  EXPECT_EQ(*CallersNameInFile("a/b"), "a/b");
  for (const char* word : {"a%", "a%2", "a%zz", "a%0A", "a/%ff"}) EXPECT_FALSE(CallersNameInFile(word).ok()) << word;
}

TEST(Names, OfTenantsAreLettersDigitsAndAFewOthers) {
  EXPECT_TRUE(CheckTenantName("acme.org-1_x").ok());
  for (const char* name : {"", "a/b", "a:b", "a@b", "a b", "ä"}) EXPECT_FALSE(CheckTenantName(name).ok()) << name;
}

}  // namespace
}  // namespace gluond::server
