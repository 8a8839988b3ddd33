// Channels: sums over all elements of a channel, and maps that know their channel, of a tensor seen as (outer,
// channels, inner). Normalization and per-channel parameters are made of them.
//
//   struct SumX { template <class X> HOST_DEVICE C operator()(int64_t i) const ...; };
//   g's channel c: SumChannel(g, shape, c, [&](int64_t i) { return x[i]; })

#ifndef OPS_KERNEL_CHANNELS_H_
#define OPS_KERNEL_CHANNELS_H_

#include "ops/kernel/rows.h"

namespace gluond::ops {

// The sum of f(i) over the elements i of channel c, by group g.
template <class Group, class F>
HOST_DEVICE auto SumChannel(Group g, const RowGeometry& s, int64_t c, const F& f) {
  using C = decltype(f(0));
  if (s.inner == 1) return g.Sum(s.outer, [&](int64_t o) { return f(o * s.n + c); });
  C sum = 0;
  for (int64_t o = 0; o < s.outer; ++o) {
    const int64_t begin = (o * s.n + c) * s.inner;
    sum += g.Sum(s.inner, [&](int64_t i) { return f(begin + i); });
  }
  return sum;
}

// f(i) for the elements i of channel c, by group g.
template <class Group, class F>
HOST_DEVICE void ForEachOfChannel(Group g, const RowGeometry& s, int64_t c, const F& f) {
  if (s.inner == 1) return g.ForEach(s.outer, [&](int64_t o) { f(o * s.n + c); });
  for (int64_t o = 0; o < s.outer; ++o) {
    const int64_t begin = (o * s.n + c) * s.inner;
    g.ForEach(s.inner, [&](int64_t i) { f(begin + i); });
  }
}

// Elements that a group computes with, and where it puts results: plain memory where g++ is to vectorize.
template <class C>
struct PlainIn {
  const C* x;
  explicit PlainIn(const TBlob& blob) : x(static_cast<const C*>(blob.data)) {}
  HOST_DEVICE C operator[](int64_t i) const { return x[i]; }
};
template <class C>
struct PlainOut {
  C* y;
  PlainOut(const TBlob& blob, OpReqType) : y(static_cast<C*>(blob.data)) {}
  HOST_DEVICE void Set(int64_t i, C v) const { y[i] = v; }
};

// Calls run(C{}, X, Y) with the type computed in and the accessors to take, which are given as null pointers to their
// types. They are PlainIn<C> and PlainOut<C> when all of `tensors` hold C and nothing is added, else In<C> and Out<C>.
template <class Run>
absl::Status WithAccess(DType dtype, std::initializer_list<DType> tensors, bool add, const Run& run) {
  return DispatchReal(dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    bool plain = !add;
    for (DType type : tensors) plain = plain && type == DTypeOf<C>;
    if (plain) return run(c, static_cast<PlainIn<C>*>(nullptr), static_cast<PlainOut<C>*>(nullptr));
    return run(c, static_cast<In<C>*>(nullptr), static_cast<Out<C>*>(nullptr));
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CHANNELS_H_
