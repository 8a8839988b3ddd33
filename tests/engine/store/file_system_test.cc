#include "engine/store/file_system.h"

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/store/store_fixture.h"

namespace gluond {
namespace {

class FileSystemTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  const TemporaryDirectory directory_;
  FileSystem& files_ = LocalFileSystem();
};

TEST_F(FileSystemTest, ReadsWhatItWrote) {
  std::unique_ptr<WritableFile> file = *files_.Create(Path("a"));
  EXPECT_OK(file->Append("one "));
  EXPECT_OK(file->Append("two"));
  EXPECT_OK(file->Sync());
  EXPECT_EQ(*ReadWhole(files_, Path("a"), 7), "one two");
  EXPECT_TRUE(absl::IsResourceExhausted(ReadWhole(files_, Path("a"), 6).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadWhole(files_, Path("b"), 6).status()));

  std::unique_ptr<ReadableFile> reader = *files_.Open(Path("a"));
  char bytes[8];
  EXPECT_EQ(reader->size(), 7);
  EXPECT_OK(reader->Read(bytes, 4));
  EXPECT_TRUE(absl::IsDataLoss(reader->Read(bytes, 4)));
  reader = *files_.Open(Path("a"));
  EXPECT_OK(reader->Skip(2));
  EXPECT_OK(reader->Skip(2));
  EXPECT_OK(reader->Read(bytes, 3));
  EXPECT_EQ(absl::string_view(bytes, 3), "two");
}

TEST_F(FileSystemTest, RenameReplaces) {
  WriteFileBytes(Path("old"), "old");
  WriteFileBytes(Path("new"), "new");
  EXPECT_OK(files_.Rename(Path("new"), Path("old")));
  EXPECT_EQ(ReadFileBytes(Path("old")), "new");
  EXPECT_EQ(*files_.List(Path("")), std::vector<std::string>{"old"});
}

TEST_F(FileSystemTest, FollowsNoLinks) {
  WriteFileBytes(Path("target"), "precious");
  ASSERT_OK(files_.MakeDirectory(Path("folder")));
  WriteFileBytes(Path("folder/file"), "precious");
  std::filesystem::create_symlink(Path("target"), Path("link"));
  std::filesystem::create_symlink(Path("folder"), Path("folder_link"));
  EXPECT_TRUE(absl::IsFailedPrecondition(files_.Open(Path("link")).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(files_.Create(Path("link")).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(files_.MakeDirectory(Path("folder_link"))));
  EXPECT_FALSE(files_.IsDirectory(Path("folder_link")));
  EXPECT_OK(files_.RemoveTree(Path("folder_link")));
  EXPECT_EQ(ReadFileBytes(Path("target")), "precious");
  EXPECT_EQ(ReadFileBytes(Path("folder/file")), "precious");
}

TEST_F(FileSystemTest, APipeIsNoFileAndNobodyWaitsForItsOtherEnd) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_OK(files_.MakeDirectory(Path("folder")));
  std::filesystem::create_symlink("nowhere", Path("link"));
  for (const char* name : {"pipe", "folder", "link"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(files_.Open(Path(name)).status())) << name;
    EXPECT_TRUE(absl::IsFailedPrecondition(files_.Create(Path(name)).status())) << name;
    for (const auto mode : {FileSystem::LockMode::kShared, FileSystem::LockMode::kExclusive}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(files_.Lock(Path(name), mode).status())) << name;
    }
  }
}

TEST_F(FileSystemTest, AnExclusiveLockKeepsOthersOut) {
  using LockMode = FileSystem::LockMode;
  auto first = *files_.Lock(Path(".lock"), LockMode::kShared);
  auto second = *files_.Lock(Path(".lock"), LockMode::kShared);  // Does not wait.
  std::atomic<bool> locked = false;
  std::thread writer([&] {
    const auto third = files_.Lock(Path(".lock"), LockMode::kExclusive);
    locked = true;
  });
  first.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(locked);
  second.reset();
  writer.join();
  EXPECT_TRUE(locked);
}

}  // namespace
}  // namespace gluond
