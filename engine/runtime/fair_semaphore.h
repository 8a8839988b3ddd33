// FairSemaphore: threads that would get into each other's way do a thing one after the other, or a few at once, in the
// order in which they came. Thread-safe.

#ifndef ENGINE_RUNTIME_FAIR_SEMAPHORE_H_
#define ENGINE_RUNTIME_FAIR_SEMAPHORE_H_

#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "engine/core/mutex.h"

namespace gluond {

class FairSemaphore {
 public:
  // So many threads may be at it at once.
  explicit FairSemaphore(uint64_t at_once) : at_once_(at_once) {}

  // The semaphore of long work that computes no operator: parsing, filling, looking at many numbers. A few threads do
  // such work at once (tuning.h), so that other processors stay free, whatever clients ask for. The callers are threads
  // that may wait: no lane's, none of gRPC's.
  static FairSemaphore& OfLongWork();
  // Does `work` when it is the calling thread's turn.
  void Do(absl::FunctionRef<void()> work);
  // Does `work` for all of [0, n), from the beginning to the end, in pieces that each have their turn; at once where it
  // is one piece.
  void DoInPieces(int64_t n, int64_t piece, absl::FunctionRef<void(int64_t begin, int64_t end)> work);

 private:
  const uint64_t at_once_;
  Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 0;                    // Ticket.
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;                   // Works.
  std::map<uint64_t, CondVar> waiting_ ABSL_GUARDED_BY(mu_);  // By ticket.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_FAIR_SEMAPHORE_H_
