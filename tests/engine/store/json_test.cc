#include "engine/store/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

TEST(Json, WritesWhatItReads) {
  for (const char* text : {"null", "true", "false", "0", "-12", "1.5e-300", "\"\"", "[]", "{}", R"(["a",1,[],{"b":null}])",
                           R"({"zebra":1,"apple":{"x":[1,2,3]}})", R"("quote \" backslash \\ control \u0001 Grüße")"}) {
    const absl::StatusOr<Json> json = Json::Parse(text);
    ASSERT_TRUE(json.ok()) << text << ": " << json.status();
    EXPECT_EQ(json->Dump(), text);
  }
}

TEST(Json, KeepsEveryBitOfNumbers) {
  for (double value : {0.1, 1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 2.5, 123456789012345678.0}) {
    double back = 0;
    ASSERT_TRUE(Json::Parse(Json(value).Dump())->Get(&back).ok()) << value;
    EXPECT_EQ(back, value);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
  }
  for (int64_t value : {INT64_MIN, int64_t{-1}, int64_t{0}, (int64_t{1} << 53) + 1, INT64_MAX}) {
    int64_t back = 7;
    ASSERT_TRUE(Json::Parse(Json(value).Dump())->Get(&back).ok()) << value;
    EXPECT_EQ(back, value);
  }
  uint64_t back = 0;
  ASSERT_TRUE(Json::Parse(Json(UINT64_MAX).Dump())->Get(&back).ok());
  EXPECT_EQ(back, UINT64_MAX);
}

TEST(Json, KeepsInfinityAndNan) {
  double back = 0;
  ASSERT_TRUE(Json::Parse(Json(-std::numeric_limits<double>::infinity()).Dump())->Get(&back).ok());
  EXPECT_EQ(back, -std::numeric_limits<double>::infinity());
  ASSERT_TRUE(Json::Parse(Json(std::nan("")).Dump())->Get(&back).ok());
  EXPECT_TRUE(std::isnan(back));
}

TEST(Json, ReadsEscapes) {
  std::string text;
  ASSERT_TRUE(Json::Parse(R"(" \" \\ \/ \b \f \n \r \t A \u00fc \u20ac \ud83d\ude00 ")")->Get(&text).ok());
  EXPECT_EQ(text, " \" \\ / \b \f \n \r \t A \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80 ");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           " ",
                           "nul",
                           "truee",
                           "1 2",
                           "01",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "--1",
                           "-",
                           "0x10",
                           "NaN",
                           "Infinity",
                           "[1,]",
                           "[1",
                           "[1 2]",
                           "]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\":1",
                           "{\"a\":1,\"a\":2}",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"a\nb\"",
                           "[1]//",
                           "\"\\"}) {
    const absl::StatusOr<Json> json = Json::Parse(text);
    EXPECT_TRUE(absl::IsInvalidArgument(json.status())) << "'" << text << "': " << json.status();
  }
  EXPECT_EQ(Json::Parse("[1, x]").status().message(), "JSON, byte 4: want a value");
}

TEST(Json, RefusesDepthThatWouldOverflowTheStack) {
  EXPECT_TRUE(Json::Parse(std::string(32, '[') + std::string(32, ']')).ok());
  for (size_t depth : {40u, 10'000'000u}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Json::Parse(std::string(depth, '[')).status()));
    std::string objects;
    for (size_t i = 0; i < depth / 10; ++i) objects += "{\"a\":";
    if (depth > 400) {
      EXPECT_TRUE(absl::IsInvalidArgument(Json::Parse(objects).status()));
    }
  }
}

TEST(Json, RefusesNumbersThatDoNotFit) {
  int64_t integer = 0;
  uint64_t natural = 0;
  for (const char* text : {"9223372036854775808", "1e3", "1.0", "99999999999999999999999999", "\"1\""}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Json::Parse(text)->Get(&integer))) << text;
  }
  for (const char* text : {"-1", "18446744073709551616"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Json::Parse(text)->Get(&natural))) << text;
  }
}

TEST(Json, NamesTheKeyThatIsWrong) {
  const Json json = *Json::Parse(R"({"step": "ten"})");
  int64_t step = 0;
  EXPECT_EQ(json.Get("step", &step).message(), "'step': want a whole number of 64 bits");
  EXPECT_EQ(json.Get("epoch", &step).message(), "'epoch': is missing");
  EXPECT_EQ(json.GetChild("step", Json::kArray).status().message(), "'step': want an array");
}

}  // namespace
}  // namespace gluond
