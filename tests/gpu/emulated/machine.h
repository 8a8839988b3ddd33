// The emulated machine: GPUs whose memory the host cannot touch and whose streams are queues that run when somebody
// waits.
//
//   memory.cc   device memory: an arena that is open while a queue runs, with red zones, filled with NaN
//   runtime.cc  devices, streams, copies and errors: cuda_runtime.h
//   kernels.cc  a launch's threads, as fibers that meet at barriers
//   cublas.cc   matrix products
//   cudnn.cc    convolution, pooling and normalization by their definitions
//
// A call that a real GPU would answer with an error is answered with that error. A mistake that a real GPU might not
// report (memory of another device, a freed or changed buffer, a barrier that not all threads reach) ends the process
// with one line.

#ifndef TESTS_GPU_EMULATED_MACHINE_H_
#define TESTS_GPU_EMULATED_MACHINE_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace gluond::emulated {

// The options, from the environment: GLUOND_EMULATED_GPU="devices=2,order=backward,memory_mib=64,no=bfloat16"
// and so on.
struct Options {
  enum class Order { kForward, kBackward, kShuffled };

  int devices = 1;
  Order order = Order::kForward;     // The order of a block's threads, and of the blocks.
  size_t memory = size_t{16} << 30;  // Each device's, in bytes. cudaMalloc fails beyond it.
  int capability = 9;                // CUDA's, the major number.
  bool old_driver = false;
  int fault_at = 0;                      // The number of the launch on gpu:0 that touches a wrong address; 0: none.
  size_t workspace = 0;                  // Bytes that cuDNN's first deterministic convolution wants; 0: none.
  bool bfloat16_in_dnn = true;           // False: cuDNN answers NOT_SUPPORTED to bfloat16.
  bool deterministic_algorithms = true;  // False: cuDNN has no deterministic convolution.
};
const Options& TheOptions();

// Every reader or writer of the machine's state holds this mutex, and a queue that runs.
std::recursive_mutex& Machine();

// Ends the process: "emulated GPU: ...".
[[noreturn, gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);

// The calling thread's current device.
int CurrentDevice();
// Returns `error`, a call's answer, and keeps it for cudaGetLastError.
cudaError_t Answer(cudaError_t error);
// The error that every call for a device answers after a fault there; success before.
cudaError_t FaultOf(int device);

// Device memory, at least 256-byte aligned; null when the device has no more.
void* AllocateMemory(int device, size_t bytes);
// Frees memory, and returns its device. Fails the process if `data` is no allocation, or its red zone was written.
int FreeMemory(void* data);
size_t UsedMemory(int device);
bool IsDeviceMemory(const void* p);
// Fails the process unless [p, p + bytes) lies in one live allocation of `device`. `what` names it in the message.
void CheckOperand(const void* p, size_t bytes, int device, const std::string& what);

// Device memory can be touched while an OpenMemory lives. Requires: Machine() is held.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

// Counts since the process began. A program that loads the plugin finds gluond_emulated_counts by its name.
struct Counts {
  int launches = 0;     // Kernels.
  int copies = 0;       // Copies from and to the host, and on a device.
  int waits = 0;        // Waits for work that had not run.
  int allocations = 0;  // Allocations and frees of device and host memory, except from a stream's pool.
};
extern "C" Counts gluond_emulated_counts();

// The device of a live stream. Fails the process if there is no such stream; the default stream is not supported.
int DeviceOf(cudaStream_t stream, const char* what);
// Runs `work` when somebody waits for the stream.
void Enqueue(cudaStream_t stream, std::function<void()> work);
// The same for a kernel.
void EnqueueKernel(cudaStream_t stream, std::function<void()> kernel);

}  // namespace gluond::emulated

#endif  // TESTS_GPU_EMULATED_MACHINE_H_
