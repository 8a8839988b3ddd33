// Operators that go along one axis, or along all elements: argmax, argmin, argmax_channel, cumsum.

#include <cmath>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/kernel/rows.h"
#include "ops/rows_along.h"

namespace gluond::ops {
namespace {

struct ArgParam : Param<ArgParam> {
  std::optional<int> axis;
  bool keepdims;
  static void Fields(Schema<ArgParam>& s) {
    s.Field("axis", &ArgParam::axis).Default(std::nullopt)
        .Describe("The axis to search; None: all elements, as one row.");
    s.Field("keepdims", &ArgParam::keepdims).Default(false).Describe("Keeps the axis with size 1.");
  }
};

absl::StatusOr<bool> ArgShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const ArgParam& p = attrs.param<ArgParam>();
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  uint32_t axes = (1u << x.ndim()) - 1;
  if (p.axis) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*p.axis, x.ndim()));
    axes = 1u << axis;
  }
  const Shape y = ReducedShape(x, axes, p.keepdims);
  if (x.known() && x.Size() == 0 && y.Size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), ": no element to search"));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return x.known();
}

// The first of the largest, or smallest; NaN before any number.
template <class C, bool largest>
struct ArgRow {
  struct Found {
    C value;
    int64_t at;
  };
  RowGeometry rows;
  In<C> x;
  Out<float> y;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t begin = rows.begin(row);
    const auto better = [](const Found& a, const Found& b) {
      const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
      const bool wins = a_nan || b_nan ? b_nan && !a_nan : largest ? b.value > a.value : b.value < a.value;
      const bool ties = a_nan || b_nan ? a_nan && b_nan : b.value == a.value;
      return wins || (ties && b.at < a.at) ? b : a;
    };
    const auto at = [&](int64_t i) { return Found{x[begin + i * rows.inner], i}; };
    const Found found = g.Reduce(rows.n, at(0), at, better);
    if (g.first()) y.Set(row, static_cast<float>(found.at));
  }
};

template <bool largest>
struct Arg {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp || x[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<ArgParam>().axis, x[0].shape));
    return DispatchCompute(x[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                             ArgRow<C, largest>{rows, In<C>(x[0]), Out<float>(y[0], req[0])});
    });
  }
};

#define ARG(name, largest, text)                                              \
  GLUOND_REGISTER_OP(name)                                                    \
      .describe(text)                                                         \
      .add_argument("data", "NDArray", "Any shape.")                          \
      .set_attr<FInferShape>("FInferShape", ArgShape)                         \
      .set_attr<FInferType>("FInferType", [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> { \
        TYPE_ASSIGN_CHECK(out, 0, DType::kFloat32);                           \
        return AllKnown(*in);                                                 \
      })                                                                      \
      .set_attr<FGradient>("FGradient", NoGradient)                           \
      .compute<Arg<largest>>()

ARG(argmax, true, "The index of the first largest element along an axis, as float32.")
    .add_arguments(ArgParam::__FIELDS__())
    .set_attr_parser(ParamParser<ArgParam>);
ARG(argmin, false, "The index of the first smallest element along an axis, as float32.")
    .add_arguments(ArgParam::__FIELDS__())
    .set_attr_parser(ParamParser<ArgParam>);
ARG(argmax_channel, true, "The index of the first largest element along axis 1, as float32.")
    .set_attr_parser([](NodeAttrs* attrs) -> absl::Status {
      RETURN_IF_ERROR(SchemaBase().Parse(nullptr, attrs->dict));
      attrs->Store(ArgParam{{}, 1, false});
      return absl::OkStatus();
    });

struct CumsumParam : Param<CumsumParam> {
  std::optional<int> axis;
  std::optional<DType> dtype;
  static void Fields(Schema<CumsumParam>& s) {
    s.Field("axis", &CumsumParam::axis).Default(std::nullopt).Describe("The axis; None: all elements, as one row.");
    s.Field("dtype", &CumsumParam::dtype).Default(std::nullopt).Describe("The type of y; None: that of a.");
  }
};

absl::StatusOr<bool> CumsumShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const std::optional<int>& axis = attrs.param<CumsumParam>().axis;
  if (!axis) {
    if (!(*in)[0].known()) return false;
    SHAPE_ASSIGN_CHECK(out, 0, Shape({(*in)[0].Size()}));
    return true;
  }
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  if ((*in)[0].rank_known()) RETURN_IF_ERROR(NormalizeAxis(*axis, (*in)[0].ndim()).status());
  return AllKnown(*in);
}

// One thread goes along the row; reversed: from its end.
template <class C, bool reversed>
struct ScanRow {
  RowGeometry rows;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t row) const {
    const int64_t begin = rows.begin(row);
    std::conditional_t<std::is_integral_v<C>, int64_t, double> sum = 0;
    for (int64_t k = 0; k < rows.n; ++k) {
      const int64_t at = begin + (reversed ? rows.n - 1 - k : k) * rows.inner;
      sum = WrappingAdd(sum, static_cast<decltype(sum)>(x[at]));
      y.Set(at, static_cast<C>(sum));
    }
  }
};

template <bool reversed>
struct Scan {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp || y[0].Size() == 0) return absl::OkStatus();
    const Shape& shape = reversed ? y[0].shape : x[0].shape;
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<CumsumParam>().axis, shape));
    return DispatchCompute(y[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, rows.rows(), ScanRow<C, reversed>{rows, In<C>(x[0]), Out<C>(y[0], req[0])},
                        std::max<int64_t>(1, kGrain / std::max<int64_t>(1, rows.n)));
    });
  }
};

GLUOND_REGISTER_OP(_np_cumsum)
    .describe("The sums of the first 1, 2, ... elements along an axis.")
    .add_alias("cumsum")
    .add_argument("a", "NDArray", "Any shape.")
    .add_arguments(CumsumParam::__FIELDS__())
    .set_attr_parser(ParamParser<CumsumParam>)
    .set_attr<FInferShape>("FInferShape", CumsumShape)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      TYPE_ASSIGN_CHECK(out, 0, attrs.param<CumsumParam>().dtype.value_or((*in)[0]));
      return AllKnown(*in);
    })
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_np_cumsum", {dy[0], node->inputs[0]}, node->attrs.dict)};
    })
    .compute<Scan<false>>();

GLUOND_REGISTER_OP(_backward_np_cumsum)
    .describe("The gradient of cumsum: sums of the last elements.")
    .set_num_inputs(2)
    .add_argument("dy", "NDArray", "dL/dy.")
    .add_argument("like", "NDArray", "a; only its shape and type are used.")
    .add_arguments(CumsumParam::__FIELDS__())
    .set_attr_parser(ParamParser<CumsumParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
      SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
      ShapeVector a = {(*in)[1]}, dy = {(*in)[0]};
      RETURN_IF_ERROR(CumsumShape(attrs, &a, &dy).status());
      (*in)[0] = dy[0];
      return AllKnown(*in);
    })
    .set_attr<FInferType>("FInferType", [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      TYPE_ASSIGN_CHECK(out, 0, (*in)[1]);
      TYPE_ASSIGN_CHECK(in, 1, (*out)[0]);
      return AllKnown(*in);
    })
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_np_cumsum", {dy[0]}, node->attrs.dict), {}};
    })
    .compute<Scan<true>>();

}  // namespace
}  // namespace gluond::ops
