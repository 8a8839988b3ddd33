#include "engine/runtime/open_mp_threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <random>

namespace gluond {
namespace {

constexpr int kAny = -1;

// Those that this process may use.
struct Processors {
  cpu_set_t all;
  int count = 0;

  Processors() {
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof(all), &all) == 0) count = CPU_COUNT(&all);
  }
  static const Processors& Get() {
    static const Processors& processors = *new Processors;
    return processors;
  }
};

thread_local int processor_of_thread = kAny;  // Its place among those; kAny: it keeps to none.

void SetProcessor(int index) {
  if (processor_of_thread == index) return;
  processor_of_thread = index;
  const Processors& processors = Processors::Get();
  cpu_set_t set = processors.all;
  for (int cpu = 0, i = 0; index != kAny && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &processors.all) && i++ != index) CPU_CLR(cpu, &set);
  }
  sched_setaffinity(0, sizeof(set), &set);  // Where it fails, the kernel goes on choosing.
}

#ifndef GLUOND_THREAD_SANITIZER
// Where the calling thread's team begins, so that not all begin at one, nor those of servers beside each other.
int FirstProcessor() {
  static std::atomic<unsigned> teams = std::random_device()();
  thread_local const int first = static_cast<int>(teams++ % static_cast<unsigned>(Processors::Get().count));
  return first;
}
#endif

}  // namespace

OpenMpThreads::OpenMpThreads(int count) : count_(count > 0 ? count : std::max(1, Processors::Get().count)) {}

void OpenMpThreads::ParallelFor(int64_t n, int64_t grain,
                                absl::FunctionRef<void(int64_t begin, int64_t end)> body) const {
  if (n <= 0) return;
  const int64_t piece = std::max({grain, (n - 1) / count_ + 1, int64_t{1}});
  if (piece >= n) return body(0, n);
#ifndef GLUOND_THREAD_SANITIZER
  const bool keeps = count_ > 1 && count_ == Processors::Get().count;
  const int first = keeps ? FirstProcessor() : 0;
  // Always the whole team, even when some have nothing to do: libgomp rebuilds a team whose size changes.
#pragma omp parallel num_threads(count_)
  {
    if (keeps) SetProcessor((first + omp_get_thread_num()) % count_);
#pragma omp for schedule(static, 1) nowait
    for (int64_t begin = 0; begin < n; begin += piece) body(begin, std::min(n, begin + piece));
  }
#else
  for (int64_t begin = 0; begin < n; begin += piece) body(begin, std::min(n, begin + piece));
#endif
}

ScopedRoaming::ScopedRoaming() : processor_(processor_of_thread) { SetProcessor(kAny); }
ScopedRoaming::~ScopedRoaming() { SetProcessor(processor_); }

ScopedTeamSize::ScopedTeamSize(int count) : before_(omp_get_max_threads()) {
  if (count > 0) omp_set_num_threads(count);
}

ScopedTeamSize::~ScopedTeamSize() { omp_set_num_threads(before_); }

}  // namespace gluond
