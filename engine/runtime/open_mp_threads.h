// OpenMpThreads: the compute threads of a CPU lane are OpenMP's team of the lane's thread, because that is the team
// that oneDNN computes on: a second pool beside it would fight for the same processors.
//
// Between two parallel regions libgomp's workers spin before they sleep, which on a small machine takes the processor
// from the threads that serve the network. libgomp reads how long from the environment when it is loaded, which is
// before main: whoever starts the server sets OMP_WAIT_POLICY=passive or GOMP_SPINCOUNT (a count of loops).
//
// Where a team has a thread for each processor, its threads keep to one processor each from its first region on. Two on one
// processor would spin for each other for milliseconds: the kernel parts them late, and beside a busy process not at all
// (a step then takes six times as long, and twice as long with threads that keep apart).
//
// Under the thread sanitizer, which does not know libgomp's barriers, the pieces run one after the other.

#ifndef ENGINE_RUNTIME_OPEN_MP_THREADS_H_
#define ENGINE_RUNTIME_OPEN_MP_THREADS_H_

#include <cstdint>

#include "engine/core/op_context.h"

namespace gluond {

class OpenMpThreads final : public Threads {
 public:
  // 0: one for each processor that this process may use.
  explicit OpenMpThreads(int count);

  int count() const override { return count_; }
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body) const override;

 private:
  const int count_;
};

// While it lives, the calling thread may run on every processor, and so may the threads that it starts: for calls into a
// library that may start some. Costs nothing where the thread keeps to none.
class ScopedRoaming {
 public:
  ScopedRoaming();
  ~ScopedRoaming();
  ScopedRoaming(const ScopedRoaming&) = delete;
  ScopedRoaming& operator=(const ScopedRoaming&) = delete;

 private:
  const int processor_;
};

// While it lives, OpenMP's teams of the calling thread have `count` threads (0: as before). oneDNN asks for the size of
// the team when it makes a primitive, and must get the same answer as when the primitive runs.
class ScopedTeamSize {
 public:
  explicit ScopedTeamSize(int count);
  ~ScopedTeamSize();
  ScopedTeamSize(const ScopedTeamSize&) = delete;
  ScopedTeamSize& operator=(const ScopedTeamSize&) = delete;

 private:
  const int before_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_OPEN_MP_THREADS_H_
