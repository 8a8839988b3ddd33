#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tests/gpu/emulated/machine.h"

struct CUstream_st {
  int device;
  std::deque<std::function<void()>> queue;
};
struct CUevent_st {
  int device;
  cudaStream_t stream = nullptr;  // The stream of the last cudaEventRecord.
  int recorded = 0;
  bool done = true;
};

namespace gluond::emulated {
namespace {

// A queue of this length runs although nobody waits, because its work holds memory.
constexpr size_t kLongestQueue = 1000;

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

std::set<cudaStream_t>& Streams() {
  static auto& streams = *new std::set<cudaStream_t>;
  return streams;
}

Counts& TheCounts() {  // Machine() is held.
  static Counts counts;
  return counts;
}

std::set<int>& FaultyDevices() {
  static auto& devices = *new std::set<int>;
  return devices;
}

// Blocks of pinned memory, by their ends.
std::map<const char*, const char*>& Pinned() {
  static auto& blocks = *new std::map<const char*, const char*>;
  return blocks;
}
// CUDA copies by itself only from and to pinned memory; for other memory, the caller waits.
constexpr size_t kLongCopy = 64 << 10;

void CheckHostMemory(const void* p, size_t bytes, const char* what) {
  if (IsDeviceMemory(p)) Fail("%s: %p is device memory", what, p);
  const auto block = Pinned().upper_bound(static_cast<const char*>(p));
  const bool is_pinned = block != Pinned().end() && block->second <= p && static_cast<const char*>(p) + bytes <= block->first;
  if (bytes > kLongCopy && !is_pinned) Fail("%s: %zu bytes at %p are not pinned", what, bytes, p);
}

// Runs the stream's queue until `event` is done, or to the end.
void Run(cudaStream_t stream, cudaEvent_t event = nullptr) {
  if (stream->queue.empty()) return;
  const OpenMemory open;
  while (!stream->queue.empty() && (event == nullptr || !event->done)) {
    const std::function<void()> work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
  }
}

// Runs the queue as Run does, and counts a wait.
void WaitFor(cudaStream_t stream, cudaEvent_t event = nullptr) {
  if (!stream->queue.empty()) ++TheCounts().waits;
  Run(stream, event);
}

cudaError_t Allocate(void** data, size_t bytes) {
  if (const cudaError_t fault = FaultOf(current_device); fault != cudaSuccess) return Answer(fault);
  *data = AllocateMemory(current_device, bytes);
  return Answer(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
void CountAllocation() {
  const std::lock_guard lock(Machine());
  ++TheCounts().allocations;
}

Options ParseOptions(const char* text) {
  Options options;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string option = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    const auto value = [&](const char* name) {
      const std::string prefix = std::string(name) + "=";
      return option.starts_with(prefix) ? option.c_str() + prefix.size() : nullptr;
    };
    if (const char* n = value("devices")) {
      options.devices = std::atoi(n);
    } else if (const char* mib = value("memory_mib")) {
      options.memory = static_cast<size_t>(std::atoll(mib)) << 20;
    } else if (const char* launch = value("fault_at")) {
      options.fault_at = std::atoi(launch);
    } else if (const char* workspace_mib = value("workspace_mib")) {
      options.workspace = static_cast<size_t>(std::atoll(workspace_mib)) << 20;
    } else if (const char* major = value("capability")) {
      options.capability = std::atoi(major);
    } else if (option == "driver=old") {
      options.old_driver = true;
    } else if (option == "order=backward") {
      options.order = Options::Order::kBackward;
    } else if (option == "order=shuffled") {
      options.order = Options::Order::kShuffled;
    } else if (option == "no=bfloat16") {
      options.bfloat16_in_dnn = false;
    } else if (option == "no=algorithms") {
      options.deterministic_algorithms = false;
    } else {
      Fail("GLUOND_EMULATED_GPU: '%s' is no option", option.c_str());
    }
  }
  return options;
}

// A copy to or from the host takes place when the queue runs. Until then the host must not change the copy's source,
// nor read or write its target, which holds arbitrary bytes.
uint64_t Checksum(const void* data, size_t bytes) {
  return std::hash<std::string_view>()(std::string_view(static_cast<const char*>(data), bytes));
}
constexpr unsigned char kPending = 0xcd;

}  // namespace

const Options& TheOptions() {
  static const Options options = ParseOptions(std::getenv("GLUOND_EMULATED_GPU"));
  return options;
}

std::recursive_mutex& Machine() {
  static auto& mu = *new std::recursive_mutex;
  return mu;
}

void Fail(const char* format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "emulated GPU: %s\n", text);
  std::abort();
}

int CurrentDevice() { return current_device; }

cudaError_t FaultOf(int device) {
  const std::lock_guard lock(Machine());
  return FaultyDevices().contains(device) ? cudaErrorIllegalAddress : cudaSuccess;
}

void EnqueueKernel(cudaStream_t stream, std::function<void()> kernel) {
  static int launches = 0;
  const std::lock_guard lock(Machine());
  ++TheCounts().launches;
  if (stream->device == 0 && ++launches == TheOptions().fault_at) {
    kernel = [stream] {
      FaultyDevices().insert(stream->device);
      stream->queue.clear();
    };
  }
  Enqueue(stream, std::move(kernel));
}

cudaError_t Answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int DeviceOf(cudaStream_t stream, const char* what) {
  const std::lock_guard lock(Machine());
  if (stream == nullptr) Fail("%s on the default stream", what);
  if (!Streams().contains(stream)) Fail("%s on a stream that does not exist", what);
  return stream->device;
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(Machine());
  stream->queue.push_back(std::move(work));
  if (stream->queue.size() >= kLongestQueue) Run(stream);
}

}  // namespace gluond::emulated

using namespace gluond::emulated;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (TheOptions().old_driver) return Answer(cudaErrorInsufficientDriver);
  *count = TheOptions().devices;
  return Answer(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= TheOptions().devices) return Answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated GPU");
  properties->totalGlobalMem = TheOptions().memory;
  properties->major = TheOptions().capability;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= TheOptions().devices) return Answer(cudaErrorInvalidDevice);
  current_device = device;
  return Answer(FaultOf(device));
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "unrecognized error code";
  }
}

gluond::emulated::Counts gluond_emulated_counts() {
  const std::lock_guard lock(Machine());
  return TheCounts();
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  CountAllocation();
  return Allocate(data, bytes);
}

// Waits for the whole device, as CUDA does.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  const std::lock_guard lock(Machine());
  CountAllocation();
  const std::set<cudaStream_t> streams = Streams();
  for (const cudaStream_t stream : streams) Run(stream);
  return Answer(FaultOf(FreeMemory(data)));
}

// There is one pool, which keeps no memory: a pool's reuse of memory is not emulated.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (DeviceOf(stream, "cudaMallocAsync") != current_device) return Answer(cudaErrorInvalidValue);
  return Allocate(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(stream, "cudaFreeAsync");
  CheckOperand(data, 1, device, "what is freed");
  Enqueue(stream, [data] { FreeMemory(data); });
  return Answer(FaultOf(device));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) Fail("a stream that waits for the default stream");
  const std::lock_guard lock(Machine());
  *stream = new CUstream_st{current_device, {}};
  Streams().insert(*stream);
  return cudaSuccess;
}

// CUDA returns at once and lets the stream's work end.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  DeviceOf(stream, "cudaStreamDestroy");
  Run(stream);
  Streams().erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(stream, "cudaStreamSynchronize");
  WaitFor(stream);
  return Answer(FaultOf(device));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (flags != cudaEventDisableTiming) Fail("an event that takes the time");
  *event = new CUevent_st{current_device};
  return Answer(FaultOf(current_device));
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(Machine());
  if (!event->done) Run(event->stream);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(stream, "cudaEventRecord");
  if (event->device != device) return Answer(cudaErrorInvalidResourceHandle);
  event->stream = stream;
  event->done = false;
  Enqueue(stream, [event, recorded = ++event->recorded] { event->done = event->done || event->recorded == recorded; });
  return Answer(FaultOf(device));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(Machine());
  if (!event->done) WaitFor(event->stream, event);
  return Answer(FaultOf(event->device));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = TheOptions().memory;
  *free = *total - UsedMemory(current_device);
  return Answer(FaultOf(current_device));
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags) {
  if (flags != cudaHostAllocDefault) Fail("pinned memory with flags");
  const std::lock_guard lock(Machine());
  CountAllocation();
  char* const block = static_cast<char*>(std::malloc(bytes));
  Pinned()[block + bytes] = block;
  *data = block;
  return Answer(FaultOf(current_device));
}
cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(Machine());
  if (std::erase_if(Pinned(), [data](const auto& block) { return block.second == data; }) == 0) {
    return Answer(cudaErrorInvalidValue);
  }
  for (const cudaStream_t stream : std::set<cudaStream_t>(Streams())) Run(stream);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(stream, "cudaMemcpyAsync");
  ++TheCounts().copies;
  if (const cudaError_t fault = FaultOf(device); fault != cudaSuccess) return Answer(fault);
  if (kind != cudaMemcpyHostToDevice) CheckOperand(from, bytes, device, "a copy's source");
  if (kind != cudaMemcpyDeviceToHost) CheckOperand(to, bytes, device, "a copy's target");
  if (kind == cudaMemcpyHostToDevice) {
    CheckHostMemory(from, bytes, "a copy from the host");
    Enqueue(stream, [=, sum = Checksum(from, bytes)] {
      if (Checksum(from, bytes) != sum) Fail("%zu bytes of the host were changed or freed before their copy", bytes);
      std::memcpy(to, from, bytes);
    });
  } else if (kind == cudaMemcpyDeviceToHost) {
    CheckHostMemory(to, bytes, "a copy to the host");
    std::memset(to, kPending, bytes);
    Enqueue(stream, [=] {
      const auto* const target = static_cast<const unsigned char*>(to);
      if (std::any_of(target, target + bytes, [](unsigned char c) { return c != kPending; })) {
        Fail("%zu bytes of the host were written or freed before they got their copy", bytes);
      }
      std::memcpy(to, from, bytes);
    });
  } else {
    Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(stream, "cudaMemsetAsync");
  if (const cudaError_t fault = FaultOf(device); fault != cudaSuccess) return Answer(fault);
  CheckOperand(to, bytes, device, "what is filled");
  Enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

}  // extern "C"

// Bisection is slow, and right to the last bits.
double erfinv(double x) {
  if (!(x > -1 && x < 1)) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return x == 1 ? kInf : x == -1 ? -kInf : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == 0) return x;
  double low = 0, high = 6;
  const double a = std::abs(x);
  for (int step = 0; step < 100; ++step) {
    const double y = (low + high) / 2;
    const bool below = a > 0.5 ? std::erfc(y) > 1 - a : std::erf(y) < a;  // erf is 1 to the last bits there.
    (below ? low : high) = y;
  }
  return std::copysign((low + high) / 2, x);
}
