// topk, sort and argsort: the elements of each row in order, or the first k of them. Equal elements keep their order,
// and NaN is larger than any number. The values' gradient, _backward_topk, moves dy to where they came from, and its
// own gradient takes elements from there.

#include "ops/axes.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/sort.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum Return { kValue, kIndices, kMask, kBoth };

template <class P>
void TopkAxisField(Schema<P>& s) {
  s.Field("axis", &P::axis).Default(-1).Describe("The axis to sort; None: all elements, as one row.");
}
template <class P>
void DtypeField(Schema<P>& s) {
  s.Field("dtype", &P::dtype)
      .Default(DType::kFloat32)
      .Describe("The type of indices.")
      .Check([](DType t) { return t != DType::kBool; }, "want a type of numbers");
}

struct TopkParam : Param<TopkParam> {
  std::optional<int> axis;
  int64_t k;
  int ret_typ;
  bool is_ascend;
  DType dtype;
  static void Fields(Schema<TopkParam>& s) {
    TopkAxisField(s);
    s.Field("k", &TopkParam::k).Default(int64_t{1}).Range(0, int64_t{1} << 48).Describe("How many; 0: all.");
    s.Field("ret_typ", &TopkParam::ret_typ)
        .Decides()
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
    TopkAxisField(s);
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
    TopkAxisField(s);
    s.Field("is_ascend", &ArgsortParam::is_ascend).Default(true).Describe("From the smallest to the largest.");
    DtypeField(s);
  }
  static constexpr int64_t k = 0;
  static constexpr int ret_typ = kIndices;
  DType index_type() const { return dtype; }
};

// The largest number up to which the type holds every integer.
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
    return absl::InvalidArgumentError(absl::StrCat("parameter 'k' is ", p.k, "; input 0, ", x.ToString(), ", has ", rows.n,
                                                   p.axis ? " elements along the axis" : " elements"));
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
    RETURN_IF_ERROR(Alike(in, out));
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const P& p = attrs.param<P>();
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(p.axis, x[0].shape));
    const RowGeometry taken = {rows.outer, p.k == 0 ? rows.n : p.k, rows.inner};
    ASSIGN_OR_RETURN(const int64_t* order, SortedOrder<D>(ctx, rows, p.is_ascend, taken.n, x[0]));
    for (size_t i = 0; i < y.size(); ++i) {
      const OpReqType r = req[i];
      if (r == kNullOp) continue;
      const bool indices = p.ret_typ != kMask && i + 1 == y.size();
      if (p.ret_typ == kMask) RETURN_IF_ERROR(Fill<D>(ctx, 0, r, y[i]));
      RETURN_IF_ERROR(DispatchCompute(y[i].dtype, [&]<class C>(C) {
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

// The gradient of the values is put back by the indices, which are output 1.
Gradients RankedGradient(const NodePtr& node, const Gradients& dy) {
  AttrDict dict;
  if (const auto it = node->attrs.dict.find("axis"); it != node->attrs.dict.end()) dict.insert(*it);
  return {Call("_backward_topk", {dy[0], Output(node, 1), node->inputs[0]}, std::move(dict))};
}

#define RANKED(name, P, text)                                             \
  GLUOND_REGISTER_OP(name)                                                \
      .describe(text)                                                     \
      .add_argument("data", "NDArray", "Any shape.")                      \
      .params<P>()                                                        \
      .infer(RankedShape<P>, RankedType<P>)                               \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)          \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true) \
      .compute<Ranked<P>>()

RANKED(topk, TopkParam, "The k largest elements of each row, in order, or where they are.")
    .set_num_outputs([](const NodeAttrs& attrs) {
      const int type = attrs.param<TopkParam>().ret_typ;
      return type == kValue || type == kBoth ? 2u : 1u;
    })
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs",
                                  [](const NodeAttrs& attrs) { return attrs.param<TopkParam>().ret_typ == kBoth ? 2u : 1u; })
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

struct AlongParam : Param<AlongParam> {
  std::optional<int> axis;
  static void Fields(Schema<AlongParam>& s) {
    s.Field("axis", &AlongParam::axis).Default(-1).Describe("The axis; None: all elements, as one row.");
  }
};

// Between `whole` and `part`, element i of which belongs to element index[i] of its row in `whole`; `put` says which of
// them is written. The indices of a row differ, and are in range: they come from sorting.
template <class C, bool put>
struct MoveAlong {
  RowGeometry whole, part;
  In<int64_t> index;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / part.n, in_part = part.begin(row) + i % part.n * part.inner;
    const int64_t in_whole = whole.begin(row) + index[in_part] * whole.inner;
    y.Set(put ? in_whole : in_part, x[put ? in_part : in_whole]);
  }
};

// Inputs: x, the indices, and for `put` a third one, of which only the shape is used.
template <bool put>
struct TopkAlong {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry whole, RowsAlong(attrs.param<AlongParam>().axis, (put ? y : x)[0].shape));
    const int64_t n = x[1].Size();
    if (put) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], y[0]));
    if (n == 0) return absl::OkStatus();
    const RowGeometry part = {whole.outer, n / whole.rows(), whole.inner};
    return DispatchCompute(y[0].dtype, [&]<class C>(C) {
      return ForEach<D>(ctx, n, MoveAlong<C, put>{whole, part, In<int64_t>(x[1]), In<C>(x[0]), Out<C>(y[0], req[0])});
    });
  }
};

absl::StatusOr<bool> SortedShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[2]);
  SHAPE_ASSIGN_CHECK(in, 2, (*out)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*in)[1]);
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(_backward_topk)
    .describe("The gradient of sorted elements: dy where they came from, zeros elsewhere.")
    .with(GradientByIndex(SortedShape, "indices", "Where each element of a row came from.",
                          "What was sorted; only its shape is used."))
    .params<AlongParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<1>{"_backward_backward_topk"})
    .compute<TopkAlong<true>>();

GLUOND_REGISTER_OP(_backward_backward_topk)
    .describe("The gradient of _backward_topk's dy: the elements that the indices name, row by row.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("indices", "NDArray", "Where in its row each element of y is.")
    .params<AlongParam>()
    .infer(ShapesOfInputs<1>, IndexedType)
    .set_attr<FGradient>("FGradient", FirstGradient<1, 0>{"_backward_topk"})
    .compute<TopkAlong<false>>();

}  // namespace
}  // namespace gluond::ops
