// Copies of all sizes keep their contents when the host's memory changes afterwards.

#include "ops/kernel/cuda/pinned_copies.h"

#include <cuda_runtime.h>

#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gluond::ops {
namespace {

class PinnedCopiesTest : public ::testing::Test {
 protected:
  PinnedCopiesTest() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~PinnedCopiesTest() override { cudaStreamDestroy(stream_); }

  static std::vector<int> Numbers(size_t n, int first) {
    std::vector<int> numbers(n);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }
  void* NewMemory(size_t bytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocAsync(&data, bytes, stream_), cudaSuccess);
    return data;
  }
  // Copies to the device and back, and overwrites the host's memory in between.
  void ExpectKept(size_t n, int first) {
    std::vector<int> numbers = Numbers(n, first);
    void* const device = NewMemory(n * sizeof(int));
    ASSERT_EQ(copies_.ToDevice(device, numbers.data(), n * sizeof(int), stream_), cudaSuccess);
    numbers.assign(n, -1);
    ASSERT_EQ(copies_.ToHost(numbers.data(), device, n * sizeof(int), stream_), cudaSuccess);
    EXPECT_TRUE(numbers == Numbers(n, first)) << n << " numbers from " << first << " on";
    EXPECT_EQ(cudaFreeAsync(device, stream_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
  PinnedCopies copies_;
};

TEST_F(PinnedCopiesTest, KeepWhatTheyCopy) {
  // One number, a block's end, more than all blocks.
  for (const size_t n : {1, 3, 524287, 524288, 524289, 3000000}) ExpectKept(n, static_cast<int>(n));
}

// More than all blocks hold, in copies that nobody waits for.
TEST_F(PinnedCopiesTest, ManySmallOnesGoThroughTheRing) {
  constexpr size_t kEach = 25000, kCopies = 200;
  int* const device = static_cast<int*>(NewMemory(kEach * kCopies * sizeof(int)));
  for (size_t i = 0; i < kCopies; ++i) {
    std::vector<int> numbers = Numbers(kEach, static_cast<int>(i * kEach));
    ASSERT_EQ(copies_.ToDevice(device + i * kEach, numbers.data(), kEach * sizeof(int), stream_), cudaSuccess);
    numbers.assign(kEach, -1);
  }
  std::vector<int> all(kEach * kCopies);
  ASSERT_EQ(copies_.ToHost(all.data(), device, all.size() * sizeof(int), stream_), cudaSuccess);
  EXPECT_TRUE(all == Numbers(all.size(), 0));
  cudaFreeAsync(device, stream_);
}

TEST_F(PinnedCopiesTest, ManyThreadsCopy) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      cudaSetDevice(0);
      for (int i = 0; i < 20; ++i) ExpectKept(static_cast<size_t>(1 + 40000 * ((t + i) % 5)), 1000 * t + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gluond::ops
