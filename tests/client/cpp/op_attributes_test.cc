// Attributes of the functions of gluond/op.h are those of the registry.

#include "tests/client/cpp/check_attribute.h"

namespace gluond::testing {
namespace {

TEST(OpAttributesTest, EachIsTheRegistrys) {
  ASSERT_TRUE(CheckRegistry().ok());
  EXPECT_GT(CheckAllAttributes(), 400);
}

}  // namespace
}  // namespace gluond::testing
