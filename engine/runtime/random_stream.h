// Streams of random numbers: with one seed, no two users draw the same numbers. A Philox stream has a number of 64
// bits, its `stream` and `run`. The first two bits are the domain, which names the user; the other 62 are the domain's
// to divide.
//
//   RandomStream(seed, RandomDomain::kParameter, NameHash("fc1.weight"))   // A parameter of that name begins so.

#ifndef ENGINE_RUNTIME_RANDOM_STREAM_H_
#define ENGINE_RUNTIME_RANDOM_STREAM_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/core/philox.h"

namespace gluond {

// The numbers are part of the meaning of a seed: they may never change.
enum class RandomDomain : uint32_t {
  kNode = 0,       // A graph's node in a run: the node's number, of 30 bits, before the run's, of 32.
  kParameter = 1,  // The values that a parameter begins with: NameHash of its name.
  kOrder = 2,      // The order of a dataset's rows: the epoch.
  kTensor = 3,     // A tensor that a request describes: its number there.
};

// `which` counts modulo 2^62.
inline Philox RandomStream(uint64_t seed, RandomDomain domain, uint64_t which) {
  const uint64_t number = static_cast<uint64_t>(domain) << 62 | (which & ((uint64_t{1} << 62) - 1));
  return {seed, static_cast<uint32_t>(number >> 32), static_cast<uint32_t>(number)};
}

// FNV-1a of 64 bits: two of a million names have the same 62 bits with a probability of 1e-7.
constexpr uint64_t NameHash(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace gluond

#endif  // ENGINE_RUNTIME_RANDOM_STREAM_H_
