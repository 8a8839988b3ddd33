// Yaml: what a file may have, and where it says that a mistake stands.

#include "server/config/yaml.h"

#include <gmock/gmock.h>

#include "gluond/v1/serving.pb.h"
#include "server/config/yaml_message.h"

namespace gluond::server {
namespace {

using testing::HasSubstr;

std::string Times(const std::string& what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += what;
  return text;
}

TEST(YamlTest, EachValueHasItsPlace) {
  const auto yaml = Yaml::Parse("models:\n  digits:\n    sizes: [1, 2]\n    on: true\n    name: 'no'\n", "f.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  const Yaml* const digits = yaml->Find("models")->Find("digits");
  EXPECT_EQ(digits->Find("sizes")->elements()[1].Place(), "f.yaml, line 3, column 16: models.digits.sizes[1]");
  EXPECT_EQ(digits->members()[1].first.Place(), "f.yaml, line 4, column 5: models.digits");
  int64_t size = 0;
  bool on = false;
  std::string name;
  EXPECT_TRUE(digits->Find("sizes")->elements()[1].Get(&size).ok());
  EXPECT_TRUE(digits->Find("on")->Get(&on).ok());
  EXPECT_TRUE(digits->Find("name")->Get(&name).ok());
  EXPECT_EQ(size, 2);
  EXPECT_TRUE(on);
  EXPECT_EQ(name, "no");
  EXPECT_EQ(digits->Find("other"), nullptr);
}

struct BadText {
  const char* name;
  std::string text;
  const char* says;
};

class BadTextTest : public testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, IsRefusedWithItsPlace) {
  const auto yaml = Yaml::Parse(GetParam().text, "f.yaml");
  EXPECT_TRUE(absl::IsInvalidArgument(yaml.status()));
  EXPECT_THAT(std::string(yaml.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Texts, BadTextTest,
                         testing::ValuesIn<BadText>({
                             {"Empty", "", "f.yaml is empty"},
                             {"CommentAlone", "# nothing\n", "f.yaml is empty"},
                             {"NoYaml", "a: [1,\nb: }", "it is no YAML"},
                             {"Tabs", "a:\n\tb: 1\n", "line 2"},
                             {"KeyTwice", "a: 1\nb: 2\na: 3\n", "line 3, column 1: 'a' stands here again, after line 1"},
                             {"KeyTwiceWithin", "m:\n  a: 1\n  a: 3\n", "line 3, column 3: m: 'a' stands here again"},
                             {"KeyIsAList", "[1, 2]: 3\n", "a key is a list"},
                             {"Documents", "a: 1\n---\nb: 2\n", "several documents"},
                             {"Anchor", "a: &x 1\n", "line 1, column 4: a: an anchor"},
                             {"Alias", "a: &x 1\nb: *x\n", "an anchor"},
                             {"Bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n", "an anchor"},
                             {"Merge", "a: {<<: {b: 1}, b: 2}\nc: !!int 3\n", "a tag"},
                             {"Tag", "a: !python/object:os.system x\n", "line 1, column 4: a: a tag"},
                             {"Deep", Times("[", 17) + Times("]", 17), "deeper than 16"},
                             {"Deepest", Times("[", 100'000), "f.yaml, line 1"},
                             {"DeepMaps", Times("{a: ", 17) + Times("}", 17), "deeper than 16"},
                             {"Long", std::string(Yaml::kMostBytes + 1, ' '), "the limit is 1048576"},
                             {"ManyValues", "[" + Times("1,", 100'001) + "]", "more than 100000 values"},
                         }),
                         [](const auto& info) { return info.param.name; });

struct BadMessage {
  const char* name;
  const char* text;
  const char* says;
};

class BadMessageTest : public testing::TestWithParam<BadMessage> {};

TEST_P(BadMessageTest, IsRefusedWithItsPlace) {
  const auto yaml = Yaml::Parse(GetParam().text, "f");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  v1::ServingOptions options;
  const absl::Status status = FillMessage(*yaml, &options);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Messages, BadMessageTest,
                         testing::ValuesIn<BadMessage>({
                             {"NoMap", "[1]", "f, line 1, column 1: want a map, got a list"},
                             {"UnknownField", "instances: 2\nmax_batchsize: 3",
                              "line 2, column 1: there is no key 'max_batchsize' here; did you mean 'max_batch_size'"},
                             {"TextForNumber", "instances: two", "line 1, column 12: instances: want a whole number, got 'two'"},
                             {"QuotedNumber", "instances: '2'", "got '2' in quotes"},
                             {"Fraction", "instances: 1.5", "want a whole number"},
                             {"OutOfRange", "instances: 4294967296", "4294967296 is out of range; want -2147483648 to 2147483647"},
                             {"Overflow", "max_queue_delay_us: 99999999999999999999", "want a whole number of 0 or more"},
                             {"Negative", "max_queue_delay_us: -1", "want a whole number of 0 or more"},
                             {"NoTruth", "batch_invariant: yes", "want true or false, got 'yes'"},
                             {"NumberForList", "preferred_batch_sizes: 4", "want a list, got one value"},
                             {"ListForNumber", "instances: [1]", "want one value, got a list"},
                             {"InList", "preferred_batch_sizes: [4, x]", "preferred_batch_sizes[1]: want a whole number"},
                             {"NoValue", "device:", "want one value, got nothing"},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(YamlMessageTest, FieldsThatTheMapNamesAreSetAndOthersStay) {
  v1::ServingOptions options;
  options.set_instances(3);
  options.add_preferred_batch_sizes(1);
  const auto yaml = Yaml::Parse("{max_batch_size: 8, preferred_batch_sizes: [2, 4], batch_invariant: true, device: cpu}", "f");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  ASSERT_TRUE(FillMessage(*yaml, &options).ok());
  EXPECT_EQ(options.instances(), 3);
  EXPECT_EQ(options.max_batch_size(), 8);
  EXPECT_THAT(options.preferred_batch_sizes(), testing::ElementsAre(2, 4));
  EXPECT_TRUE(options.batch_invariant());
  EXPECT_EQ(options.device(), "cpu");
}

}  // namespace
}  // namespace gluond::server
