#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/gpu/emulated/machine.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes) (void)(p), (void)(bytes)
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) (void)(p), (void)(bytes)
#endif

namespace gluond::emulated {
namespace {

constexpr size_t kArenaBytes = size_t{64} << 30, kPage = 4096, kAlignment = 256;
constexpr size_t kRedZone = 1024;      // The least room behind every allocation, and before the first, in bytes.
constexpr unsigned char kFill = 0xff;  // A NaN in every floating type. Fills fresh and freed memory and red zones.

struct Allocation {
  size_t bytes, room;
  int device;
};

// Device memory, mapped twice: once for the GPU's code, protected except while a queue runs, and once for this file,
// which fills and checks it.
struct Arena {
  char *begin, *view;
  size_t used = 0;
  std::map<char*, Allocation> live = {};
  std::multimap<size_t, char*> free = {};  // By room.
  std::map<int, size_t> device_bytes = {};
  int open = 0;
};

Arena& TheArena() {
  static Arena& arena = *[] {
    const int memory = memfd_create("emulated GPU", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, kArenaBytes) != 0) Fail("no device memory: %m");
    const auto map = [&](int protection) {
      void* const at = mmap(nullptr, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE, memory, 0);
      if (at == MAP_FAILED) Fail("no address space for device memory: %m");
      return static_cast<char*>(at);
    };
    auto* a = new Arena{map(PROT_NONE), map(PROT_READ | PROT_WRITE)};
    a->used = kPage;
    return a;
  }();
  return arena;
}

void Protect(int protection) {
  const Arena& a = TheArena();
  if (mprotect(a.begin, a.used, protection) != 0) Fail("mprotect: %m");
}

}  // namespace

OpenMemory::OpenMemory() {
  if (TheArena().open++ == 0) Protect(PROT_READ | PROT_WRITE);
}
OpenMemory::~OpenMemory() {
  if (--TheArena().open == 0) Protect(PROT_NONE);
}

bool IsDeviceMemory(const void* p) {
  const char* const begin = TheArena().begin;
  return p >= begin && p < begin + kArenaBytes;
}

void* AllocateMemory(int device, size_t bytes) {
  const std::lock_guard lock(Machine());
  Arena& a = TheArena();
  if (bytes > TheOptions().memory || a.device_bytes[device] > TheOptions().memory - bytes) return nullptr;
  const size_t wanted = (bytes + kAlignment - 1) / kAlignment * kAlignment + kRedZone;
  char* data;
  size_t room;
  if (const auto fit = a.free.lower_bound(wanted); fit != a.free.end() && fit->first <= 2 * wanted + kPage) {
    room = fit->first;
    data = fit->second;
    a.free.erase(fit);
  } else {
    room = (wanted + kPage - 1) / kPage * kPage;
    if (room > kArenaBytes - a.used) return nullptr;
    data = a.begin + a.used;
    a.used += room;
  }
  ASAN_UNPOISON_MEMORY_REGION(data, room);
  std::memset(a.view + (data - a.begin), kFill, bytes + kRedZone);
  ASAN_POISON_MEMORY_REGION(data + bytes, room - bytes);
  a.live[data] = {bytes, room, device};
  a.device_bytes[device] += bytes;
  return data;
}

int FreeMemory(void* data) {
  const std::lock_guard lock(Machine());
  Arena& a = TheArena();
  const auto it = a.live.find(static_cast<char*>(data));
  if (it == a.live.end()) Fail("%p is freed, and is no allocation", data);
  const auto [bytes, room, device] = it->second;
  char* const view = a.view + (it->first - a.begin);
  const char *const end = view + bytes, *const zone_end = end + kRedZone;
  const char* const written = std::find_if(end, zone_end, [](char c) { return static_cast<unsigned char>(c) != kFill; });
  if (written != zone_end) Fail("an allocation of %zu bytes was written %td bytes past its end", bytes, written - end);
  std::memset(view, kFill, bytes);
  ASAN_POISON_MEMORY_REGION(it->first, room);
  a.device_bytes[device] -= bytes;
  a.free.emplace(room, it->first);
  a.live.erase(it);
  return device;
}

size_t UsedMemory(int device) {
  const std::lock_guard lock(Machine());
  return TheArena().device_bytes[device];
}

void CheckOperand(const void* p, size_t bytes, int device, const std::string& what) {
  if (bytes == 0) return;
  const std::lock_guard lock(Machine());
  if (!IsDeviceMemory(p)) Fail("%s: %p is no device memory", what.c_str(), p);
  const Arena& a = TheArena();
  const auto* const at = static_cast<const char*>(p);
  const auto after = a.live.upper_bound(const_cast<char*>(at));
  if (after == a.live.begin()) Fail("%s: %p is not allocated", what.c_str(), p);
  const auto& [begin, allocation] = *std::prev(after);
  if (at >= begin + allocation.room) Fail("%s: %p is not allocated", what.c_str(), p);
  if (at + bytes > begin + allocation.bytes) {
    Fail("%s: %zu bytes from byte %td on, in an allocation of %zu bytes", what.c_str(), bytes, at - begin, allocation.bytes);
  }
  if (allocation.device != device) {
    Fail("%s: memory of gpu:%d on gpu:%d", what.c_str(), allocation.device, device);
  }
}

}  // namespace gluond::emulated
