#include "engine/core/dtype.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::HasSubstr;

TEST(DType, NamesAndMXNetsFlagsReadBack) {
  for (DType type : kAllDTypes) {
    EXPECT_EQ(*ParseDType(Name(type)), type);
    EXPECT_EQ(*ParseDType(std::to_string(static_cast<int>(type))), type);
  }
  EXPECT_EQ(*ParseDType("2"), DType::kFloat16);
  EXPECT_EQ(*ParseDType("12"), DType::kBfloat16);
}

TEST(DType, RefusesOtherText) {
  for (const char* text : {"", "float", "unknown", "-1", "8", "Float32", " float32"}) {
    const absl::Status status = ParseDType(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("float32, float64, float16"));
  }
}

template <class T>
void ExpectSize(DType type, bool floating) {
  EXPECT_EQ(DTypeOf<T>, type);
  EXPECT_EQ(SizeOf(type), static_cast<int64_t>(sizeof(T)));
  EXPECT_EQ(IsFloating(type), floating) << type;
}

TEST(DType, HasTheSizeOfItsCppType) {
  ExpectSize<float>(DType::kFloat32, true);
  ExpectSize<double>(DType::kFloat64, true);
  ExpectSize<Half>(DType::kFloat16, true);
  ExpectSize<BFloat16>(DType::kBfloat16, true);
  ExpectSize<uint8_t>(DType::kUint8, false);
  ExpectSize<int8_t>(DType::kInt8, false);
  ExpectSize<int32_t>(DType::kInt32, false);
  ExpectSize<int64_t>(DType::kInt64, false);
  ExpectSize<bool>(DType::kBool, false);
  EXPECT_EQ(SizeOf(DType::kUnknown), 0);
}

TEST(TypeAssign, MergesWhatEitherSideKnows) {
  DType type = DType::kUnknown;
  EXPECT_TRUE(TypeAssign(&type, DType::kUnknown));
  EXPECT_TRUE(TypeAssign(&type, DType::kInt8));
  EXPECT_TRUE(TypeAssign(&type, DType::kUnknown));
  EXPECT_EQ(type, DType::kInt8);
  EXPECT_FALSE(TypeAssign(&type, DType::kInt32));
  EXPECT_EQ(type, DType::kInt8);
}

}  // namespace
}  // namespace gluond
