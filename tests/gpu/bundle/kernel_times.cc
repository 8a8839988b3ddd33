// Writes when each kernel, copy and fill of a process begins and ends on the GPU: a library that CUDA's driver loads into the
// process that CUDA_INJECTION64_PATH is set for. KERNEL_TIMES names the file; a line has nanoseconds, nanoseconds and a name.

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr uint32_t kFlushMilliseconds = 500;

std::mutex& Mutex() {
  static std::mutex mu;
  return mu;
}
std::FILE* file = nullptr;

void GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most_records = 0;  // As many as fit.
}

template <class Activity>
void Write(const CUpti_Activity* record, const char* name) {
  const auto* const activity = reinterpret_cast<const Activity*>(record);
  std::fprintf(file, "%llu %llu %s\n", static_cast<unsigned long long>(activity->start),
               static_cast<unsigned long long>(activity->end), name);
}

void TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::lock_guard lock(Mutex());
  CUpti_Activity* record = nullptr;
  while (valid_bytes > 0 && cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        Write<CUpti_ActivityKernel10>(record, reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: Write<CUpti_ActivityMemcpy6>(record, "copy"); break;
      case CUPTI_ACTIVITY_KIND_MEMSET: Write<CUpti_ActivityMemset4>(record, "fill"); break;
      default: break;
    }
  }
  std::fflush(file);
  std::free(buffer);
}

}  // namespace

// The driver's entry: 1 for success.
extern "C" int InitializeInjection() {
  const char* const path = std::getenv("KERNEL_TIMES");
  file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return 1;
  cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    cuptiActivityEnable(kind);
  }
  cuptiActivityFlushPeriod(kFlushMilliseconds);
  std::atexit([] { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); });
  return 1;
}
