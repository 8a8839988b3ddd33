// Regions of shared memory: what may be registered, and what an owner who shrinks one cannot do to the server.

#include "server/wire/shared_regions.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

using testing::HasSubstr;
using testing::Not;

const RegionUser kEverybody{.is_everybody = true};

CallersRegions Of(const SharedRegions& regions) { return {&regions, kEverybody}; }

// An object of so many bytes, as a client makes it.
class Object {
 public:
  explicit Object(const std::string& name, off_t bytes) : key_(absl::StrCat("/gluond-test-", getpid(), "-", name)) {
    fd_ = shm_open(key_.c_str(), O_CREAT | O_RDWR, 0600);
    Resize(bytes);
  }
  ~Object() {
    close(fd_);
    shm_unlink(key_.c_str());
  }
  void Resize(off_t bytes) { EXPECT_EQ(ftruncate(fd_, bytes), 0); }
  off_t size() const {
    struct stat state = {};
    fstat(fd_, &state);
    return state.st_size;
  }
  void Put(const std::string& text, off_t at) {
    EXPECT_EQ(pwrite(fd_, text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
  }
  std::string Get(size_t bytes, off_t at) const {
    std::string text(bytes, '\0');
    EXPECT_EQ(pread(fd_, text.data(), bytes, at), static_cast<ssize_t>(bytes));
    return text;
  }
  const std::string& key() const { return key_; }

 private:
  const std::string key_;
  int fd_ = -1;
};

TEST(SharedRegionsTest, BytesComeAndGoByThem) {
  Object object("a", 64);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("in", {object.key(), 16, 32}).ok());
  object.Put("hello", 20);
  std::string text(5, '\0');
  ASSERT_TRUE(Of(regions).Read("in", 4, 5, text.data()).ok());
  EXPECT_EQ(text, "hello");
  ASSERT_TRUE(Of(regions).Write("in", 27, 5, "world").ok());
  EXPECT_EQ(object.Get(5, 43), "world");
  ASSERT_TRUE(Of(regions).Read("in", 32, 0, text.data()).ok()) << "nothing, at its end";
  const auto list = Of(regions).List("");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->at("in").byte_size, 32u);
  EXPECT_EQ(list->at("in").offset, 16u);
}

TEST(SharedRegionsTest, NothingOutsideOfTheRegionIsRead) {
  Object object("b", 64);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("in", {object.key(), 16, 32}).ok());
  char to[64];
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, size_t>>{{0, 33}, {32, 1}, {33, 0}, {UINT64_MAX, 1}, {UINT64_MAX - 15, 32}, {1, SIZE_MAX}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Of(regions).Read("in", offset, bytes, to))) << offset << " " << bytes;
    EXPECT_TRUE(absl::IsInvalidArgument(Of(regions).Write("in", offset, bytes, to))) << offset << " " << bytes;
  }
  EXPECT_TRUE(absl::IsNotFound(Of(regions).Read("int", 0, 1, to)));
  EXPECT_THAT(std::string(Of(regions).Read("int", 0, 1, to).message()), HasSubstr("did you mean 'in'?"));
}

TEST(SharedRegionsTest, ARegionIsItsRegistrarsAndNotThereForOthers) {
  Object object("g", 64);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("alices", {object.key(), 0, 64}, "alice").ok());
  ASSERT_TRUE(regions.Register("nobodys", {object.key(), 0, 64}).ok());
  const CallersRegions alice(&regions, {"alice"}), eve(&regions, {"eve"}), nameless(&regions, {}), admin(&regions, kEverybody);
  object.Put("mine", 0);
  std::string text(4, '\0');
  for (const CallersRegions* stranger : {&eve, &nameless}) {
    for (const char* region : {"alices", "nobodys"}) {
      EXPECT_TRUE(absl::IsNotFound(stranger->Read(region, 0, 4, text.data())));
      EXPECT_TRUE(absl::IsNotFound(stranger->Write(region, 0, 4, "hers")));
      EXPECT_TRUE(absl::IsNotFound(stranger->List(region).status()));
    }
    EXPECT_TRUE(stranger->List("")->empty());
    EXPECT_THAT(std::string(stranger->Read("alice", 0, 4, text.data()).message()), Not(HasSubstr("alices")));
  }
  EXPECT_EQ(object.Get(4, 0), "mine");
  ASSERT_TRUE(alice.Read("alices", 0, 4, text.data()).ok());
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(alice.List("")->size(), 1u);
  EXPECT_EQ(admin.List("")->size(), 2u);
  EXPECT_TRUE(admin.Write("alices", 0, 4, "ours").ok());
}

TEST(SharedRegionsTest, KeysAreNamesAndNoPaths) {
  SharedRegions regions;
  for (const std::string& key : {std::string(""), std::string("/"), std::string("."), std::string("/.."),
                                 std::string("../etc/passwd"), std::string("/dev/shm/a"), std::string("//a"), std::string("a/b"),
                                 std::string("a\0b", 3), std::string("a b"), std::string(256, 'a')}) {
    const absl::Status status = regions.Register("in", {key, 0, 1});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << key << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no key of shared memory"));
  }
  EXPECT_TRUE(absl::IsNotFound(regions.Register("in", {"/gluond-no-such-object", 0, 1})));
}

TEST(SharedRegionsTest, ARegionLiesInItsObject) {
  Object object("c", 64);
  SharedRegions regions;
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 65}, {64, 1}, {1, 64}, {0, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}, {uint64_t{1} << 62, uint64_t{1} << 62}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(regions.Register("in", {object.key(), offset, bytes}))) << offset << " " << bytes;
  }
  for (const std::string& name : {std::string(), std::string(256, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(regions.Register(name, {object.key(), 0, 1})));
  }
  EXPECT_TRUE(Of(regions).List("")->empty());
}

TEST(SharedRegionsTest, NamesAreTakenOnceAndThereIsALimit) {
  Object object("d", 64);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("in", {object.key(), 0, 1}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(regions.Register("in", {object.key(), 0, 1})));
  for (size_t i = 1; i < SharedRegions::kMost; ++i) {
    ASSERT_TRUE(regions.Register(absl::StrCat("in", i), {object.key(), 0, 1}).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(regions.Register("more", {object.key(), 0, 1})));
  regions.Unregister("in");
  regions.Unregister("in");
  EXPECT_TRUE(regions.Register("more", {object.key(), 0, 1}).ok());
  regions.Unregister("");
  EXPECT_TRUE(Of(regions).List("")->empty());
  EXPECT_TRUE(absl::IsNotFound(Of(regions).List("in").status()));
}

TEST(SharedRegionsTest, AnObjectThatShrinksIsAnErrorAndDoesNotGrowAgain) {
  Object object("e", 8192);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("in", {object.key(), 0, 8192}).ok());
  object.Resize(100);
  char bytes[8192] = {};
  EXPECT_THAT(std::string(Of(regions).Read("in", 0, sizeof(bytes), bytes).message()), HasSubstr("has 100 bytes"));
  EXPECT_TRUE(absl::IsInvalidArgument(Of(regions).Write("in", 0, sizeof(bytes), bytes)));
  EXPECT_EQ(object.size(), 100);
  EXPECT_TRUE(Of(regions).Read("in", 0, 100, bytes).ok());
}

TEST(SharedRegionsTest, AnOwnerWhoShrinksAndForgetsMeanwhileEndsNothing) {
  Object object("f", 1 << 16);
  SharedRegions regions;
  ASSERT_TRUE(regions.Register("in", {object.key(), 0, 1 << 16}).ok());
  std::atomic<bool> over = false;
  std::thread owner([&] {
    while (!over) {
      object.Resize(0);
      object.Resize(1 << 16);
      regions.Unregister("in");
      (void)regions.Register("in", {object.key(), 0, 1 << 16});
    }
  });
  std::string bytes(1 << 16, 'x');
  for (int i = 0; i < 2000; ++i) {
    for (const absl::Status& status :
         {Of(regions).Read("in", 0, bytes.size(), bytes.data()), Of(regions).Write("in", 0, bytes.size(), bytes.data())}) {
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
    }
  }
  over = true;
  owner.join();
}

}  // namespace
}  // namespace gluond::server
