// Random tensors: _random_uniform, _random_normal, and their forms with the shape of a tensor; and _random_randint,
// uniform integers. Element i depends on the model's seed, the node, the run and i only, so every device and every
// number of threads draws the same.

#include <cmath>
#include <type_traits>

#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/math.h"
#include "ops/shape_param.h"

namespace gluond::ops {
namespace {

struct Uniform {
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("low", &P::a).Default(0.0).Describe("Lower bound.");
    s.template Field<double>("high", &P::b).Default(1.0).Describe("Upper bound, which is left out.");
  }
};
struct Normal {
  template <class P>
  static void Fields(Schema<P>& s) {
    s.template Field<double>("loc", &P::a).Default(0.0).Describe("Mean.");
    s.template Field<double>("scale", &P::b).Default(1.0).AtLeast(0.0).Describe("Standard deviation.");
  }
};

// The number of elements that one block of the generator gives: one for each word, or, of doubles, one for two words.
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
      : random(philox),
        low(static_cast<C>(from)),
        range(static_cast<C>(to - from)),
        top(static_cast<C>(UniformTop(blob.dtype, from, to))),
        n(blob.Size()),
        y(blob, req) {}

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

template <template <class> class Block, class P>
struct RandomDraw {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    constexpr int64_t kBlockGrain = 1024;  // One block costs as much as some 60 additions.
    const P& p = attrs.param<P>();
    return DispatchReal(y[0].dtype, [&]<class C>(C) {
      return ForEach<D>(ctx, (y[0].Size() + kPerBlock<C> - 1) / kPerBlock<C>, Block<C>(ctx.random, p.a, p.b, y[0], req[0]),
                        kBlockGrain);
    });
  }
};

GLUOND_REGISTER_OP(_random_uniform)
    .describe("Uniform random numbers in [low, high).")
    .add_alias("random_uniform")
    .add_alias("uniform")
    .with(RandomFacts<RandomParam<Uniform>>)
    .compute<RandomDraw<UniformBlock, RandomParam<Uniform>>>();
GLUOND_REGISTER_OP(_random_uniform_like)
    .describe("Uniform random numbers in [low, high). In the shape and type of data.")
    .with(RandomLikeFacts<LikeParam<Uniform>>)
    .compute<RandomDraw<UniformBlock, LikeParam<Uniform>>>();
GLUOND_REGISTER_OP(_random_normal)
    .describe("Normally distributed random numbers.")
    .add_alias("random_normal")
    .add_alias("normal")
    .with(RandomFacts<RandomParam<Normal>>)
    .compute<RandomDraw<NormalBlock, RandomParam<Normal>>>();
GLUOND_REGISTER_OP(_random_normal_like)
    .describe("Normally distributed random numbers. In the shape and type of data.")
    .with(RandomLikeFacts<LikeParam<Normal>>)
    .compute<RandomDraw<NormalBlock, LikeParam<Normal>>>();

struct RandintParam : Param<RandintParam> {
  int64_t low, high;
  std::vector<int64_t> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static void Fields(Schema<RandintParam>& s) {
    s.Field("low", &RandintParam::low).Describe("Lower bound.");
    s.Field("high", &RandintParam::high).Describe("Upper bound, which is left out.");
    ShapeFields(s);
    s.Field("dtype", &RandintParam::dtype)
        .Default(std::nullopt)
        .Describe("The type of y; None: int32.")
        .Check([](DType t) { return t == DType::kInt32 || t == DType::kInt64; }, "want int32 or int64");
  }
};

absl::Status ParseRandint(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<RandintParam>(attrs));
  const RandintParam& p = attrs->param<RandintParam>();
  if (p.low >= p.high) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'low' is ", p.low, " and 'high' ", p.high, "; want low below high"));
  }
  const bool wide = p.dtype == DType::kInt64;
  if (!wide && (p.low < std::numeric_limits<int32_t>::min() || p.high - 1 > std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("numbers from ", p.low, " to ", p.high, " do not fit in int32; want parameter 'dtype' int64"));
  }
  return absl::OkStatus();
}

// 64 random bits modulo the range. Bits below `unfair` are not used, as they would make some numbers likelier.
struct RandintElement {
  Philox random;
  int64_t low;
  uint64_t range, unfair;
  Out<int64_t> y;
  HOST_DEVICE void operator()(int64_t i) const {
    Draws draws(random, i);
    uint64_t bits;
    do {
      bits = uint64_t{draws.Word()} << 32;
      bits |= draws.Word();
    } while (bits < unfair);
    y.Set(i, static_cast<int64_t>(static_cast<uint64_t>(low) + bits % range));
  }
};

struct Randint {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const RandintParam& p = attrs.param<RandintParam>();
    const uint64_t range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
    constexpr int64_t kDrawGrain = 1024;
    return ForEach<D>(ctx, y[0].Size(), RandintElement{ctx.random, p.low, range, (0 - range) % range, Out<int64_t>(y[0], req[0])},
                      kDrawGrain);
  }
};

GLUOND_REGISTER_OP(_random_randint)
    .describe("Uniform random integers in [low, high).")
    .add_alias("random_randint")
    .set_num_inputs(0)
    .params<RandintParam>(ParseRandint)
    .set_attr<FInferShape>("FInferShape", ShapeOfParam<RandintParam>)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs& attrs, TypeVector*, TypeVector* out) -> absl::StatusOr<bool> {
                            TYPE_ASSIGN_CHECK(out, 0, attrs.param<RandintParam>().dtype.value_or(DType::kInt32));
                            return true;
                          })
    .set_attr<FResourceRequest>("FResourceRequest", Random)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<Randint>();

}  // namespace
}  // namespace gluond::ops
