// Large blocks are used again, make room for what is charged, and do not stay when nobody wants them.

#include "engine/runtime/host_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "engine/runtime/device_allocator.h"

namespace gluond {
namespace {

constexpr size_t kBlock = 2 << 20;

class HostBlocksTest : public testing::Test {
 protected:
  void* Taken(size_t bytes = kBlock) {
    void* const block = blocks_.Take(bytes);
    EXPECT_NE(block, nullptr);
    std::memset(block, 7, bytes);
    return block;
  }

  HostBlocks blocks_{4 * int64_t{kBlock}};
};

TEST_F(HostBlocksTest, GivesTheNewestOfTheSameSize) {
  void* const first = Taken();
  void* const second = Taken();
  void* const large = Taken(2 * kBlock);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 4096, 0u);
  for (void* block : {first, second}) blocks_.GiveBack(block, kBlock);
  blocks_.GiveBack(large, 2 * kBlock);
  EXPECT_EQ(blocks_.kept_bytes(), 4 * int64_t{kBlock});
  EXPECT_EQ(blocks_.Take(kBlock - 5), second) << "within a page, sizes are the same";
  EXPECT_EQ(blocks_.Take(kBlock), first);
  void* const fresh = Taken();
  EXPECT_NE(fresh, large) << "a block of another size";
  EXPECT_EQ(blocks_.kept_bytes(), 2 * int64_t{kBlock});
  for (void* block : {first, second, fresh}) blocks_.GiveBack(block, kBlock);
}

TEST_F(HostBlocksTest, KeepsSoMuchAndTheOldestGoFirst) {
  std::vector<void*> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(Taken());
  for (void* block : taken) blocks_.GiveBack(block, kBlock);
  EXPECT_EQ(blocks_.kept_bytes(), 4 * int64_t{kBlock});
  for (int i = 4; i > 0; --i) EXPECT_EQ(blocks_.Take(kBlock), taken[i]) << i;
  EXPECT_EQ(blocks_.kept_bytes(), 0);
  for (int i = 4; i > 0; --i) blocks_.GiveBack(taken[i], kBlock);
  void* const too_large = Taken(5 * kBlock);
  blocks_.GiveBack(too_large, 5 * kBlock);
  EXPECT_EQ(blocks_.kept_bytes(), 0);
}

TEST_F(HostBlocksTest, KeepsNoMoreThanItIsTold) {
  std::vector<void*> taken = {Taken(), Taken(), Taken(), Taken()};
  for (void* block : taken) blocks_.GiveBack(block, kBlock);
  blocks_.KeepAtMost(5 * int64_t{kBlock});
  EXPECT_EQ(blocks_.kept_bytes(), 4 * int64_t{kBlock});
  blocks_.KeepAtMost(2 * int64_t{kBlock} - 1);
  EXPECT_EQ(blocks_.kept_bytes(), int64_t{kBlock});
  EXPECT_EQ(blocks_.Take(kBlock), taken[3]);
  blocks_.GiveBack(taken[3], kBlock);
  blocks_.KeepAtMost(-1);
  EXPECT_EQ(blocks_.kept_bytes(), 0);
}

TEST_F(HostBlocksTest, DropsWhatNobodyHasWantedForAWhile) {
  void* const old = Taken();
  void* const young = Taken();
  blocks_.GiveBack(old, kBlock);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const auto between = HostBlocks::Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  blocks_.GiveBack(young, kBlock);
  blocks_.DropKeptBefore(between);
  EXPECT_EQ(blocks_.kept_bytes(), int64_t{kBlock});
  EXPECT_EQ(blocks_.Take(kBlock), young);
  blocks_.GiveBack(young, kBlock);
  blocks_.KeepAtMost(0);
  EXPECT_EQ(blocks_.kept_bytes(), 0);
}

TEST_F(HostBlocksTest, SaysWhereTheHostHasNoMore) {
  blocks_.GiveBack(Taken(), kBlock);
  EXPECT_EQ(blocks_.Take(size_t{1} << 60), nullptr);
  EXPECT_EQ(blocks_.Take(~size_t{0}), nullptr);
  EXPECT_EQ(blocks_.kept_bytes(), 0) << "it has tried to do without what it keeps";
}

TEST_F(HostBlocksTest, GivesEachBlockToOneThread) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 300; ++i) {
        auto* const block = static_cast<std::atomic<int>*>(blocks_.Take(kBlock));
        block->store(t);
        std::this_thread::yield();
        EXPECT_EQ(block->load(), t);
        blocks_.GiveBack(block, kBlock);
        if (i % 50 == 0) blocks_.KeepAtMost(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(blocks_.kept_bytes(), 4 * int64_t{kBlock});
}

// The kernel has found memory for so many of the `bytes` at `block`.
size_t ResidentBytes(void* block, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(mincore(block, bytes, pages.data()), 0);
  return page * static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](auto found) { return found & 1; }));
}

constexpr size_t kOdd = 3 * kBlock + kBlock / 2;

TEST_F(HostBlocksTest, FindsPagesForThoseWhoWriteAllOfThem) {
  EXPECT_EQ(ResidentBytes(blocks_.Take(kOdd), kOdd), 0u);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 10; ++i) {
        void* const block = blocks_.Take(kOdd, /*find_pages=*/true);
        EXPECT_EQ(ResidentBytes(block, kOdd), kOdd);
        munmap(block, kOdd);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class LargeTensorsTest : public testing::Test {
 protected:
#ifdef __SANITIZE_ADDRESS__
  void SetUp() override { GTEST_SKIP() << "the sanitizer is to see each allocation"; }
#endif
  void TearDown() override { HostBlocks::OfProcess().KeepAtMost(0); }

  Tensor Large(int64_t bytes = kBlock) { return Tensor::Empty(*allocator_, Shape{bytes}, DType::kUint8).value(); }

  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", 4 * int64_t{kBlock}, "--flag");
  const std::unique_ptr<DeviceAllocator> allocator_ = *DeviceAllocator::Create(Device(), budget_);
};

TEST_F(LargeTensorsTest, UseFreedMemoryAgainThatIsChargedToNobody) {
  const void* const first = Large().data();
  EXPECT_EQ(budget_->used(), 0);
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), int64_t{kBlock});
  const Tensor again = Large();
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(budget_->used(), int64_t{kBlock});
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), 0);
}

TEST_F(LargeTensorsTest, AreNotRefusedForWhatIsKept) {
  (void)Large(3 * kBlock);
  const Tensor half = Large(2 * kBlock);
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), 0) << "three kept and two used would be more than four";
  const Tensor rest = Large(2 * kBlock);
  EXPECT_EQ(Tensor::Empty(*allocator_, Shape{1}, DType::kUint8).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LargeTensorsTest, SmallOnesMakeRoomToo) {
  const Tensor most = Large(3 * kBlock);
  (void)Large();
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), int64_t{kBlock});
  const auto small = Tensor::Empty(*allocator_, Shape{1}, DType::kUint8);
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), 0);
}

TEST_F(LargeTensorsTest, AndWhatIsKeptNeverPassTheLimitTogether) {
  const auto server = std::make_shared<Budget>("the server", 6 * int64_t{kBlock}, "--flag");
  std::vector<std::thread> threads;
  std::atomic<bool> passed = false;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto session = std::make_shared<Budget>("a session", 3 * int64_t{kBlock}, "--flag", server);
      const auto allocator = *DeviceAllocator::Create(Device(), session);
      for (int i = 0; i < 300; ++i) {
        const auto bytes = static_cast<int64_t>(kBlock) * (1 + (i + t) % 3);
        const auto tensor = Tensor::Empty(*allocator, Shape{bytes}, DType::kUint8);
        // This thread's charge stands, beside any of the others.
        if (tensor.ok() && HostBlocks::OfProcess().kept_bytes() > 6 * int64_t{kBlock} - bytes) passed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(passed);
  EXPECT_EQ(server->used(), 0);
  EXPECT_LE(HostBlocks::OfProcess().kept_bytes(), 6 * int64_t{kBlock});
}

TEST_F(LargeTensorsTest, GiveTheirMemoryBackWhenIdle) {
  (void)Large();
  const auto end = HostBlocks::Clock::now() + std::chrono::seconds(60);
  while (HostBlocks::OfProcess().kept_bytes() > 0 && HostBlocks::Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(HostBlocks::OfProcess().kept_bytes(), 0);
}

}  // namespace
}  // namespace gluond
