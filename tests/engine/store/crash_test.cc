// A save that is killed, or whose disk fails, at any operation leaves the old checkpoint or the new one, whole.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/checkpoint.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/engine/store/watched_file_system.h"

namespace gluond {
namespace {

enum class Moment { kBefore, kWithin, kAfter };

class CrashTest : public StoreTest {
 protected:
  // Calls `work` in a child process that kills itself at its k-th operation. True: it did; false: it ended before.
  bool RunAndKill(const std::function<absl::Status(FileSystem&)>& work, int k, Moment moment) const {
    const pid_t child = fork();
    if (child == 0) {
      int operation = 0;
      WatchedFileSystem files([&](const Operation& o) {
        const bool last = ++operation == k;
        if (last && moment == Moment::kWithin) o.half();
        if (last && moment != Moment::kAfter) kill(getpid(), SIGKILL);
        absl::Status status = o.run();
        if (last) kill(getpid(), SIGKILL);
        return status;
      });
      _exit(work(files).ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      EXPECT_EQ(WTERMSIG(status), SIGKILL);
      return true;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "operation " << k;
    return false;
  }

  // Which of `wholes` a new server finds, -1 for no checkpoint; fails if it is none of them.
  int Find(const std::vector<std::string>& wholes) const {
    const absl::StatusOr<Checkpoint> loaded = OpenStore()->Load("m", *memory_);
    if (absl::IsNotFound(loaded.status())) return -1;
    EXPECT_OK(loaded);
    if (!loaded.ok()) return -2;
    const std::string text = Describe(*loaded);
    for (size_t i = 0; i < wholes.size(); ++i)
      if (text == wholes[i]) return static_cast<int>(i);
    ADD_FAILURE() << "neither the old checkpoint nor the new one: " << text.substr(0, 200);
    return -2;
  }

  // The checkpoint's directory holds one version or nothing.
  void ExpectNoLeftovers() const {
    const absl::StatusOr<std::vector<std::string>> entries = LocalFileSystem().List(Path("m"));
    if (!entries.ok() || entries->empty()) return;
    EXPECT_EQ(entries->size(), 2u) << testing::PrintToString(*entries);
    EXPECT_EQ(entries->front(), "CURRENT");
  }

  void Reset() const { std::filesystem::remove_all(Path("m")); }

  const Checkpoint old_ = MakeCheckpoint(1), new_ = MakeCheckpoint(2);
  const std::vector<std::string> wholes_ = {Describe(old_), Describe(new_)};
};

TEST_F(CrashTest, KilledAnywhereInASaveTheOldOrTheNewCheckpointIsWhole) {
  for (Moment moment : {Moment::kBefore, Moment::kWithin, Moment::kAfter}) {
    int outcomes[2] = {0, 0}, k = 1;
    for (bool killed = true; killed; ++k) {
      Reset();
      ASSERT_OK(OpenStore()->Save("m", old_));
      killed = RunAndKill([&](FileSystem& files) { return OpenStore(files)->Save("m", new_).status(); }, k, moment);
      const int found = Find(wholes_);
      ASSERT_GE(found, 0) << "operation " << k;
      ++outcomes[found];
      EXPECT_TRUE(killed || found == 1);
      ExpectNoLeftovers();
      ASSERT_OK(OpenStore()->Save("m", new_));  // And life goes on.
      ASSERT_EQ(Find(wholes_), 1);
    }
    EXPECT_GT(k, 30);  // 5 files, their writes and syncs, 4 directories, a rename, what is removed.
    EXPECT_GT(outcomes[0], 0);
    EXPECT_GT(outcomes[1], 1);  // Also of those that were killed.
  }
}

TEST_F(CrashTest, KilledInAFirstSaveThereIsNoCheckpointOrTheNewOne) {
  for (Moment moment : {Moment::kBefore, Moment::kWithin, Moment::kAfter}) {
    int none = 0, whole = 0, k = 1;
    for (bool killed = true; killed; ++k) {
      Reset();
      killed = RunAndKill([&](FileSystem& files) { return OpenStore(files)->Save("m", new_).status(); }, k, moment);
      const int found = Find(wholes_);
      ASSERT_TRUE(found == -1 || found == 1) << "operation " << k;
      ++(found == 1 ? whole : none);
      ExpectNoLeftovers();
    }
    EXPECT_GT(none, 0);
    EXPECT_GT(whole, 1);
  }
}

TEST_F(CrashTest, KilledInADeleteTheCheckpointIsWholeOrGone) {
  int gone = 0, whole = 0;
  for (Moment moment : {Moment::kBefore, Moment::kAfter}) {
    int k = 1;
    for (bool killed = true; killed; ++k) {
      ASSERT_OK(OpenStore()->Save("m", old_));
      killed = RunAndKill([&](FileSystem& files) { return OpenStore(files)->Delete("m"); }, k, moment);
      const int found = Find(wholes_);
      ASSERT_TRUE(found == -1 || found == 0) << "operation " << k;
      ++(found == 0 ? whole : gone);
      ExpectNoLeftovers();
    }
  }
  EXPECT_GT(gone, 1);
  EXPECT_GT(whole, 1);
}

// The disk is full, or fails, at the k-th operation: an error, and the checkpoint is whole; then all goes well again.
TEST_F(CrashTest, AnErrorAnywhereInASaveLeavesAWholeCheckpoint) {
  int outcomes[2] = {0, 0}, errors = 0;
  for (int k = 1;; ++k) {
    Reset();
    ASSERT_OK(OpenStore()->Save("m", old_));
    int operation = 0;
    WatchedFileSystem files([&](const Operation& o) {
      if (++operation != k) return o.run();
      o.half();
      return absl::ResourceExhaustedError("the disk is full");
    });
    const absl::StatusOr<std::unique_ptr<CheckpointStore>> store = CheckpointStore::Open(files, directory_.path());
    const absl::Status saved = store.ok() ? (*store)->Save("m", new_).status() : store.status();
    const int found = Find(wholes_);
    ASSERT_GE(found, 0) << "operation " << k;
    ++outcomes[found];
    errors += !saved.ok();
    EXPECT_TRUE(saved.ok() || absl::IsResourceExhausted(saved)) << saved;
    if (saved.ok()) {
      EXPECT_EQ(found, 1) << "operation " << k;
    }
    ExpectNoLeftovers();
    if (operation < k) break;
  }
  EXPECT_GT(errors, 25);
  EXPECT_GT(outcomes[0], 0);
  EXPECT_GT(outcomes[1], 0);
}

// What a power failure may take: bytes that were not synced, and names in directories that were not.
TEST_F(CrashTest, NothingIsPublishedBeforeItIsOnTheDisk) {
  std::set<std::string> volatile_paths;
  const auto parent = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  const auto plain = [](std::string path) {  // Without the slash at its end.
    while (path.back() == '/') path.pop_back();
    return path;
  };
  int renames = 0;
  WatchedFileSystem files([&](const Operation& o) {
    const std::string kind = o.kind, path = plain(o.path);
    if (kind == "rename") {
      ++renames;
      EXPECT_TRUE(volatile_paths.empty()) << testing::PrintToString(volatile_paths);
    }
    if (kind == "sync" || kind == "sync directory") volatile_paths.erase(path);
    if (kind == "write") volatile_paths.insert(path);
    if (kind == "create" || kind == "make directory") volatile_paths.insert({path, parent(path)});
    if (kind == "rename") volatile_paths.insert(parent(path));
    return o.run();
  });
  const auto store = OpenStore(files);
  volatile_paths.clear();  // The store's own parent.
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(store->Save("m", i == 0 ? old_ : new_));
    EXPECT_TRUE(volatile_paths.empty()) << testing::PrintToString(volatile_paths);
  }
  EXPECT_EQ(renames, 2);
}

}  // namespace
}  // namespace gluond
