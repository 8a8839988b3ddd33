// CheckRegistry finds every mistake, and names each place.

#include <string>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

GLUOND_DECLARE_OP_ATTR(float, "wrong_type_of_key");

GLUOND_REGISTER_OP(set_twice).set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>);

GLUOND_REGISTER_OP(unknown_key).set_attr<FInferShape>("FInferShapes", ElemwiseShape<1, 1>);

GLUOND_REGISTER_OP(wrong_type).set_attr<bool>("FInferShape", true);

GLUOND_REGISTER_OP(takes_an_alias).add_alias("wrong_type");

GLUOND_REGISTER_OP(innocent).set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>);

std::string Mistakes() { return std::string(CheckRegistry().message()); }

TEST(CheckRegistry, IsInternal) { EXPECT_EQ(CheckRegistry().code(), absl::StatusCode::kInternal); }

TEST(CheckRegistry, NamesBothPlacesOfAKeySetTwice) {
  EXPECT_THAT(Mistakes(), ContainsRegex("wrong_registrations[_a-z]*.cc:[0-9]+: operator 'set_twice' sets 'FInferShape' "
                                        "again; first at [/_a-z]*wrong_registrations[_a-z]*.cc:[0-9]+"));
  EXPECT_THAT(Mistakes(), HasSubstr("wrong_registrations.cc:1"));
}

TEST(CheckRegistry, NamesAnUnknownKeyAndTheClosestOnes) {
  EXPECT_THAT(Mistakes(), ContainsRegex("wrong_registrations_test.cc:21: operator 'unknown_key' sets the unknown key "
                                        "'FInferShapes'; did you mean 'FInferShape'"));
}

TEST(CheckRegistry, NamesThePlaceAndTheDeclarationOfAWrongType) {
  EXPECT_THAT(Mistakes(), ContainsRegex("wrong_registrations_test.cc:23: operator 'wrong_type' sets 'FInferShape' with "
                                        "another type than declared at [/_a-z]*op_attr_types.cc:[0-9]+"));
}

TEST(CheckRegistry, NamesBothDeclarationsOfAKey) {
  EXPECT_THAT(Mistakes(), ContainsRegex("attribute key 'wrong_type_of_key' is declared with another type than at "
                                        "[/_a-z]*wrong_registrations"));
}

TEST(CheckRegistry, NamesAnAliasThatIsTaken) {
  EXPECT_THAT(Mistakes(), HasSubstr("alias 'wrong_type' of 'takes_an_alias' is taken"));
}

TEST(CheckRegistry, AccusesNobodyElse) { EXPECT_THAT(Mistakes(), Not(HasSubstr("innocent"))); }

}  // namespace
}  // namespace gluond
