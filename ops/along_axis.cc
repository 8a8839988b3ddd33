// Operators that go along one axis, or along all elements: argmax, argmin, argmax_channel, cumsum.

#include "ops/axes.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct ArgParam : Param<ArgParam> {
  std::optional<int> axis;
  bool keepdims;
  static void Fields(Schema<ArgParam>& s) {
    s.Field("axis", &ArgParam::axis).Default(std::nullopt).Describe("The axis to search; None: all elements, as one row.");
    s.Field("keepdims", &ArgParam::keepdims).Default(false).Describe("Keeps the axis with size 1.");
  }
};

absl::StatusOr<bool> ArgShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const ArgParam& p = attrs.param<ArgParam>();
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const uint32_t axes, AxisOrAll(p.axis, x.ndim()));
  const Shape y = ReducedShape(x, axes, p.keepdims);
  if (x.known() && x.Size() == 0 && y.Size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), ": no element to search"));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return x.known();
}

// The place of the first of the largest, or smallest, elements. NaN counts before any number.
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp || x[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<ArgParam>().axis, x[0].shape));
    return DispatchCompute(x[0].dtype, [&]<class C>(C) {
      return ForEachGroup<D>(ctx, rows.rows(), rows.n, ArgRow<C, largest>{rows, In<C>(x[0]), Out<float>(y[0], req[0])});
    });
  }
};

#define ARG(name, largest, text)                     \
  GLUOND_REGISTER_OP(name)                           \
      .describe(text)                                \
      .add_argument("data", "NDArray", "Any shape.") \
      .infer(ArgShape, FixedType<DType::kFloat32>)   \
      .set_attr<FGradient>("FGradient", NoGradient)  \
      .compute<Arg<largest>>()

ARG(argmax, true, "The index of the first largest element along an axis, as float32.").params<ArgParam>();
ARG(argmin, false, "The index of the first smallest element along an axis, as float32.").params<ArgParam>();
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
  RETURN_IF_ERROR(Alike(in, out));
  if ((*in)[0].rank_known()) RETURN_IF_ERROR(NormalizeAxis(*axis, (*in)[0].ndim()).status());
  return AllKnown(*in);
}

// Rows in pieces: a thread goes along each, from the row's end if `reversed`.
template <class C>
using ScanSum = std::conditional_t<std::is_integral_v<C>, int64_t, double>;
struct ScanPieces {
  RowGeometry rows;
  int64_t size, count;  // Elements of a piece, and pieces of a row.
  bool reversed;

  // A row has about as many pieces as elements in each, so that no thread goes far.
  ScanPieces(const RowGeometry& r, bool reversed) : rows(r), size(1 << 14), count(0), reversed(reversed) {
    while (size * size < r.n) size *= 2;
    count = (r.n + size - 1) / size;
  }
  // Element k, as it is gone along, of piece i.
  HOST_DEVICE int64_t At(int64_t i, int64_t k) const {
    const int64_t place = i % count * size + k;
    return rows.begin(i / count) + (reversed ? rows.n - 1 - place : place) * rows.inner;
  }
  HOST_DEVICE int64_t Length(int64_t i) const {
    const int64_t rest = rows.n - i % count * size;
    return rest < size ? rest : size;
  }
};
template <class C>
struct SumPiece {
  ScanPieces pieces;
  In<C> x;
  ScanSum<C>* sums;
  HOST_DEVICE void operator()(int64_t i) const {
    ScanSum<C> sum = 0;
    for (int64_t k = 0; k < pieces.Length(i); ++k) sum = WrappingAdd(sum, static_cast<ScanSum<C>>(x[pieces.At(i, k)]));
    sums[i] = sum;
  }
};
// The sums of a row's pieces become those of all pieces before.
template <class C>
struct SumBefore {
  int64_t count;
  ScanSum<C>* sums;
  HOST_DEVICE void operator()(int64_t row) const {
    ScanSum<C> sum = 0;
    for (int64_t i = row * count; i < (row + 1) * count; ++i) {
      const ScanSum<C> piece = sums[i];
      sums[i] = sum;
      sum = WrappingAdd(sum, piece);
    }
  }
};
template <class C>
struct ScanPiece {
  ScanPieces pieces;
  const ScanSum<C>* before;  // Null: each row is one piece.
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    ScanSum<C> sum = before == nullptr ? 0 : before[i];
    for (int64_t k = 0; k < pieces.Length(i); ++k) {
      const int64_t at = pieces.At(i, k);
      sum = WrappingAdd(sum, static_cast<ScanSum<C>>(x[at]));
      y.Set(at, static_cast<C>(sum));
    }
  }
};

template <bool reversed>
struct Scan {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp || y[0].Size() == 0) return absl::OkStatus();
    const Shape& shape = reversed ? y[0].shape : x[0].shape;
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<CumsumParam>().axis, shape));
    const ScanPieces pieces(rows, reversed);
    const int64_t n = rows.rows() * pieces.count, grain = std::max<int64_t>(1, kGrain / std::min(rows.n, pieces.size));
    return DispatchCompute(y[0].dtype, [&]<class C>(C) -> absl::Status {
      ScanSum<C>* before = nullptr;
      if (pieces.count > 1) {
        ASSIGN_OR_RETURN(before, Space<ScanSum<C>>(ctx, n));
        RETURN_IF_ERROR(ForEach<D>(ctx, n, SumPiece<C>{pieces, In<C>(x[0]), before}, grain));
        RETURN_IF_ERROR(ForEach<D>(ctx, rows.rows(), SumBefore<C>{pieces.count, before}));
      }
      return ForEach<D>(ctx, n, ScanPiece<C>{pieces, before, In<C>(x[0]), Out<C>(y[0], req[0])}, grain);
    });
  }
};

GLUOND_REGISTER_OP(_np_cumsum)
    .describe("The sums of the first 1, 2, ... elements along an axis.")
    .add_alias("cumsum")
    .add_argument("a", "NDArray", "Any shape.")
    .params<CumsumParam>()
    .infer(CumsumShape, TypeOfParam<CumsumParam>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_np_cumsum"})
    .compute<Scan<false>>();

GLUOND_REGISTER_OP(_backward_np_cumsum)
    .describe("The gradient of cumsum: sums of the last elements.")
    .with(GradientByShape(GradientShape<CumsumShape>, TypeOfInput<1>, "a; only its shape and type are used."))
    .params<CumsumParam>()
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_np_cumsum"})
    .compute<Scan<true>>();

}  // namespace
}  // namespace gluond::ops
