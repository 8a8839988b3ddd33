// The file --serve=FILE: the test's first is the manual; the others are mistakes, each told where it stands.

#include "server/serving/serve_file.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ServeFileTest, DeclaresVersionsAndRoutes) {
  const auto declaration = ParseServeFile(R"(
models:
  digits:
    options: {max_batch_size: 32, preferred_batch_sizes: [8, 16], max_queue_delay_us: 500}
    versions:
      1: {checkpoint: digits-may}
      7:
        checkpoint: digits-june
        options: {instances: 2, preferred_batch_sizes: [4]}
    labels: {stable: 1, canary: 7}
    weights: {1: 90, 7: 10}
  fashion:
    versions:
      3: {checkpoint: '2026'}
)",
                                          "serve.yaml");
  ASSERT_TRUE(declaration.ok()) << declaration.status();
  EXPECT_EQ(Summary(*declaration), "2 models, 3 versions");
  const DeclaredModel& digits = declaration->at("digits");
  EXPECT_THAT(digits.routes.labels, ElementsAre(Pair("canary", 7), Pair("stable", 1)));
  EXPECT_THAT(digits.routes.weights, ElementsAre(Pair(1, 90), Pair(7, 10)));
  EXPECT_EQ(digits.versions.at(1).checkpoint, "digits-may");
  EXPECT_EQ(digits.versions.at(1).options.instances, 1);
  EXPECT_THAT(digits.versions.at(1).options.preferred_batch_sizes, ElementsAre(8, 16));
  EXPECT_EQ(digits.versions.at(7).options.instances, 2);
  EXPECT_EQ(digits.versions.at(7).options.max_batch_size, 32) << "the model's, where the version has none";
  EXPECT_THAT(digits.versions.at(7).options.preferred_batch_sizes, ElementsAre(4));
  EXPECT_EQ(digits.versions.at(7).options.max_queue_delay, std::chrono::microseconds(500));
  EXPECT_EQ(declaration->at("fashion").versions.at(3).checkpoint, "2026");
}

TEST(ServeFileTest, NoModelsAreDeclaredByAnEmptyMapAlone) {
  const auto none = ParseServeFile("models: {}\n", "f");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(Summary(*none), "0 models, 0 versions");
  // A file that was cut short does not end what is served.
  for (const char* text : {"", "# models\n", "models:\n"}) EXPECT_FALSE(ParseServeFile(text, "f").ok()) << text;
}

struct Mistake {
  const char* name;
  std::string text;
  const char* says;
};

// A model with one version, and more keys.
std::string OneModel(const std::string& more) { return "models:\n  m:\n    versions:\n      1: {checkpoint: c}\n" + more; }

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsToldWhereItStands) {
  const auto declaration = ParseServeFile(GetParam().text, "f");
  EXPECT_TRUE(absl::IsInvalidArgument(declaration.status())) << declaration.status();
  EXPECT_THAT(std::string(declaration.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Files, MistakeTest,
    testing::ValuesIn<Mistake>({
        {"List", "- m\n", "f, line 1, column 1: want a map"},
        {"UnknownKey", "modles: {}\n", "there is no key 'modles' here; did you mean 'models'?"},
        {"UnknownKeyOfModel", OneModel("    lables: {a: 1}\n"),
         "line 5, column 5: models.m: there is no key 'lables' here; did you mean 'labels'?"},
        {"NameIsAPath", "models: {../../etc: {versions: {1: {checkpoint: c}}}}", "f, line 1, column 10: models"},
        {"NameIsLong", "models: {" + std::string(101, 'a') + ": {versions: {1: {checkpoint: c}}}}", "the limit is 100"},
        {"NoVersions", "models: {m: {}}", "it has no `versions`"},
        {"EmptyVersions", "models: {m: {versions: {}}}", "it has no version"},
        {"VersionsAreAList", "models: {m: {versions: [1]}}", "want a map, got a list"},
        {"VersionZero", "models: {m: {versions: {0: {checkpoint: c}}}}", "'0' is no version's number"},
        {"VersionIsNegative", "models: {m: {versions: {-1: {checkpoint: c}}}}", "no version's number"},
        {"VersionIsAWord", "models: {m: {versions: {one: {checkpoint: c}}}}", "want a whole number, got 'one'"},
        {"VersionWithZeros", "models: {m: {versions: {01: {checkpoint: c}}}}", "without zeros before it"},
        {"VersionIsHuge", "models: {m: {versions: {1000000001: {checkpoint: c}}}}", "want 1 to 1000000000"},
        {"VersionTwice", "models: {m: {versions: {1: {checkpoint: c}, 1: {checkpoint: d}}}}", "stands here again"},
        {"NoCheckpoint", "models: {m: {versions: {1: {}}}}", "models.m.versions.1: it has no `checkpoint`"},
        {"NothingAtVersion", "models: {m: {versions: {1: }}}", "want a map, got nothing"},
        {"CheckpointIsAPath", "models: {m: {versions: {1: {checkpoint: /etc/passwd}}}}", "versions.1.checkpoint"},
        {"CheckpointIsHidden", "models: {m: {versions: {1: {checkpoint: .live}}}}", "versions.1.checkpoint"},
        {"CheckpointIsAList", "models: {m: {versions: {1: {checkpoint: [c]}}}}", "want one value, got a list"},
        {"OptionOutOfRange", OneModel("    options: {instances: 65}\n"),
         "line 5, column 26: models.m.options.instances: instances is 65; want 1 to 64"},
        {"OptionOfTheVersion", "models: {m: {versions: {1: {checkpoint: c, options: {instances: -1}}}}}",
         "versions.1.options.instances: instances is -1"},
        {"OptionsContradict", OneModel("    options: {batch_invariant: true}\n"),
         "models.m.options.batch_invariant: batch_invariant needs"},
        {"NoSuchDevice", OneModel("    options: {device: tpu}\n"), "models.m.options.device: "},
        {"LabelOfNoVersion", OneModel("    labels: {stable: 2}\n"),
         "line 5, column 22: models.m.labels.stable: there is no version 2"},
        {"LabelIsANumber", OneModel("    labels: {7: 1}\n"), "the label '7' is a number"},
        {"LabelIsAPath", OneModel("    labels: {a/b: 1}\n"), "models.m.labels"},
        {"LabelsAreAList", OneModel("    labels: [stable]\n"), "want a map, got a list"},
        {"WeightOfNoVersion", OneModel("    weights: {2: 1}\n"), "there is no version 2"},
        {"WeightsOfZero", OneModel("    weights: {1: 0}\n"), "the weights' sum is 0"},
        {"WeightIsHuge", OneModel("    weights: {1: 4294967296}\n"), "want 0 to 4294967295"},
        {"WeightIsNegative", OneModel("    weights: {1: -1}\n"), "want a whole number of 0 or more"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ServeFileTest, MoreLabelsThanAllowedAreRefused) {
  std::string labels;
  for (int i = 0; i < 65; ++i) labels += "a" + std::to_string(i) + ": 1, ";
  EXPECT_THAT(std::string(ParseServeFile(OneModel("    labels: {" + labels + "}\n"), "f").status().message()),
              HasSubstr("65 labels, the limit is 64"));
}

TEST(ServeFileTest, AFileThatIsNoneIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadServeFile("/no/such/file").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadServeFile("/dev/zero").status())) << "it would never end";
  EXPECT_TRUE(absl::IsNotFound(ReadServeFile("/").status()));
  const std::string path = testing::TempDir() + "/serve.yaml";
  std::ofstream(path) << "models: {}";
  EXPECT_TRUE(ReadServeFile(path).ok());
  std::ofstream(path) << std::string(2 << 20, ' ');
  EXPECT_TRUE(absl::IsNotFound(ReadServeFile(path).status())) << "it is longer than any such file";
  std::remove(path.c_str());
}

}  // namespace
}  // namespace gluond::server
