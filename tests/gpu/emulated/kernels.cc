// A kernel's threads. A fiber runs a block's threads one after another until one of them waits at a barrier; that
// thread keeps the fiber, and another fiber goes on with the threads that have not begun. So a kernel without barriers
// runs on one fiber, and one with barriers on as many as there are threads that wait.

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/gpu/emulated/machine.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// Saves the registers that a function keeps and the stack pointer in *from, and goes on where `to` was saved.
extern "C" void gluond_emulated_switch(void** from, void* to);
asm(R"(
.text
.globl gluond_emulated_switch
.hidden gluond_emulated_switch
.type gluond_emulated_switch, @function
gluond_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gluond_emulated_switch, .-gluond_emulated_switch
)");

namespace gluond::emulated {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kMostThreads = 1024, kMostBlocks = (1u << 31) - 1, kMostRows = 65535;
constexpr size_t kMostParameterBytes = 4096;

// A stack, and the point at which its code was left.
class Fiber {
 public:
  explicit Fiber(void (*run)()) {
    void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) Fail("no memory for a fiber's stack");
    stack_ = static_cast<char*>(memory);
    void** top = reinterpret_cast<void**>(stack_ + kStack);
    *--top = nullptr;  // Where a return address would be: keeps the stack aligned as a call does.
    *--top = reinterpret_cast<void*>(run);
    pointer_ = top - 6;  // The registers: zeros, as mmap gives.
  }
  ~Fiber() { munmap(stack_, kStack); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Called by the scheduler: goes on with the fiber until it leaves.
  void Enter() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&scheduler_fake_stack_, stack_, kStack);
#endif
    gluond_emulated_switch(&scheduler_, pointer_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
#endif
  }
  // Called on the fiber, first thing.
  void Begin() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_bytes_);
#endif
  }
  // Called on the fiber: back to the scheduler, until somebody enters again.
  void Leave() {
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack_, scheduler_bytes_);
#endif
    gluond_emulated_switch(&pointer_, scheduler_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_bytes_);
#endif
  }

 private:
  static constexpr size_t kStack = size_t{256} << 10;

  char* stack_;
  void* pointer_;
  void* scheduler_ = nullptr;
  [[maybe_unused]] void* scheduler_fake_stack_ = nullptr;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;
  [[maybe_unused]] size_t scheduler_bytes_ = 0;
};

enum class State { kNew, kReady, kAtWarpBarrier, kAtBlockBarrier, kEnded };

struct Thread {
  State state = State::kNew;
  Fiber* fiber = nullptr;  // The fiber that a waiting thread keeps.
  unsigned mask = 0;
  Site site;
  uint64_t given = 0, shown = 0;  // The bits brought to a warp's barrier, and the bits that others see behind it.
};

// Runs one block after another. Fibers are kept, so that most launches make none.
class Scheduler {
 public:
  void Run(const cudaLaunchConfig_t& config, const char* name, const std::function<void()>& thread);

  void Wait(State barrier, unsigned mask, const Site& site) {
    Thread& me = threads_[current_];
    me.state = barrier;
    me.mask = mask;
    me.site = site;
    me.fiber = fiber_;
    fiber_->Leave();
  }
  uint64_t Exchange(unsigned mask, uint64_t bits, int step, const Site& site) {
    const int self = current_, lane = self % kWarp, other = lane ^ step;
    if ((mask >> lane & 1) == 0) Fail("%s: a lane shuffles that its mask %08x does not name", name_, mask);
    if (other < 0 || other >= kWarp || (mask >> other & 1) == 0) {
      Fail("%s: a shuffle from lane %d, which mask %08x does not name", name_, other, mask);
    }
    threads_[self].given = bits;
    Wait(State::kAtWarpBarrier, mask, site);
    return threads_[self - lane + other].shown;
  }

 private:
  static void RunFiber();

  void RunBlock();
  // Enters the fiber; it runs until one of its threads waits, or none is left to begin.
  void Enter(Fiber* fiber) {
    fiber_ = fiber;
    fiber->Enter();
    if (threads_[current_].fiber != fiber) idle_.push_back(fiber);
  }
  // The next thread that has not begun, or -1.
  int Begin() { return begun_ < static_cast<int>(order_.size()) ? order_[begun_++] : -1; }
  void GoOn(int thread) {
    current_ = thread;
    threadIdx = {static_cast<unsigned>(thread), 0, 0};
  }
  bool ReleaseWarp(int first);
  bool ReleaseBlock();
  void Reorder(std::vector<int>* order) {
    if (TheOptions().order == Options::Order::kShuffled) std::shuffle(order->begin(), order->end(), random_);
  }

  const char* name_ = "";
  const std::function<void()>* thread_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<int> order_;
  int begun_ = 0, current_ = 0;
  Fiber* fiber_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::minstd_rand random_;
};

// The calling thread's scheduler: a fiber stays on one thread of the process.
Scheduler& TheScheduler() {
  thread_local Scheduler scheduler;
  return scheduler;
}

void Scheduler::RunFiber() {
  Scheduler& s = TheScheduler();
  s.fiber_->Begin();
  while (true) {
    for (int thread = s.Begin(); thread >= 0; thread = s.Begin()) {
      s.GoOn(thread);
      (*s.thread_)();
      s.threads_[s.current_].state = State::kEnded;
      s.threads_[s.current_].fiber = nullptr;
    }
    s.fiber_->Leave();
  }
}

bool Scheduler::ReleaseWarp(int first) {
  const int end = std::min<int>(first + kWarp, static_cast<int>(threads_.size()));
  unsigned waiting = 0, here = 0;
  const Thread* one = nullptr;
  for (int i = first; i < end; ++i) {
    const Thread& t = threads_[i];
    const unsigned bit = 1u << (i - first);
    if (t.state != State::kEnded) here |= bit;
    if (t.state != State::kAtWarpBarrier) continue;
    waiting |= bit;
    if (one == nullptr) one = &t;
    if (t.mask != one->mask) Fail("%s: lanes of a warp wait with the masks %08x and %08x", name_, one->mask, t.mask);
    if (t.site.line() != one->site.line()) {
      Fail("%s: lanes of a warp wait at %s:%u and at line %u", name_, one->site.file_name(), one->site.line(), t.site.line());
    }
  }
  if (one == nullptr) return false;
  const unsigned mask = one->mask;
  if ((mask & ~here) != 0) {
    Fail("%s: %s:%u waits for the lanes %08x, of which %08x have ended or never were", name_, one->site.file_name(),
         one->site.line(), mask, mask & ~here);
  }
  if ((mask & ~waiting) != 0) return false;
  for (int i = first; i < end; ++i) {
    if ((mask >> (i - first) & 1) == 0) continue;
    threads_[i].state = State::kReady;
    threads_[i].shown = threads_[i].given;
  }
  return true;
}

bool Scheduler::ReleaseBlock() {
  const Thread* one = nullptr;
  size_t waiting = 0;
  for (const Thread& t : threads_) {
    if (t.state != State::kAtBlockBarrier) continue;
    ++waiting;
    if (one == nullptr) one = &t;
    if (t.site.line() != one->site.line()) {
      Fail("%s: threads of a block wait at %s:%u and at line %u", name_, one->site.file_name(), one->site.line(), t.site.line());
    }
  }
  if (waiting < threads_.size()) return false;
  for (Thread& t : threads_) t.state = State::kReady;
  return true;
}

void Scheduler::RunBlock() {
  begun_ = 0;
  for (Thread& t : threads_) t = {};
  while (begun_ < static_cast<int>(order_.size())) {
    if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>(&RunFiber)).get());
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    Enter(fiber);
  }
  const auto ended = [](const Thread& t) { return t.state == State::kEnded; };
  while (!std::all_of(threads_.begin(), threads_.end(), ended)) {
    bool released = ReleaseBlock();
    for (int first = 0; first < static_cast<int>(threads_.size()); first += kWarp) released |= ReleaseWarp(first);
    if (!released) {
      const auto at = std::find_if_not(threads_.begin(), threads_.end(), ended);
      Fail("%s: a barrier that not all threads reach: %s:%u", name_, at->site.file_name(), at->site.line());
    }
    for (const int thread : order_) {
      if (threads_[thread].state != State::kReady) continue;
      GoOn(thread);
      Enter(threads_[thread].fiber);
    }
  }
}

void Scheduler::Run(const cudaLaunchConfig_t& config, const char* name, const std::function<void()>& thread) {
  name_ = name;
  thread_ = &thread;
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  const auto n = static_cast<int>(config.blockDim.x);
  const bool backward = TheOptions().order == Options::Order::kBackward;
  threads_.resize(n);
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), 0);
  if (backward) std::reverse(order_.begin(), order_.end());
  const unsigned columns = config.gridDim.x, blocks = columns * config.gridDim.y;
  for (unsigned b = 0; b < blocks; ++b) {
    const unsigned block = backward ? blocks - 1 - b : b;
    blockIdx = {block % columns, block / columns, 0};
    Reorder(&order_);
    RunBlock();
  }
}

}  // namespace

cudaError_t Launch(const cudaLaunchConfig_t& config, size_t parameter_bytes, const char* name, std::function<void()> thread) {
  const std::lock_guard lock(Machine());
  const int device = DeviceOf(config.stream, name);
  if (const cudaError_t fault = FaultOf(device); fault != cudaSuccess) return Answer(fault);
  if (device != CurrentDevice()) return Answer(cudaErrorInvalidResourceHandle);
  const dim3 grid = config.gridDim, block = config.blockDim;
  if (grid.x == 0 || grid.x > kMostBlocks || grid.y == 0 || grid.y > kMostRows || grid.z != 1 || block.x == 0 ||
      block.x > kMostThreads || block.y != 1 || block.z != 1) {
    return Answer(cudaErrorInvalidConfiguration);
  }
  if (parameter_bytes > kMostParameterBytes) return Answer(cudaErrorInvalidValue);
  EnqueueKernel(config.stream, [config, name, thread = std::move(thread)] { TheScheduler().Run(config, name, thread); });
  return cudaSuccess;
}

void SyncBlock(const Site& site) { TheScheduler().Wait(State::kAtBlockBarrier, 0, site); }
void SyncWarp(unsigned mask, const Site& site) { TheScheduler().Wait(State::kAtWarpBarrier, mask, site); }
uint64_t Exchange(unsigned mask, uint64_t bits, int step, const Site& site) {
  return TheScheduler().Exchange(mask, bits, step, site);
}

}  // namespace gluond::emulated
