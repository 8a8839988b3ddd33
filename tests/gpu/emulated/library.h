// Code that the stand-ins of cuBLAS and cuDNN share: elements of each type as doubles, and a handle's stream. The
// stand-ins compute in double by definitions, and check every operand before they put the work on the stream.

#ifndef TESTS_GPU_EMULATED_LIBRARY_H_
#define TESTS_GPU_EMULATED_LIBRARY_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/core/half.h"
#include "tests/gpu/emulated/machine.h"

namespace gluond::emulated {

enum class Element { kFloat, kDouble, kHalf, kBfloat16 };

inline size_t BytesOf(Element type) { return type == Element::kFloat ? 4 : type == Element::kDouble ? 8 : 2; }

template <class Fn>
void Dispatch(Element type, const Fn& fn) {
  switch (type) {
    case Element::kFloat: return fn(float());
    case Element::kDouble: return fn(double());
    case Element::kHalf: return fn(Half());
    case Element::kBfloat16: return fn(BFloat16());
  }
}

// Load and Store require that memory is open.
inline std::vector<double> Load(Element type, const void* data, int64_t n) {
  std::vector<double> values(n);
  Dispatch(type, [&](auto t) {
    const auto* const from = static_cast<const decltype(t)*>(data);
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(static_cast<float>(from[i]));
    if constexpr (std::is_same_v<decltype(t), double>) values.assign(from, from + n);
  });
  return values;
}

// Stores alpha times the results plus beta times the old values, which are not read if beta is 0.
struct Blend {
  double alpha, beta;

  // The libraries take alpha and beta as doubles for double, and else as floats.
  Blend(Element type, const void* alpha, const void* beta) : alpha(Read(type, alpha)), beta(Read(type, beta)) {}

 private:
  static double Read(Element type, const void* p) {
    if (IsDeviceMemory(p)) Fail("a factor lies in device memory, although the handle's pointer mode is the host's");
    return type == Element::kDouble ? *static_cast<const double*>(p) : *static_cast<const float*>(p);
  }
};
inline void Store(Element type, void* data, int64_t i, double value, const Blend& blend) {
  Dispatch(type, [&](auto t) {
    using T = decltype(t);
    T* const to = static_cast<T*>(data) + i;
    double old = 0;
    if (blend.beta != 0) {
      if constexpr (std::is_same_v<T, double>)
        old = *to;
      else
        old = static_cast<float>(*to);
    }
    const double sum = blend.alpha * value + (blend.beta == 0 ? 0 : blend.beta * old);
    if constexpr (std::is_same_v<T, double>)
      *to = sum;
    else
      *to = static_cast<T>(static_cast<float>(sum));
  });
}
inline void Store(Element type, void* data, const std::vector<double>& values, const Blend& blend) {
  for (size_t i = 0; i < values.size(); ++i) Store(type, data, static_cast<int64_t>(i), values[i], blend);
}

// Rounds values as if they had been stored.
inline void Round(Element type, std::vector<double>* values) {
  Dispatch(type, [&](auto t) {
    for (double& v : *values) {
      if constexpr (!std::is_same_v<decltype(t), double>) v = static_cast<float>(decltype(t)(static_cast<float>(v)));
    }
  });
}

// float32 as tensor cores read it: the 13 lowest bits of its fraction are rounded away.
inline double ToTf32(double value) {
  const uint32_t bits = BitCast<uint32_t>(static_cast<float>(value));
  return BitCast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

struct Handle {
  int device = CurrentDevice();
  cudaStream_t stream = nullptr;
};

// A new handle of type H. It lives until exit, as the handles of ops/ do.
template <class H>
H* NewHandle() {
  const std::lock_guard lock(Machine());
  static auto& handles = *new std::deque<H>;
  return &handles.emplace_back();
}

// The handle's stream. Its device must be the handle's and the thread's current one.
inline cudaStream_t StreamOf(const Handle& handle, const char* what) {
  const int device = DeviceOf(handle.stream, what);
  if (handle.device != device || device != CurrentDevice()) {
    Fail("%s: the handle is of gpu:%d, its stream of gpu:%d, and gpu:%d is current", what, handle.device, device, CurrentDevice());
  }
  return handle.stream;
}

inline void CheckAlignment(const void* p, Element type, const char* what) {
  if (reinterpret_cast<uintptr_t>(p) % BytesOf(type) != 0) Fail("%s: %p is not aligned to its type", what, p);
}

}  // namespace gluond::emulated

#endif  // TESTS_GPU_EMULATED_LIBRARY_H_
