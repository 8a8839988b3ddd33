// Files of identities and the like: what somebody is writing counts when it stands still, and no pipe is waited for.

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "server/config/operator_file.h"
#include "server/identity/lines.h"

namespace gluond::server {
namespace {

using std::chrono::milliseconds;

class WatchedFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  // A look so many milliseconds after the first.
  bool Look(int64_t at) { return file_.Look(WatchedFile::Clock::time_point(milliseconds(at))).value(); }

  const std::string path_ = testing::TempDir() + "/watched";
  WatchedFile file_{"--file", path_, /*most_mib=*/1};
};

TEST_F(WatchedFileTest, CountsAtOnceWhenItIsReadFirst) {
  Write("a");
  EXPECT_TRUE(Look(0));
  EXPECT_FALSE(Look(1));
  EXPECT_EQ(file_.text(), "a");
}

TEST_F(WatchedFileTest, CountsWhenItHasStoodStill) {
  Write("alice\nbob\n");
  EXPECT_TRUE(Look(0));
  Write("alice\n");  // Somebody writes it anew, and has come so far.
  EXPECT_FALSE(Look(500));
  EXPECT_FALSE(file_.is_still());
  EXPECT_FALSE(Look(1499));
  Write("alice\nbob\ncarol\n");
  EXPECT_FALSE(Look(1500));
  EXPECT_EQ(file_.text(), "alice\nbob\n");
  EXPECT_FALSE(Look(2499));
  EXPECT_TRUE(Look(2500));
  EXPECT_TRUE(file_.is_still());
  EXPECT_EQ(file_.text(), "alice\nbob\ncarol\n");
  EXPECT_FALSE(Look(9000));
}

TEST_F(WatchedFileTest, ThatIsAgainAsItWasHasNotChanged) {
  Write("a");
  EXPECT_TRUE(Look(0));
  Write("");
  EXPECT_FALSE(Look(500));
  Write("a");
  EXPECT_FALSE(Look(1000));
  EXPECT_FALSE(Look(5000));
  Write("");  // Its time begins anew.
  EXPECT_FALSE(Look(6000));
  EXPECT_FALSE(Look(6500));
  EXPECT_TRUE(Look(7000));
}

TEST_F(WatchedFileTest, ThatCannotBeReadIsToldOnceAndHasNotStoodStill) {
  Write("a");
  EXPECT_TRUE(Look(0));
  Write("b");
  EXPECT_FALSE(Look(500));
  std::filesystem::remove(path_);
  const auto after = [](int64_t at) { return WatchedFile::Clock::time_point(milliseconds(at)); };
  EXPECT_EQ(file_.Look(after(1000)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Look(1500));
  Write("b");
  EXPECT_FALSE(Look(2000));
  EXPECT_TRUE(Look(3000));
}

TEST_F(WatchedFileTest, OfMoreBytesThanItMayHaveIsNotRead) {
  Write("a");
  std::filesystem::resize_file(path_, int64_t{1} << 40);  // All but the first are no bytes of the disk.
  const absl::Status status = file_.Look().status();
  EXPECT_EQ(status.message(), "--file=" + path_ + " cannot be read: it has more than 1048576 bytes");
}

TEST(OperatorFile, ThatIsAPipeOrAFolderOrEndlessIsNone) {
  const std::string pipe = testing::TempDir() + "/pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);  // With nobody at its other end: who opens it to read would wait.
  for (const std::string& path : {pipe, testing::TempDir(), std::string("/dev/zero")}) {
    EXPECT_EQ(ReadOperatorFile(path, 100).status().message(), "it is no regular file") << path;
  }
  EXPECT_EQ(ReadOperatorFile("/no/such", 100).status().message(), "No such file or directory");
  EXPECT_FALSE(ReadOperatorFile("/proc/self/status", 1 << 20)->empty());  // It has no size.
  EXPECT_EQ(ReadOperatorFile("/proc/self/status", 10).status().message(), "it has more than 10 bytes");
}

}  // namespace
}  // namespace gluond::server
