#include "engine/core/philox.h"

#include <array>

#include "gtest/gtest.h"

namespace gluond {
namespace {

std::array<uint32_t, 4> Words(const Philox& philox, uint64_t i) {
  const Philox::Block block = philox(i);
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

using Block = std::array<uint32_t, 4>;

// kat_vectors of Random123, philox4x32 10.
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(Words({0, 0, 0}, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Words({~uint64_t{0}, ~0u, ~0u}, ~uint64_t{0}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Words({0x299f31d0a4093822, 0x13198a2e, 0x03707344}, 0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NumbersItsWords) {
  const Philox philox{7, 1, 2};
  EXPECT_EQ(philox.Word(0), philox(0).word[0]);
  EXPECT_EQ(philox.Word(7), philox(1).word[3]);
}

TEST(Philox, SeedStreamAndRunDrawDifferentNumbers) {
  const Philox philox{7, 1, 2};
  for (const Philox& other : {Philox{8, 1, 2}, Philox{7, 2, 2}, Philox{7, 1, 3}}) {
    EXPECT_NE(Words(philox, 0), Words(other, 0));
  }
}

TEST(Philox, UniformsLieInTheHalfOpenInterval) {
  EXPECT_EQ(Philox::ToUniform(0), 0.0f);
  EXPECT_LT(Philox::ToUniform(~0u), 1.0f);
  double sum = 0;
  const Philox philox{42, 0, 0};
  for (uint64_t i = 0; i < 100000; ++i) sum += Philox::ToUniform(philox.Word(i));
  EXPECT_NEAR(sum / 100000, 0.5, 0.003);
}

}  // namespace
}  // namespace gluond
