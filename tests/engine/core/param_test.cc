#include "engine/core/param.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum { kMax = 3, kAvg = 5 };

struct EveryParam : Param<EveryParam> {
  bool flag;
  int count;
  int64_t big;
  float ratio;
  double precise;
  std::string text;
  DType dtype;
  std::vector<int64_t> kernel;
  std::vector<double> weights;
  int pool_type;
  std::optional<int> axis;
  std::optional<double> bound;
  std::optional<int> mode;
  static void Fields(Schema<EveryParam>& s) {
    s.Field("flag", &EveryParam::flag).Default(true);
    s.Field("count", &EveryParam::count).Default(1).Range(1, 10).Describe("How many.");
    s.Field("big", &EveryParam::big).Default(int64_t{1} << 40);
    s.Field("ratio", &EveryParam::ratio).Default(0.1f).Above(0.0f);
    s.Field("precise", &EveryParam::precise).Default(0.1).AtLeast(-1.0);
    s.Field("text", &EveryParam::text).Default("hello");
    s.Field("dtype", &EveryParam::dtype).Default(DType::kFloat32);
    s.Field("kernel", &EveryParam::kernel)
        .Elements(1, 100)
        .Check([](const std::vector<int64_t>& v) { return v.size() <= 3; }, "want at most 3 elements");
    s.Field("weights", &EveryParam::weights).Default({0.5, 2});
    s.Field("pool_type", &EveryParam::pool_type).Enum({{"max", kMax}, {"avg", kAvg}}).Default("max");
    s.Field("axis", &EveryParam::axis).Default(std::nullopt).Range(-8, 7);
    s.Field("bound", &EveryParam::bound).Default(1.5);
    s.Field("mode", &EveryParam::mode).Enum({{"up", 1}}).Default(std::nullopt);
  }
};

absl::StatusOr<NodeAttrs> Parse(AttrDict dict) {
  dict.try_emplace("kernel", "(3, 3)");
  NodeAttrs attrs;
  attrs.dict = std::move(dict);
  const absl::Status status = ParamParser<EveryParam>(&attrs);
  if (!status.ok()) return status;
  return attrs;
}

TEST(Param, TakesDefaults) {
  const NodeAttrs attrs = Parse({}).value();
  const EveryParam& p = attrs.param<EveryParam>();
  EXPECT_TRUE(p.flag);
  EXPECT_EQ(p.count, 1);
  EXPECT_EQ(p.big, int64_t{1} << 40);
  EXPECT_EQ(p.ratio, 0.1f);
  EXPECT_EQ(p.precise, 0.1);
  EXPECT_EQ(p.text, "hello");
  EXPECT_EQ(p.dtype, DType::kFloat32);
  EXPECT_THAT(p.kernel, ElementsAre(3, 3));
  EXPECT_THAT(p.weights, ElementsAre(0.5, 2));
  EXPECT_EQ(p.pool_type, kMax);
  EXPECT_EQ(p.axis, std::nullopt);
  EXPECT_EQ(p.bound, 1.5);
  EXPECT_EQ(p.mode, std::nullopt);
}

TEST(Param, ReadsEveryType) {
  const NodeAttrs attrs = Parse({{"flag", "False"},
                                 {"count", "7"},
                                 {"big", "-5"},
                                 {"ratio", "1e-3"},
                                 {"precise", "2"},
                                 {"text", "a b"},
                                 {"dtype", "float16"},
                                 {"kernel", "[1,2]"},
                                 {"weights", "(1e2,)"},
                                 {"pool_type", "avg"},
                                 {"axis", "-1"},
                                 {"bound", "None"},
                                 {"mode", "up"},
                                 {"__init__", "zeros"}})
                              .value();
  const EveryParam& p = attrs.param<EveryParam>();
  EXPECT_FALSE(p.flag);
  EXPECT_EQ(p.count, 7);
  EXPECT_EQ(p.big, -5);
  EXPECT_EQ(p.ratio, 1e-3f);
  EXPECT_EQ(p.precise, 2);
  EXPECT_EQ(p.text, "a b");
  EXPECT_EQ(p.dtype, DType::kFloat16);
  EXPECT_THAT(p.kernel, ElementsAre(1, 2));
  EXPECT_THAT(p.weights, ElementsAre(100));
  EXPECT_EQ(p.pool_type, kAvg);
  EXPECT_EQ(p.axis, -1);
  EXPECT_EQ(p.bound, std::nullopt);
  EXPECT_EQ(p.mode, 1);
}

TEST(Param, ReadsTheSpellingsOfPythonMXNetAndJson) {
  for (const char* text : {"True", "true", "1"}) EXPECT_TRUE(Parse({{"flag", text}})->param<EveryParam>().flag) << text;
  EXPECT_EQ(Parse({{"count", "3.0"}})->param<EveryParam>().count, 3);
  EXPECT_THAT(Parse({{"kernel", "5"}})->param<EveryParam>().kernel, ElementsAre(5));
  EXPECT_THAT(Parse({{"kernel", " ( 1 , 2 ) "}})->param<EveryParam>().kernel, ElementsAre(1, 2));
  EXPECT_THAT(Parse({{"kernel", "(4,)"}})->param<EveryParam>().kernel, ElementsAre(4));
  EXPECT_THAT(Parse({{"kernel", "()"}})->param<EveryParam>().kernel, ElementsAre());
  EXPECT_EQ(Parse({{"dtype", "2"}})->param<EveryParam>().dtype, DType::kFloat16);
}

struct WrongValue {
  const char* name;
  const char* value;
  const char* want;
};

class WrongValueTest : public ::testing::TestWithParam<WrongValue> {};

TEST_P(WrongValueTest, IsRefusedWithWhatIsWanted) {
  const WrongValue& wrong = GetParam();
  const absl::Status status = Parse({{wrong.name, wrong.value}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(absl::StrCat("attribute '", wrong.name, "'")), HasSubstr(wrong.want)));
}

INSTANTIATE_TEST_SUITE_P(Param, WrongValueTest,
                         ::testing::ValuesIn<WrongValue>({
                             {"flag", "yes", "want True or False"},
                             {"count", "x", "want a whole number"},
                             {"count", "1.5", "want a whole number"},
                             {"count", "", "want a whole number"},
                             {"count", "0", "want 1 to 10"},
                             {"count", "11", "want 1 to 10"},
                             {"count", "4294967297", "of 32 bits"},
                             {"count", "99999999999999999999", "want a whole number"},
                             {"big", "1e300", "want a whole number"},
                             {"ratio", "0", "want more than 0"},
                             {"ratio", "one", "want a number"},
                             {"precise", "-1.5", "want -1 or more"},
                             {"dtype", "float", "float32"},
                             {"kernel", "(1, 2", "want a closing bracket"},
                             {"kernel", "(1, x)", "want a whole number"},
                             {"kernel", "(1,,2)", "want a whole number"},
                             {"kernel", "(0, 1)", "want each element 1 to 100"},
                             {"kernel", "(1, 1, 1, 1)", "want at most 3 elements"},
                             {"weights", "(1, )x", "closing bracket"},
                             {"pool_type", "sum", "{'max', 'avg'}"},
                             {"pool_type", "3", "{'max', 'avg'}"},
                             {"axis", "8", "want -8 to 7"},
                             {"axis", "none", "want a whole number"},
                             {"bound", "x", "want a number"},
                             {"mode", "down", "{'up'} or None"},
                         }));

TEST(Param, NamesAnUnknownAttributeAndTheClosestOnes) {
  EXPECT_THAT(std::string(Parse({{"kernal", "3"}}).status().message()),
              AllOf(HasSubstr("unknown attribute 'kernal'; did you mean 'kernel'"), HasSubstr("(possible attributes: flag")));
}

TEST(Param, NamesAMissingRequiredAttribute) {
  NodeAttrs attrs;
  EXPECT_THAT(std::string(ParamParser<EveryParam>(&attrs).message()),
              HasSubstr("required attribute 'kernel' (tuple of int) is missing"));
}

TEST(Param, BoundsTheLengthOfATuple) {
  std::string ones = "(1";
  for (int i = 0; i < 5000; ++i) ones += ",1";
  EXPECT_THAT(std::string(Parse({{"weights", ones + ")"}}).status().message()), HasSubstr("at most 4096"));
}

TEST(Param, DocumentsItsFields) {
  const std::vector<ArgumentDoc> docs = EveryParam::__FIELDS__();
  ASSERT_EQ(docs.size(), 13u);
  EXPECT_EQ(docs[1].name, "count");
  EXPECT_EQ(docs[1].type, "int");
  EXPECT_FALSE(docs[1].required);
  EXPECT_EQ(docs[1].default_text, "1");
  EXPECT_EQ(docs[1].description, "How many.");
  EXPECT_TRUE(docs[7].required);
  EXPECT_EQ(docs[7].type, "tuple of int");
  EXPECT_EQ(docs[8].default_text, "(0.5, 2)");
  EXPECT_EQ(docs[9].type, "{'max', 'avg'}");
  EXPECT_EQ(docs[10].type, "int or None");
  EXPECT_EQ(docs[10].default_text, "None");
}

}  // namespace
}  // namespace gluond
