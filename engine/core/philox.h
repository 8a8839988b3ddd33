// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011): a
// counter-based generator. Element i of a stream is a pure function of (seed, stream, run, i), so every device
// and every number of threads draws the same numbers.

#ifndef ENGINE_CORE_PHILOX_H_
#define ENGINE_CORE_PHILOX_H_

#include <cstdint>

#include "engine/core/host_device.h"

namespace gluond {

struct Philox {
  uint64_t seed = 0;    // The model's.
  uint32_t stream = 0;  // The node's.
  uint32_t run = 0;     // The execution's: the model's random state counts them.

  struct Block {
    uint32_t word[4];
  };

  // Words 4 i to 4 i + 3 of the stream.
  HOST_DEVICE Block operator()(uint64_t i) const {
    uint32_t c0 = static_cast<uint32_t>(i), c1 = static_cast<uint32_t>(i >> 32), c2 = stream, c3 = run;
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }

  // Word i of the stream.
  HOST_DEVICE uint32_t Word(uint64_t i) const { return (*this)(i / 4).word[i % 4]; }

  // Uniform in [0, 1), a multiple of 2^-24.
  HOST_DEVICE static float ToUniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
};

}  // namespace gluond

#endif  // ENGINE_CORE_PHILOX_H_
