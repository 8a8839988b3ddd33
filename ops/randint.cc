// _random_randint: uniform random integers.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/launch.h"
#include "ops/shape_param.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct RandintParam : Param<RandintParam> {
  int64_t low, high;
  std::vector<int64_t> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static void Fields(Schema<RandintParam>& s) {
    s.Field("low", &RandintParam::low).Describe("Lower bound.");
    s.Field("high", &RandintParam::high).Describe("Upper bound, which is left out.");
    ShapeFields(s);
    s.Field("dtype", &RandintParam::dtype).Default(std::nullopt).Describe("The type of y; None: int32.")
        .Check([](DType t) { return t == DType::kInt32 || t == DType::kInt64; }, "want int32 or int64");
  }
};

absl::Status ParseRandint(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<RandintParam>(attrs));
  const RandintParam& p = attrs->param<RandintParam>();
  if (p.low >= p.high) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'low' is ", p.low, " and 'high' ", p.high,
                                                   "; want low below high"));
  }
  const bool wide = p.dtype == DType::kInt64;
  if (!wide && (p.low < std::numeric_limits<int32_t>::min() || p.high - 1 > std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("numbers from ", p.low, " to ", p.high,
                                                   " do not fit in int32; want parameter 'dtype' int64"));
  }
  return absl::OkStatus();
}

// 64 random bits modulo the range, without those few that would make some numbers likelier.
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob>,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const RandintParam& p = attrs.param<RandintParam>();
    const uint64_t range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
    constexpr int64_t kDrawGrain = 1024;
    return ForEach<D>(ctx, y[0].Size(),
                      RandintElement{ctx.random, p.low, range, (0 - range) % range, Out<int64_t>(y[0], req[0])},
                      kDrawGrain);
  }
};

GLUOND_REGISTER_OP(_random_randint)
    .describe("Uniform random integers in [low, high).")
    .add_alias("random_randint")
    .set_num_inputs(0)
    .add_arguments(RandintParam::__FIELDS__())
    .set_attr_parser(ParseRandint)
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
