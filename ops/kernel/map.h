// Map: y[i] = f(x0[i], x1[i], ...) on either device, from one functor, for every element type and OpReqType.
//
//   struct Hypot {
//     template <class C> HOST_DEVICE C operator()(C a, C b) const { return math::Sqrt(a * a + b * b); }
//   };
//   ....compute<Elemwise<Hypot, 2>>()
//
// The functor sees float, double or int64_t (see convert.h), by the output's type; one that cannot be called with
// int64_t (`template <std::floating_point C>`) computes integers in double. One that reads attributes has a
// constructor from NodeAttrs.

#ifndef OPS_KERNEL_MAP_H_
#define OPS_KERNEL_MAP_H_

#include <type_traits>
#include <utility>

#include "engine/core/device.h"
#include "engine/core/node_attrs.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

namespace map_internal {

template <class C, size_t>
using Repeat = C;

template <class F, class C, size_t... k>
constexpr bool Takes(std::index_sequence<k...>) {
  return std::is_invocable_v<const F&, Repeat<C, k>...>;
}

template <class F, class C, size_t... k>
void MapRange(const F& f, const TBlob* x, OpReqType req, const TBlob& y, int64_t begin, int64_t end,
              std::index_sequence<k...>) {
  constexpr size_t kInputs = sizeof...(k);
  alignas(64) C buffer[kInputs + 1][kTile];
  const bool direct = y.dtype == DTypeOf<C> && req != kAddTo;
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t n = std::min(kTile, end - i);
    const auto load = [&](size_t input) -> const C* {
      if (x[input].dtype == DTypeOf<C>) return static_cast<const C*>(x[input].data) + i;
      LoadTile(x[input], i, n, buffer[input]);
      return buffer[input];
    };
    const C* const in[kInputs + 1] = {load(k)..., nullptr};
    C* const out = direct ? static_cast<C*>(y.data) + i : buffer[kInputs];
    const F local = f;  // So that its members stay in registers.
    // An output that is also an input is so element by element.
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) out[j] = local(in[k][j]...);
    if (!direct) StoreTile(y, req, i, n, out);
  }
}

#ifdef GLUOND_GPU
template <class C, class F, class... X>
__global__ void MapKernel(int64_t n, F f, Out<C> y, X... x) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) y.Set(i, f(x[i]...));
}

template <class F, class C, size_t... k>
absl::Status LaunchMap(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y,
                       std::index_sequence<k...>) {
  const int64_t n = y.Size();
  return Launch(ctx, MapKernel<C, F, Repeat<In<C>, k>...>, Blocks(n), kBlockThreads, n, f, Out<C>(y, req),
                In<C>(x[k])...);
}
#endif

}  // namespace map_internal

// True when F computes integers exactly, in int64_t.
template <class F, int inputs>
inline constexpr bool kTakesIntegers = map_internal::Takes<F, int64_t>(std::make_index_sequence<inputs>());

// F(attrs) when the functor reads attributes, F() when it has none to read.
template <class F>
F MakeFunctor(const NodeAttrs& attrs) {
  if constexpr (std::is_constructible_v<F, const NodeAttrs&>) {
    return F(attrs);
  } else {
    return F();
  }
}

// y = f(x[0], ..., x[inputs - 1]). Requires: all have y's number of elements. y may be one of them.
template <class D, int inputs, class F>
absl::Status Map(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  const auto run = [&](auto c) {
    using C = decltype(c);
    constexpr std::make_index_sequence<inputs> kAll;
    if constexpr (std::is_same_v<D, cpu>) {
      Parallel(ctx, y.Size(), kGrain, [&](int64_t begin, int64_t end) {
        map_internal::MapRange<F, C>(f, x, req, y, begin, end, kAll);
      });
      return absl::OkStatus();
    } else {
#ifdef GLUOND_GPU
      return map_internal::LaunchMap<F, C>(ctx, f, x, req, y, kAll);
#endif
    }
  };
  if constexpr (kTakesIntegers<F, inputs>) {
    return DispatchCompute(y.dtype, run);
  } else {
    return DispatchReal(y.dtype, run);
  }
}

// The kernel of an operator that maps F over `inputs` inputs of one shape.
template <class F, int inputs>
struct Elemwise {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    return Map<D, inputs>(ctx, MakeFunctor<F>(attrs), x.data(), req[0], y[0]);
  }
};
template <class F> using Unary = Elemwise<F, 1>;
template <class F> using Binary = Elemwise<F, 2>;

}  // namespace gluond::ops

#endif  // OPS_KERNEL_MAP_H_
