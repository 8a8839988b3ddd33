// PlaceOfId: where a request stands when requests are split between versions. It follows from the request's id alone, in
// each process and on each machine, so that a user's requests go to one version on every replica and after a restart.
//
//   PlaceOfId("user-7") % 100 < 5   // One in twenty.

#ifndef SERVER_SERVING_PLACE_OF_ID_H_
#define SERVER_SERVING_PLACE_OF_ID_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/runtime/random_stream.h"

namespace gluond::server {

// The bits of a number, spread over all 64 (SplitMix64's last step).
constexpr uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The hash is mixed: FNV-1a alone leaves ids that differ in their last byte close together.
constexpr uint64_t PlaceOfId(absl::string_view id) { return Mixed(NameHash(id)); }

}  // namespace gluond::server

#endif  // SERVER_SERVING_PLACE_OF_ID_H_
