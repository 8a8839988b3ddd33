// topk, sort and argsort: the elements of each row in order, or the first k of them. Equal elements keep their order,
// and NaN is larger than any number. The values' gradient puts dy back where they came from.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/sort.h"
#include "ops/rows_along.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

enum Return { kValue, kIndices, kMask, kBoth };

template <class P>
void AxisField(Schema<P>& s) {
  s.Field("axis", &P::axis).Default(-1).Describe("The axis to sort; None: all elements, as one row.");
}
template <class P>
void DtypeField(Schema<P>& s) {
  s.Field("dtype", &P::dtype).Default(DType::kFloat32).Describe("The type of indices.")
      .Check([](DType t) { return t != DType::kBool; }, "want a type of numbers");
}

struct TopkParam : Param<TopkParam> {
  std::optional<int> axis;
  int64_t k;
  int ret_typ;
  bool is_ascend;
  DType dtype;
  static void Fields(Schema<TopkParam>& s) {
    AxisField(s);
    s.Field("k", &TopkParam::k).Default(int64_t{1}).Range(0, int64_t{1} << 48).Describe("How many; 0: all.");
    s.Field("ret_typ", &TopkParam::ret_typ)
        .Enum({{"value", kValue}, {"indices", kIndices}, {"mask", kMask}, {"both", kBoth}})
        .Default("indices")
        .Describe("Elements, their indices, ones in their places and zeros elsewhere, or the first two of these.");
    s.Field("is_ascend", &TopkParam::is_ascend).Default(false).Describe("The smallest instead of the largest.");
    DtypeField(s);
  }
  DType index_type() const { return ret_typ == kValue ? DType::kInt64 : dtype; }
};

struct SortParam : Param<SortParam> {
  std::optional<int> axis;
  bool is_ascend;
  static void Fields(Schema<SortParam>& s) {
    AxisField(s);
    s.Field("is_ascend", &SortParam::is_ascend).Default(true).Describe("From the smallest to the largest.");
  }
  static constexpr int64_t k = 0;
  static constexpr int ret_typ = kValue;
  static DType index_type() { return DType::kInt64; }
};

struct ArgsortParam : Param<ArgsortParam> {
  std::optional<int> axis;
  bool is_ascend;
  DType dtype;
  static void Fields(Schema<ArgsortParam>& s) {
    AxisField(s);
    s.Field("is_ascend", &ArgsortParam::is_ascend).Default(true).Describe("From the smallest to the largest.");
    DtypeField(s);
  }
  static constexpr int64_t k = 0;
  static constexpr int ret_typ = kIndices;
  DType index_type() const { return dtype; }
};

// Up to which number every integer is exact.
int64_t LargestIndex(DType type) {
  switch (type) {
    case DType::kInt8: return 127;
    case DType::kUint8: return 255;
    case DType::kBfloat16: return 1 << 8;
    case DType::kFloat16: return 1 << 11;
    case DType::kFloat32: return 1 << 24;
    case DType::kInt32: return std::numeric_limits<int32_t>::max();
    default: return int64_t{1} << 53;
  }
}

template <class P>
absl::StatusOr<bool> RankedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const P& p = attrs.param<P>();
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(p.axis, x));
  if (p.k > rows.n) {
    return absl::InvalidArgumentError(absl::StrCat("parameter 'k' is ", p.k, "; input 0, ", x.ToString(), ", has ",
                                                   rows.n, p.axis ? " elements along the axis" : " elements"));
  }
  if (p.ret_typ != kMask && rows.n - 1 > LargestIndex(p.index_type())) {
    return absl::InvalidArgumentError(absl::StrCat("indices up to ", rows.n - 1, " do not fit in parameter 'dtype', ",
                                                   Name(p.index_type()), "; want int32 or int64"));
  }
  const int64_t k = p.k == 0 ? rows.n : p.k;
  Shape y = p.axis || p.ret_typ == kMask ? x : Shape({k});
  if (p.axis && p.ret_typ != kMask) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*p.axis, x.ndim()));
    y[axis] = k;
  }
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, y);
  return true;
}

template <class P>
absl::StatusOr<bool> RankedType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const P& p = attrs.param<P>();
  if (p.ret_typ != kIndices) {
    TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
    TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  }
  if (p.ret_typ != kMask) TYPE_ASSIGN_CHECK(out, out->size() - 1, p.index_type());
  return AllKnown(*in);
}

// The first y_rows.n of each row, of which `order` has x_rows.n.
template <class C>
struct TakeRanked {
  RowGeometry x_rows, y_rows;
  const int64_t* order;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / y_rows.n, rank = i % y_rows.n, at = order[row * x_rows.n + rank];
    y.Set(y_rows.begin(row) + rank * y_rows.inner, x[x_rows.begin(row) + at * x_rows.inner]);
  }
};
template <class C>
struct SetIndex {
  RowGeometry x_rows, y_rows;
  const int64_t* order;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / y_rows.n, rank = i % y_rows.n;
    y.Set(y_rows.begin(row) + rank * y_rows.inner, static_cast<C>(order[row * x_rows.n + rank]));
  }
};
template <class C>
struct MarkRanked {
  RowGeometry x_rows, y_rows;
  const int64_t* order;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / y_rows.n, rank = i % y_rows.n;
    y.Set(x_rows.begin(row) + order[row * x_rows.n + rank] * x_rows.inner, C(1));
  }
};

template <class P>
struct Ranked {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    const P& p = attrs.param<P>();
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(p.axis, x[0].shape));
    const RowGeometry taken = {rows.outer, p.k == 0 ? rows.n : p.k, rows.inner};
    ASSIGN_OR_RETURN(const int64_t* order, SortedOrder<D>(ctx, rows, p.is_ascend, taken.n, x[0]));
    for (size_t i = 0; i < y.size(); ++i) {
      const OpReqType r = req[i];
      if (r == kNullOp) continue;
      const bool indices = p.ret_typ != kMask && i + 1 == y.size();
      if (p.ret_typ == kMask) RETURN_IF_ERROR(Fill<D>(ctx, 0, r, y[i]));
      RETURN_IF_ERROR(DispatchCompute(y[i].dtype, [&](auto c) {
        using C = decltype(c);
        const Out<C> out(y[i], r);
        const int64_t n = taken.rows() * taken.n;
        if (p.ret_typ == kMask) return ForEach<D>(ctx, n, MarkRanked<C>{rows, taken, order, out});
        if (indices) return ForEach<D>(ctx, n, SetIndex<C>{rows, taken, order, out});
        return ForEach<D>(ctx, n, TakeRanked<C>{rows, taken, order, In<C>(x[0]), out});
      }));
    }
    return absl::OkStatus();
  }
};

// dL/d(values), put back by the indices, which are output 1.
Gradients RankedGradient(const NodePtr& node, const Gradients& dy) {
  AttrDict dict;
  if (const auto it = node->attrs.dict.find("axis"); it != node->attrs.dict.end()) dict.insert(*it);
  return {Call("_backward_topk", {dy[0], Output(node, 1), node->inputs[0]}, std::move(dict))};
}

#define RANKED(name, P, text)                                                 \
  GLUOND_REGISTER_OP(name)                                                    \
      .describe(text)                                                         \
      .add_argument("data", "NDArray", "Any shape.")                          \
      .add_arguments(P::__FIELDS__())                                         \
      .set_attr_parser(ParamParser<P>)                                        \
      .set_attr<FInferShape>("FInferShape", RankedShape<P>)                   \
      .set_attr<FInferType>("FInferType", RankedType<P>)                      \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)              \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)     \
      .compute<Ranked<P>>()

RANKED(topk, TopkParam, "The k largest elements of each row, in order, or where they are.")
    .set_num_outputs([](const NodeAttrs& attrs) {
      const int type = attrs.param<TopkParam>().ret_typ;
      return type == kValue || type == kBoth ? 2u : 1u;
    })
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs& attrs) {
      return attrs.param<TopkParam>().ret_typ == kBoth ? 2u : 1u;
    })
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) {
      const int type = node->param<TopkParam>().ret_typ;
      return type == kValue || type == kBoth ? RankedGradient(node, dy) : NoGradient(node, dy);
    });
RANKED(sort, SortParam, "The elements of each row in order.")
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FGradient>("FGradient", RankedGradient);
RANKED(argsort, ArgsortParam, "Where the first, second, ... element of each row in order is.")
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace
}  // namespace gluond::ops
