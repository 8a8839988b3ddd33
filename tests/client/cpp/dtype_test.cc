#include "gluond/dtype.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace gluond::client {
namespace {

TEST(DTypeTest, EachHasASizeAndAName) {
  EXPECT_EQ(ElementSize(DTypeOf<double>()), 8);
  EXPECT_EQ(ElementSize(DTypeOf<Bfloat16>()), 2);
  EXPECT_EQ(ElementSize(DTypeOf<bool>()), 1);
  EXPECT_EQ(ElementSize(static_cast<DType>(9)), 0);
  EXPECT_STREQ(ToString(DType::kBfloat16), "BFLOAT16");
  EXPECT_STREQ(ToString(static_cast<DType>(9)), "?");
}

TEST(Float16Test, EveryValueIsAFloatAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half = Float16::FromBits(static_cast<uint16_t>(bits));
    const float value(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float(Float16(value))));
    } else {
      EXPECT_EQ(Float16(value).bits(), bits);
    }
  }
}

struct Rounded {
  float value;
  uint16_t bits;
};

TEST(Float16Test, AFloatBecomesTheNearestAndOfTwoTheEven) {
  for (const auto& [value, bits] : {Rounded{1, 0x3c00},
                                    {0.1f, 0x2e66},
                                    {65504, 0x7bff},
                                    {65519, 0x7bff},
                                    {65520, 0x7c00},
                                    {-1e30f, 0xfc00},
                                    {1 + 0x1p-11f, 0x3c00},
                                    {1 + 0x3p-11f, 0x3c02},
                                    {0x1p-24f, 0x0001},
                                    {0x1p-25f, 0x0000},
                                    {0x3p-25f, 0x0002},
                                    {0x1.ffep-15f, 0x0400}}) {
    EXPECT_EQ(Float16(value).bits(), bits) << value;
  }
}

TEST(Bfloat16Test, AFloatBecomesTheNearestAndOfTwoTheEven) {
  for (const auto& [value, bits] : {Rounded{1, 0x3f80},
                                    {-0.5f, 0xbf00},
                                    {1 + 0x1p-8f, 0x3f80},
                                    {1 + 0x3p-8f, 0x3f82},
                                    {std::numeric_limits<float>::max(), 0x7f80},
                                    {std::numeric_limits<float>::infinity(), 0x7f80}}) {
    EXPECT_EQ(Bfloat16(value).bits(), bits) << value;
    EXPECT_EQ(Bfloat16::FromBits(bits).bits(), bits);
  }
  EXPECT_TRUE(std::isnan(float(Bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace gluond::client
