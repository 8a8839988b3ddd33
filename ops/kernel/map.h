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

#include "engine/core/node_attrs.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

struct Identity {
  template <class C>
  HOST_DEVICE C operator()(C x) const {
    return x;
  }
};

}  // namespace gluond::ops

#include BACKEND(map.h)

namespace gluond::ops {

namespace map_internal {

template <class C, size_t>
using Repeat = C;

template <class F, class C, size_t... k>
constexpr bool Takes(std::index_sequence<k...>) {
  return std::is_invocable_v<const F&, Repeat<C, k>...>;
}

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

// y = f(x[0], ..., x[inputs - 1]), computed in C. Requires: all have y's number of elements. y may be one of them.
template <class D, class C, int inputs, class F>
absl::Status MapIn(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  return map_internal::Run<C>(D(), ctx, f, x, req, y, std::make_index_sequence<inputs>());
}

// The same, computed in the type that goes with y's.
template <class D, int inputs, class F>
absl::Status Map(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  const auto run = [&](auto c) { return MapIn<D, decltype(c), inputs>(ctx, f, x, req, y); };
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> y) {
    return Map<D, inputs>(ctx, MakeFunctor<F>(attrs), x.data(), req[0], y[0]);
  }
};
template <class F>
using Unary = Elemwise<F, 1>;
template <class F>
using Binary = Elemwise<F, 2>;

}  // namespace gluond::ops

#endif  // OPS_KERNEL_MAP_H_
