#include "engine/store/memory_file_system.h"

#include <string>

#include "engine/core/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

using testing::ElementsAre;

std::string Read(const MemoryFileSystem& files, const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadWhole(files, path, 100);
  return bytes.ok() ? *bytes : bytes.status().ToString();
}

TEST(MemoryFileSystem, KeepsFilesInDirectories) {
  MemoryFileSystem files;
  ASSERT_TRUE(files.MakeDirectory("/a/").ok());
  EXPECT_TRUE(files.IsDirectory("/a"));
  EXPECT_FALSE(files.IsDirectory("/b"));
  ASSERT_TRUE((*files.Create("/a/x"))->Append("first").ok());
  const auto file = *files.Create("/a/x");  // Replaces it.
  ASSERT_TRUE(file->Append("se").ok());
  ASSERT_TRUE(file->Append("cond").ok());
  ASSERT_TRUE(file->Sync().ok());
  files.Add("/a/b/c/y", "deep");
  EXPECT_EQ(Read(files, "/a/x"), "second");
  EXPECT_EQ(Read(files, "/a/b/c/y"), "deep");
  EXPECT_THAT(*files.List("/a"), ElementsAre("b", "x"));
  EXPECT_THAT(*files.List("/a/b/"), ElementsAre("c"));
  EXPECT_EQ(*files.TreeBytes("/a"), 10);
  EXPECT_EQ(files.bytes(), 10);
  EXPECT_EQ(files.files().size(), 2U);
}

TEST(MemoryFileSystem, RenamesFilesAndTrees) {
  MemoryFileSystem files;
  files.Add("/a/x", "1");
  files.Add("/a/b/y", "2");
  files.Add("/ab", "3");
  ASSERT_TRUE(files.Rename("/a/x", "/a/z").ok());
  ASSERT_TRUE(files.Rename("/a", "/c").ok());
  EXPECT_EQ(Read(files, "/c/z"), "1");
  EXPECT_EQ(Read(files, "/c/b/y"), "2");
  EXPECT_EQ(Read(files, "/ab"), "3");  // Its name begins alike.
  EXPECT_FALSE(files.IsDirectory("/a"));
  EXPECT_EQ(files.Rename("/a", "/d").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(files.RemoveTree("/c/").ok());
  ASSERT_TRUE(files.RemoveTree("/nothing").ok());
  EXPECT_EQ(files.files().size(), 1U);
  EXPECT_EQ(files.Open("/c/z").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files.List("/c").status().code(), absl::StatusCode::kNotFound);
}

TEST(MemoryFileSystem, ReadsNoFurtherThanTheEnd) {
  MemoryFileSystem files;
  files.Add("/x", "12345");
  const auto file = *files.Open("/x");
  std::string bytes(3, ' ');
  ASSERT_TRUE(file->Skip(1).ok());
  ASSERT_TRUE(file->Read(bytes.data(), 3).ok());
  EXPECT_EQ(bytes, "234");
  EXPECT_EQ(file->Read(bytes.data(), 2).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(file->Skip(2).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(file->Read(bytes.data(), 1).ok());
  EXPECT_EQ(file->size(), 5);
}

}  // namespace
}  // namespace gluond
