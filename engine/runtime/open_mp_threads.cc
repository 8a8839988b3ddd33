#include "engine/runtime/open_mp_threads.h"

#include <omp.h>

#include <algorithm>

namespace gluond {

OpenMpThreads::OpenMpThreads(int count) : count_(count > 0 ? count : std::max(1, omp_get_num_procs())) {}

void OpenMpThreads::ParallelFor(int64_t n, int64_t grain,
                                absl::FunctionRef<void(int64_t begin, int64_t end)> body) const {
  if (n <= 0) return;
  const int64_t piece = std::max({grain, (n - 1) / count_ + 1, int64_t{1}});
  if (piece >= n) return body(0, n);
#ifndef GLUOND_THREAD_SANITIZER
  // Always the whole team, even when some have nothing to do: libgomp rebuilds a team whose size changes.
#pragma omp parallel for schedule(static, 1) num_threads(count_)
#endif
  for (int64_t begin = 0; begin < n; begin += piece) body(begin, std::min(n, begin + piece));
}

ScopedTeamSize::ScopedTeamSize(int count) : before_(omp_get_max_threads()) {
  if (count > 0) omp_set_num_threads(count);
}

ScopedTeamSize::~ScopedTeamSize() { omp_set_num_threads(before_); }

}  // namespace gluond
