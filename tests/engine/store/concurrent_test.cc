// Saves, loads and lists at the same time: a checkpoint's save keeps nobody from another one, nor from the list.

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "tests/engine/store/store_fixture.h"
#include "tests/engine/store/watched_file_system.h"

namespace gluond {
namespace {

class ConcurrentTest : public StoreTest {
 protected:
  // Steps by name, as List tells them.
  static std::vector<std::string> Listed(const CheckpointStore& store) {
    std::vector<std::string> lines;
    const auto list = store.List();
    EXPECT_OK(list.status());
    for (const CheckpointSummary& summary : *list) lines.push_back(absl::StrCat(summary.name, " ", summary.step));
    return lines;
  }
};

using Lines = std::vector<std::string>;

TEST_F(ConcurrentTest, ASaveKeepsNobodyFromOthersNorFromTheList) {
  std::atomic<bool> stops = false;
  std::promise<void> stopped, released;
  WatchedFileSystem files([&](const Operation& operation) {
    const bool is_large = operation.path.find("/large/v2/parameters.safetensors") != std::string::npos;
    if (is_large && stops.exchange(false)) {
      stopped.set_value();
      released.get_future().wait();
    }
    return operation.run();
  });
  const auto store = OpenStore(files);
  EXPECT_OK(store->Save("large", MakeCheckpoint(1)).status());
  EXPECT_OK(store->Save("small", MakeCheckpoint(2)).status());
  EXPECT_OK(store->Save("old", MakeCheckpoint(3)).status());
  stops = true;
  auto save = std::async(std::launch::async, [&] { return store->Save("large", MakeCheckpoint(4)).status(); });
  stopped.get_future().wait();

  auto others = std::async(std::launch::async, [&] {
    EXPECT_EQ(Listed(*store), (Lines{"large 1", "old 3", "small 2"}));
    const auto loaded = store->Load("small", *memory_);
    EXPECT_OK(loaded.status());
    if (loaded.ok()) {
      EXPECT_EQ(Describe(*loaded), Describe(MakeCheckpoint(2)));
    }
    EXPECT_OK(store->Save("small", MakeCheckpoint(5)).status());
    EXPECT_OK(store->Delete("old"));
    EXPECT_EQ(Listed(*store), (Lines{"large 1", "small 5"}));
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "somebody waits for the save";
  released.set_value();
  EXPECT_OK(save.get());
  others.wait();
  EXPECT_EQ(Listed(*store), (Lines{"large 4", "small 5"}));
}

TEST_F(ConcurrentTest, TheListAlwaysHasWhatIsBeingReplaced) {
  const auto store = OpenStore();
  EXPECT_OK(store->Save("c", MakeCheckpoint(1)).status());
  std::atomic<bool> done = false;
  std::thread saver([&] {
    for (uint64_t i = 2; i < 40; ++i) EXPECT_OK(store->Save("c", MakeCheckpoint(i)).status());
    done = true;
  });
  while (!done) EXPECT_EQ(Listed(*store).size(), 1u);
  saver.join();
  EXPECT_EQ(Listed(*store), (Lines{"c 39"}));
}

// Whoever waits for the lock of a checkpoint that is being deleted gets the one that comes after it.
TEST_F(ConcurrentTest, SavesAndDeletesOfOneNameTakeTurns) {
  const auto store = OpenStore();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const absl::Status status = t % 2 == 0 ? store->Save("c", MakeCheckpoint(t)).status() : store->Delete("c");
        EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(store->Save("c", MakeCheckpoint(7)).status());
  EXPECT_OK(store->Delete("c"));
  EXPECT_EQ(*LocalFileSystem().List(Path()), Lines{});
}

// A name that was never saved leaves nothing in the directory, whatever is tried with it.
TEST_F(ConcurrentTest, LocksLeaveNoFilesBehind) {
  const auto store = OpenStore();
  EXPECT_EQ(store->Load("none", *memory_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->Delete("none").code(), absl::StatusCode::kNotFound);
  WatchedFileSystem full([](const Operation& operation) {
    const bool fails = std::string_view(operation.kind) == "write";
    return fails ? absl::ResourceExhaustedError("the disk is full") : operation.run();
  });
  EXPECT_EQ(OpenStore(full)->Save("none", MakeCheckpoint(1)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*LocalFileSystem().List(Path()), Lines{});
  WriteFileBytes(Path(".lock-killed"), "");
  OpenStore();
  EXPECT_EQ(*LocalFileSystem().List(Path()), Lines{});
}

}  // namespace
}  // namespace gluond
