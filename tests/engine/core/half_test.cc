#include "engine/core/half.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace gluond {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The compiler's own binary16 is the oracle.
uint16_t CompilersHalf(float f) { return BitCast<uint16_t>(static_cast<_Float16>(f)); }

TEST(Half, EveryValueConvertsToFloatAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half = BitCast<Half>(static_cast<uint16_t>(bits));
    const float value = static_cast<float>(half);
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
      continue;
    }
    ASSERT_EQ(BitCast<uint32_t>(value), BitCast<uint32_t>(static_cast<float>(BitCast<_Float16>(half.bits)))) << bits;
    ASSERT_EQ(Half(value).bits, bits);
  }
}

// Around every value and every point half way between two.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = Half::ToFloat(bits), high = bits == 0x7bff ? 65536.0f : Half::ToFloat(bits + 1);
    const float middle = low + (high - low) / 2;
    for (float f :
         {low, middle, std::nextafter(middle, -1.0f), std::nextafter(middle, kInfinity), std::nextafter(low, kInfinity)}) {
      ASSERT_EQ(Half::FromFloat(f), CompilersHalf(f)) << f;
      ASSERT_EQ(Half::FromFloat(-f), CompilersHalf(-f)) << -f;
    }
  }
}

TEST(Half, AgreesWithTheCompilerOnRandomBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000000; ++i) {
    const float f = BitCast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(f)) continue;
    ASSERT_EQ(Half::FromFloat(f), CompilersHalf(f)) << f;
  }
}

TEST(Half, Overflows) {
  EXPECT_EQ(Half::FromFloat(65519.99f), 0x7bff);
  EXPECT_EQ(Half::FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Half::FromFloat(-kInfinity), 0xfc00);
  EXPECT_EQ(Half::FromFloat(std::numeric_limits<float>::max()), 0x7c00);
}

TEST(BFloat16, EveryValueConvertsToFloatAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = static_cast<float>(BitCast<BFloat16>(static_cast<uint16_t>(bits)));
    ASSERT_EQ(BitCast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(BFloat16(value).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000;
    ASSERT_EQ(BFloat16::FromFloat(BitCast<float>(middle - 1)), bits);
    ASSERT_EQ(BFloat16::FromFloat(BitCast<float>(middle)), bits + (bits & 1));
    ASSERT_EQ(BFloat16::FromFloat(BitCast<float>(middle + 1)), bits + 1);
  }
  // The upper half of this NaN alone would be infinity.
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(BitCast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace gluond
