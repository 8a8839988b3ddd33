// A call of Imperative's between Invoke and its end. Private to engine/imperative.

#ifndef ENGINE_IMPERATIVE_PENDING_H_
#define ENGINE_IMPERATIVE_PENDING_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/core/device.h"
#include "engine/imperative/direct.h"
#include "engine/imperative/imperative.h"

namespace gluond {

struct Imperative::Pending {
  using Values = absl::InlinedVector<ValuePtr, 3>;
  CallPtr call;
  Values in;
  Values out;      // By output of the call; null: nobody wants it.
  Values written;  // By Call::written: the inputs' new values.
  bool training = false;
  Device device;
  uint64_t command = 0;
  uint64_t seed = 0;
  uint32_t draw = 0;
};

struct Imperative::Direct : DirectRun {};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_PENDING_H_
