// Roles that the words of a token's claim give: an issuer's own words give none, where a flag says which are this server's.

#include "server/identity/jwt_roles.h"

#include <string>

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

std::string Given(const JwtRolesOptions& options, const std::string& claim) {
  const absl::StatusOr<JwtRoles> roles = JwtRoles::Create(options);
  const Json parsed = Json::Parse(claim, 4).value();
  return roles.ok() ? roles->Of(&parsed).ToString() : std::string(roles.status().message());
}

const JwtRolesOptions kBare = {};
const JwtRolesOptions kPrefix = {.claim = "realm_access.roles", .prefix = "gluond."};
const JwtRolesOptions kMap = {.claim = "realm_access.roles", .map = {"ML Team=train", "leads=publish", "leads=infer", "a=b=admin"}};

TEST(JwtRoles, OfAPlainClaimAreItsWords) {
  EXPECT_EQ(Given(kBare, R"(["train", "boss"])"), "train");
  EXPECT_EQ(Given(kBare, R"("train, infer boss")"), "infer,train");
  EXPECT_EQ(Given(kBare, R"(["train infer", "admin"])"), "infer,train,admin");
  EXPECT_EQ(Given(kBare, R"({"train": true})"), "");
  EXPECT_TRUE(JwtRoles::Create(kBare)->Of(nullptr).empty());
}

TEST(JwtRoles, AreThoseWithThePrefixWhereThereIsOne) {
  EXPECT_EQ(Given(kPrefix, R"(["offline_access", "admin", "gluond.train"])"), "train");
  EXPECT_EQ(Given(kPrefix, R"("admin gluond.infer,gluond.publish")"), "infer,publish");
  for (const char* none : {R"(["admin"])", R"("admin")", R"(["x gluond.admin"])", R"(["gluond.train,admin"])", R"(["gluond."])",
                           R"(["gluond.gluond.admin"])"}) {
    EXPECT_EQ(Given(kPrefix, none), "") << none;
  }
}

TEST(JwtRoles, AreThoseOfTheMapWhereThereIsOne) {
  EXPECT_EQ(Given(kMap, R"(["ML Team", "admin"])"), "train");
  EXPECT_EQ(Given(kMap, R"("x leads")"), "infer,publish");
  EXPECT_EQ(Given(kMap, R"(["a=b"])"), "admin");
  for (const char* none : {R"(["admin", "train"])", R"(["Not ML Team"])", R"("ML Team")"}) EXPECT_EQ(Given(kMap, none), "") << none;
  EXPECT_EQ(Given({.claim = "roles", .prefix = "g.", .map = {"ml=train"}}, R"(["ml", "g.infer", "admin"])"), "infer,train");
}

TEST(JwtRoles, NobodyIsAProxyByAToken) {
  EXPECT_EQ(Given(kBare, R"(["proxy", "infer"])"), "infer");
  EXPECT_EQ(Given(kPrefix, R"(["gluond.proxy"])"), "");
  EXPECT_NE(Given({.map = {"edge=proxy"}}, "[]").find("no WORD=ROLE"), std::string::npos);
}

TEST(JwtRoles, OfAClaimWithinOthersWantAPrefixOrAMap) {
  EXPECT_NE(Given({.claim = "realm_access.roles"}, "[]").find("--jwt_roles_prefix"), std::string::npos);
  for (const char* entry : {"boss", "=train", "a=", "a=boss", ""}) {
    EXPECT_NE(Given({.map = {entry}}, "[]").find("no WORD=ROLE"), std::string::npos) << entry;
  }
}

}  // namespace
}  // namespace gluond::server
