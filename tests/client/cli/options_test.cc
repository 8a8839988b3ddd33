#include "client/cli/options.h"

#include "client/cli/nearest.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() {
    options_.Add("text", &text_, "A text.");
    options_.Add("count", &count_, "A count.");
    options_.Add("rate", &rate_, "A rate.");
    options_.Add("quiet", &quiet_, "Says less.");
    options_.Add("wait", &wait_, "A time.");
    options_.AddPositional("NAME", &name_, "A name.");
  }

  std::string Error(const std::vector<std::string>& arguments) {
    const auto go_on = options_.Parse(arguments);
    EXPECT_EQ(go_on.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(go_on.status().message());
  }

  std::string text_ = "default";
  int64_t count_ = 3;
  double rate_ = 0.5;
  bool quiet_ = false;
  absl::Duration wait_ = absl::Seconds(2);
  std::string name_;
  Options options_{"gluond test", "Tests."};
};

TEST_F(OptionsTest, AWrongCommandLineIsToldFromOtherErrorsAndTheNearestNameIsTold) {
  EXPECT_EQ(Error({"--cuont=3"}), "there is no option --cuont (did you mean '--count'?); `gluond test --help` explains.");
  EXPECT_EQ(Error({"--address=x"}), "there is no option --address; `gluond test --help` explains.");
  EXPECT_TRUE(IsWrongCommandLine(options_.Parse({"--count=x"}).status()));
  EXPECT_TRUE(IsWrongCommandLine(options_.Fail("a NAME is missing")));
  EXPECT_FALSE(IsWrongCommandLine(absl::InvalidArgumentError("the server's")));
}

TEST(DidYouMean, NamesTheNearestOrNothing) {
  const std::vector<std::string> names = {"train", "predict", "publish"};
  EXPECT_EQ(DidYouMean("tain", names), " (did you mean 'train'?)");
  EXPECT_EQ(DidYouMean("rtain", names), " (did you mean 'train'?)");
  EXPECT_EQ(DidYouMean("pub", names), " (did you mean 'publish'?)");
  EXPECT_EQ(DidYouMean("certificates", names), "");
  EXPECT_EQ(DidYouMean("", names), "");
}

TEST_F(OptionsTest, WithoutArgumentsDefaultsStay) {
  EXPECT_TRUE(*options_.Parse({}));
  EXPECT_EQ(text_, "default");
  EXPECT_EQ(count_, 3);
}

TEST_F(OptionsTest, ReadsBothSpellingsOfEveryType) {
  EXPECT_TRUE(*options_.Parse({"--text=a=b", "--count", "-7", "lenet", "--rate=1e3", "--quiet", "--wait", "500ms"}));
  EXPECT_EQ(text_, "a=b");
  EXPECT_EQ(count_, -7);
  EXPECT_EQ(rate_, 1000);
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(wait_, absl::Milliseconds(500));
  EXPECT_EQ(name_, "lenet");
}

TEST_F(OptionsTest, BooleansCanBeTurnedOff) {
  quiet_ = true;
  EXPECT_TRUE(*options_.Parse({"--noquiet"}));
  EXPECT_FALSE(quiet_);
  EXPECT_TRUE(*options_.Parse({"--quiet=true"}));
  EXPECT_TRUE(quiet_);
}

TEST_F(OptionsTest, AfterTwoDashesEverythingIsPositional) {
  EXPECT_TRUE(*options_.Parse({"--", "--odd-name"}));
  EXPECT_EQ(name_, "--odd-name");
}

TEST_F(OptionsTest, MistakesAreNamedWithAWayOut) {
  EXPECT_EQ(Error({"--count=many"}), "--count wants a whole number, got 'many'; `gluond test --help` explains.");
  EXPECT_EQ(Error({"--count=99999999999999999999"}),
            "--count wants a whole number, got '99999999999999999999'; `gluond test --help` explains.");
  EXPECT_EQ(Error({"--text"}), "--text wants a text; `gluond test --help` explains.");
  EXPECT_EQ(Error({"--notext"}), "there is no option --notext (did you mean '--text'?); `gluond test --help` explains.");
  EXPECT_EQ(Error({"one", "two"}), "unexpected argument 'two'; `gluond test --help` explains.");
}

TEST_F(OptionsTest, HelpNamesEveryOptionAndItsDefault) {
  options_.AddExample("gluond test lenet");
  testing::internal::CaptureStdout();
  EXPECT_FALSE(*options_.Parse({"--count=1", "--help"}));
  const std::string page = testing::internal::GetCapturedStdout();
  EXPECT_EQ(page, options_.Help());
  EXPECT_NE(page.find("Usage: gluond test [NAME] [OPTION]...\n\nTests.\n"), std::string::npos);
  EXPECT_NE(page.find("  --count=NUMBER  (default: 3)\n      A count.\n"), std::string::npos);
  EXPECT_NE(page.find("  --quiet\n"), std::string::npos);
  EXPECT_NE(page.find("\nFor example:\n  gluond test lenet\n"), std::string::npos);
}

}  // namespace
}  // namespace gluond::cli
