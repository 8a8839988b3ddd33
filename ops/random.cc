// Random tensors: _random_uniform, _random_normal, and their forms with the shape of a tensor. Element i depends on the
// model's seed, the node, the run and i only, so every device and every number of threads draws the same.

#include <cmath>
#include <type_traits>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/math.h"
#include "ops/shape_param.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct UniformParam : Param<UniformParam> {
  double low, high;
  std::vector<int64_t> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static void Fields(Schema<UniformParam>& s) {
    s.Field("low", &UniformParam::low).Default(0.0).Describe("Lower bound.");
    s.Field("high", &UniformParam::high).Default(1.0).Describe("Upper bound, which is left out.");
    ShapeFields(s);
    FloatDtypeField(s);
  }
};

struct NormalParam : Param<NormalParam> {
  double loc, scale;
  std::vector<int64_t> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static void Fields(Schema<NormalParam>& s) {
    s.Field("loc", &NormalParam::loc).Default(0.0).Describe("Mean.");
    s.Field("scale", &NormalParam::scale).Default(1.0).AtLeast(0.0).Describe("Standard deviation.");
    ShapeFields(s);
    FloatDtypeField(s);
  }
};

// Elements that one block of the generator gives: one for each word, or, for a double, one for two.
template <class C>
inline constexpr int64_t kPerBlock = std::is_same_v<C, double> ? 2 : 4;

// Element k of a block, in [0, 1).
template <class C>
HOST_DEVICE C UniformOf(const Philox::Block& block, int64_t k) {
  if constexpr (std::is_same_v<C, double>) {
    return ToUniform53(block.word[2 * k], block.word[2 * k + 1]);
  } else {
    return Philox::ToUniform(block.word[k]);
  }
}

template <class C>
struct UniformBlock {
  Philox random;
  C low, range, top;
  int64_t n;
  Out<C> y;
  UniformBlock(const Philox& philox, double from, double to, const TBlob& blob, OpReqType req)
      : random(philox), low(static_cast<C>(from)), range(static_cast<C>(to - from)),
        top(static_cast<C>(UniformTop(blob.dtype, from, to))), n(blob.Size()), y(blob, req) {}

  HOST_DEVICE void operator()(int64_t block) const {
    const Philox::Block words = random(static_cast<uint64_t>(block));
    for (int64_t k = 0, i = kPerBlock<C> * block; k < kPerBlock<C> && i < n; ++k, ++i) {
      const C v = low + range * UniformOf<C>(words, k);
      y.Set(i, v > top ? top : v);
    }
  }
};

// Box and Muller: two uniform numbers, one of them in (0, 1], make two normal ones.
template <class C>
struct NormalBlock {
  Philox random;
  C mean, deviation;
  int64_t n;
  Out<C> y;
  NormalBlock(const Philox& philox, double loc, double scale, const TBlob& blob, OpReqType req)
      : random(philox), mean(static_cast<C>(loc)), deviation(static_cast<C>(scale)), n(blob.Size()), y(blob, req) {}

  HOST_DEVICE void operator()(int64_t block) const {
    constexpr C kLeast = std::is_same_v<C, double> ? C(0x1p-53) : C(0x1p-24);
    const Philox::Block words = random(static_cast<uint64_t>(block));
    for (int64_t k = 0; k < kPerBlock<C>; k += 2) {
      const int64_t i = kPerBlock<C> * block + k;
      const C u = UniformOf<C>(words, k) + kLeast;
      const C angle = static_cast<C>(2 * M_PI) * UniformOf<C>(words, k + 1);
      const C radius = deviation * math::Sqrt(-2 * math::Log(u));
      if (i < n) y.Set(i, mean + radius * math::Cos(angle));
      if (i + 1 < n) y.Set(i + 1, mean + radius * math::Sin(angle));
    }
  }
};

template <template <class> class Block, class C, class D>
absl::Status Draw(const OpContext& ctx, double a, double b, OpReqType req, const TBlob& y) {
  constexpr int64_t kBlockGrain = 1024;  // One block costs as much as some 60 additions.
  return ForEach<D>(ctx, (y.Size() + kPerBlock<C> - 1) / kPerBlock<C>, Block<C>(ctx.random, a, b, y, req), kBlockGrain);
}

// In the shape and type of a tensor.
struct UniformLikeParam : Param<UniformLikeParam> {
  double low, high;
  static void Fields(Schema<UniformLikeParam>& s) {
    s.Field("low", &UniformLikeParam::low).Default(0.0).Describe("Lower bound.");
    s.Field("high", &UniformLikeParam::high).Default(1.0).Describe("Upper bound, which is left out.");
  }
};
struct NormalLikeParam : Param<NormalLikeParam> {
  double loc, scale;
  static void Fields(Schema<NormalLikeParam>& s) {
    s.Field("loc", &NormalLikeParam::loc).Default(0.0).Describe("Mean.");
    s.Field("scale", &NormalLikeParam::scale).Default(1.0).AtLeast(0.0).Describe("Standard deviation.");
  }
};

template <class P>
struct Uniform {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob>,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const P& p = attrs.param<P>();
    return DispatchReal(y[0].dtype, [&](auto c) {
      return Draw<UniformBlock, decltype(c), D>(ctx, p.low, p.high, req[0], y[0]);
    });
  }
};

template <class P>
struct Normal {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob>,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const P& p = attrs.param<P>();
    return DispatchReal(y[0].dtype, [&](auto c) {
      return Draw<NormalBlock, decltype(c), D>(ctx, p.loc, p.scale, req[0], y[0]);
    });
  }
};

#define RANDOM(name, P, text)                                         \
  GLUOND_REGISTER_OP(name)                                            \
      .describe(text)                                                 \
      .set_num_inputs(0)                                              \
      .add_arguments(P::__FIELDS__())                                 \
      .set_attr_parser(ParamParser<P>)                                \
      .set_attr<FInferShape>("FInferShape", ShapeOfParam<P>)          \
      .set_attr<FInferType>("FInferType", FloatTypeOfParam<P>)        \
      .set_attr<FResourceRequest>("FResourceRequest", Random)         \
      .set_attr<FGradient>("FGradient", NoGradient)
#define RANDOM_LIKE(name, P, text)                                    \
  GLUOND_REGISTER_OP(name)                                            \
      .describe(text " In the shape and type of data.")               \
      .add_argument("data", "NDArray", "Only its shape and type are used.") \
      .add_arguments(P::__FIELDS__())                                 \
      .set_attr_parser(ParamParser<P>)                                \
      .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)      \
      .set_attr<FInferType>("FInferType", SameFloatType)              \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)            \
      .set_attr<FResourceRequest>("FResourceRequest", Random)         \
      .set_attr<FGradient>("FGradient", NoGradient)

RANDOM(_random_uniform, UniformParam, "Uniform random numbers in [low, high).")
    .add_alias("random_uniform").add_alias("uniform").compute<Uniform<UniformParam>>();
RANDOM(_random_normal, NormalParam, "Normally distributed random numbers.")
    .add_alias("random_normal").add_alias("normal").compute<Normal<NormalParam>>();
RANDOM_LIKE(_random_uniform_like, UniformLikeParam, "Uniform random numbers in [low, high).")
    .compute<Uniform<UniformLikeParam>>();
RANDOM_LIKE(_random_normal_like, NormalLikeParam, "Normally distributed random numbers.")
    .compute<Normal<NormalLikeParam>>();

}  // namespace
}  // namespace gluond::ops
