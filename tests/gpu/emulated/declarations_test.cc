// The emulated GPU's headers declare the same as NVIDIA's.

#include "tests/gpu/emulated/declarations.h"

#include "gtest/gtest.h"

namespace gluond::emulated {
namespace {

TEST(Declarations, AreThoseOfNvidia) {
  const Declarations here = DeclaredHere(), theirs = DeclaredByNvidia();
  ASSERT_EQ(here.size(), theirs.size());
  ASSERT_GT(here.size(), 100u);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].second, theirs[i].second) << here[i].first;
}

}  // namespace
}  // namespace gluond::emulated
