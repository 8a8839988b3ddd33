// RandomState decides a model's random numbers, and is kept by its checkpoints. Each run gets the seed and a
// number of its own; each node that draws has a stream of its own within the run (Philox). Not thread-safe: the
// order of a model's runs is the order of its draws.
//
//   random.Draw(&run);

#ifndef ENGINE_RUNTIME_RANDOM_STATE_H_
#define ENGINE_RUNTIME_RANDOM_STATE_H_

#include <cstdint>

#include "engine/runtime/executor.h"

namespace gluond {

struct RandomState {
  uint64_t seed = 0;
  uint32_t runs = 0;

  // Gives `run` numbers that no other run of this state has.
  void Draw(Run* run) {
    run->seed = seed;
    run->random_run = runs++;
  }
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_RANDOM_STATE_H_
