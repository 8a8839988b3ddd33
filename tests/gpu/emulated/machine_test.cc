// The emulated GPU finds mistakes that a real one would not report. Each test plants one fault.

#include "tests/gpu/emulated/machine.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace gluond::emulated {
namespace {

constexpr int kThreads = 64;

class MachineTest : public ::testing::Test {
 protected:
  MachineTest() {
    setenv("GLUOND_EMULATED_GPU", "devices=2", 1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int device : {1, 0}) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaStreamCreateWithFlags(&streams_[device], cudaStreamNonBlocking), cudaSuccess);
    }
  }
  ~MachineTest() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  static float* NewFloats(int n, int device = 0) {
    void* data = nullptr;
    cudaSetDevice(device);
    EXPECT_EQ(cudaMalloc(&data, n * sizeof(float)), cudaSuccess);
    cudaSetDevice(0);
    return static_cast<float*>(data);
  }
  // Launches one block.
  template <class... P, class... A>
  cudaError_t Run(cudaStream_t stream, void (*kernel)(P...), A... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = kThreads;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, args...);
  }
  std::vector<float> ToHost(const float* from, int n, cudaStream_t stream) {
    std::vector<float> to(n);
    EXPECT_EQ(cudaMemcpyAsync(to.data(), from, n * sizeof(float), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return to;
  }

  cudaStream_t streams_[2] = {};
};

__global__ void Number(float* y, float first) { y[threadIdx.x] = first + static_cast<float>(threadIdx.x); }

__global__ void Reverse(float* y, bool waits) {
  __shared__ float share[kThreads];
  share[threadIdx.x] = y[threadIdx.x];
  if (waits) __syncthreads();
  y[threadIdx.x] = share[kThreads - 1 - threadIdx.x];
}
__global__ void SumOfWarp(float* y, unsigned mask) {
  float sum = y[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  y[threadIdx.x] = sum;
}
__global__ void HalfWaits() {
  if (threadIdx.x < kThreads / 2) __syncthreads();
}
__global__ void WaitsInTwoPlaces() {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    __syncwarp();
  }
}
__global__ void HalfEnds() {
  if (threadIdx.x % 32 < 16) return;
  __syncwarp();
}

TEST_F(MachineTest, RunsThreadsThatMeet) {
  float* const y = NewFloats(kThreads);
  ASSERT_EQ(Run(streams_[0], Number, y, 0.0f), cudaSuccess);
  ASSERT_EQ(Run(streams_[0], Reverse, y, true), cudaSuccess);
  EXPECT_EQ(ToHost(y, kThreads, streams_[0])[0], kThreads - 1);
  ASSERT_EQ(Run(streams_[0], SumOfWarp, y, ~0u), cudaSuccess);
  const std::vector<float> sums = ToHost(y, kThreads, streams_[0]);
  EXPECT_EQ(sums[0], 32 * 32 + 31 * 16);  // 63 + 62 + ... + 32.
  EXPECT_EQ(sums[31], sums[0]);
  EXPECT_EQ(sums[32], 31 * 16);
  EXPECT_EQ(cudaFree(y), cudaSuccess);
}

TEST_F(MachineTest, FindsAMissingBarrier) {
  float* const y = NewFloats(kThreads);
  Run(streams_[0], Number, y, 1000.0f);  // Shared memory may still hold what another block left there.
  Run(streams_[0], Reverse, y, false);
  EXPECT_NE(ToHost(y, kThreads, streams_[0])[0], 1000 + kThreads - 1);
  cudaFree(y);
}

// Runs a kernel to its end.
#define EXPECT_FAULT(launch, message)       \
  EXPECT_DEATH(                             \
      {                                     \
        launch;                             \
        cudaStreamSynchronize(streams_[0]); \
      },                                    \
      message)

TEST_F(MachineTest, FindsBarriersThatNotAllReach) {
  EXPECT_FAULT(Run(streams_[0], HalfWaits), "a barrier that not all threads reach: .*machine_test.cc");
  EXPECT_FAULT(Run(streams_[0], WaitsInTwoPlaces), "lanes of a warp wait at .*machine_test.cc");
  EXPECT_FAULT(Run(streams_[0], HalfEnds), "waits for the lanes ffffffff, of which 0000ffff have ended");
}

TEST_F(MachineTest, FindsAShuffleWithLanesThatItDoesNotName) {
  float* const y = NewFloats(kThreads);
  EXPECT_FAULT(Run(streams_[0], SumOfWarp, y, 0xffff0000u), "a lane shuffles that its mask ffff0000 does not name");
  cudaFree(y);
}

// The outputs of one kernel, which writes y[thread] for 64 threads.
TEST_F(MachineTest, FindsAnIndexPastTheEnd) {
  EXPECT_FAULT(
      {
        float* const y = NewFloats(kThreads - 1);
        Run(streams_[0], Number, y, 0.0f);
        cudaFree(y);
      },
      "written 0 bytes past its end|use-after-poison");
}

TEST_F(MachineTest, FindsWhatIsReadBeforeItIsThere) {
  float *const x = NewFloats(kThreads), *const y = NewFloats(kThreads);
  Run(streams_[0], Number, x, 0.0f);
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  cudaMemcpyAsync(y, x, kThreads * sizeof(float), cudaMemcpyDeviceToDevice, other);  // The wrong stream.
  EXPECT_TRUE(std::isnan(ToHost(y, kThreads, other)[0]));
  cudaStreamDestroy(other);
  cudaFree(x);
  cudaFree(y);
}

TEST_F(MachineTest, FindsHostMemoryThatIsGoneBeforeItsCopy) {
  float* const x = NewFloats(kThreads);
  const auto copy = [&](cudaMemcpyKind kind) {
    std::vector<float> staged(kThreads);
    if (kind == cudaMemcpyHostToDevice) {
      cudaMemcpyAsync(x, staged.data(), kThreads * sizeof(float), kind, streams_[0]);
    } else {
      cudaMemcpyAsync(staged.data(), x, kThreads * sizeof(float), kind, streams_[0]);
    }
  };
  EXPECT_FAULT(copy(cudaMemcpyHostToDevice), "changed or freed before their copy|heap-use-after-free");
  EXPECT_FAULT(copy(cudaMemcpyDeviceToHost), "written or freed before they got their copy|heap-use-after-free");
  cudaFree(x);
}

TEST_F(MachineTest, FindsMemoryThatTheHostTouchesAndMemoryThatIsFreedTwice) {
  float* const x = NewFloats(kThreads);
  EXPECT_DEATH(x[0] = 1, "");
  EXPECT_DEATH(
      {
        cudaFree(x);
        cudaFree(x);
      },
      "is freed, and is no allocation");
  EXPECT_DEATH(cudaMemsetAsync(x, 0, (kThreads + 1) * sizeof(float), streams_[0]),
               "260 bytes from byte 0 on, in an allocation of 256 bytes");
  cudaFree(x);
}

TEST_F(MachineTest, FindsAWrongDevice) {
  float* const there = NewFloats(kThreads, 1);
  EXPECT_EQ(Run(streams_[1], Number, there, 0.0f), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_DEATH(cudaMemsetAsync(there, 0, 4, streams_[0]), "memory of gpu:1 on gpu:0");
  cudaFree(there);
}

TEST_F(MachineTest, FindsAWrongLeadingDimension) {
  constexpr int kSize = 4;
  float *const a = NewFloats(kSize * kSize), *const b = NewFloats(kSize * kSize), *const c = NewFloats(kSize * kSize);
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  cublasSetStream(handle, streams_[0]);
  const float one = 1, zero = 0;
  const auto multiply = [&](int64_t lda) {
    return cublasGemmStridedBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one, a, CUDA_R_32F, lda, 0, b,
                                         CUDA_R_32F, kSize, 0, &zero, c, CUDA_R_32F, kSize, 0, 1, CUBLAS_COMPUTE_32F,
                                         CUBLAS_GEMM_DEFAULT);
  };
  EXPECT_EQ(multiply(kSize), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(kSize - 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_DEATH(multiply(kSize + 1), "a matrix product's A: 76 bytes from byte 0 on, in an allocation of 64 bytes");
  for (float* matrix : {a, b, c}) cudaFree(matrix);
}

__global__ void NumberBlocks(float* y) {
  y[blockIdx.y * gridDim.x + blockIdx.x] = static_cast<float>(10 * blockIdx.y + blockIdx.x);
}

TEST_F(MachineTest, GridsHaveRowsOfBlocks) {
  float* const y = NewFloats(6);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(3, 2);
  config.blockDim = 1;
  config.stream = streams_[0];
  EXPECT_EQ(cudaLaunchKernelEx(&config, NumberBlocks, y), cudaSuccess);
  EXPECT_EQ(ToHost(y, 6, streams_[0]), std::vector<float>({0, 1, 2, 10, 11, 12}));
  cudaFree(y);
}

TEST_F(MachineTest, RefusesWhatCudaRefuses) {
  cudaLaunchConfig_t config = {};
  config.stream = streams_[0];
  config.gridDim = 1;
  config.blockDim = 1025;
  EXPECT_EQ(cudaLaunchKernelEx(&config, HalfEnds), cudaErrorInvalidConfiguration);
  config.blockDim = 32;
  config.gridDim = 0;
  EXPECT_EQ(cudaLaunchKernelEx(&config, HalfEnds), cudaErrorInvalidConfiguration);
  config.gridDim = dim3(1, 65536);
  EXPECT_EQ(cudaLaunchKernelEx(&config, HalfEnds), cudaErrorInvalidConfiguration);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, size_t{17} << 30), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace gluond::emulated
