// _contrib_box_nms, non-maximum suppression: of the boxes that overlap much, the one with the highest score. A box is a row
// of a matrix, with its score, its coordinates and, if wanted, its class in given columns. The boxes that stay come first,
// by score. A hidden output says which row each was, so that its gradient goes back there.

#include <limits>

#include "ops/elements.h"
#include "ops/kernel/sort.h"
#include "ops/kernel/stage.h"
#include "ops/suppression.h"

namespace gluond::ops {
namespace {

struct BoxNmsParam : Param<BoxNmsParam> {
  double overlap_thresh, valid_thresh;
  int64_t topk, coord_start, score_index, id_index, background_id;
  bool force_suppress;
  int in_format, out_format;
  static void Fields(Schema<BoxNmsParam>& s) {
    using P = BoxNmsParam;
    s.Field("overlap_thresh", &P::overlap_thresh)
        .Default(0.5)
        .Describe("A box goes if its overlap with one of a higher score that stays is above this.");
    s.Field("valid_thresh", &P::valid_thresh).Default(0.0).Describe("Boxes go whose score is not above this.");
    s.Field("topk", &P::topk)
        .Default(int64_t{-1})
        .Describe("How many boxes of the highest scores are looked at; negative: all. 0: y is data as it is.");
    constexpr int64_t kColumns = int64_t{1} << 31;
    s.Field("coord_start", &P::coord_start).Default(int64_t{2}).Range(0, kColumns).Describe("The first of four coordinates.");
    s.Field("score_index", &P::score_index).Default(int64_t{1}).Range(0, kColumns).Describe("The score's column.");
    s.Field("id_index", &P::id_index)
        .Default(int64_t{-1})
        .Range(-1, kColumns)
        .Describe("The class' column. Boxes of other classes do not suppress each other. -1: there are no classes.");
    s.Field("background_id", &P::background_id).Default(int64_t{-1}).Describe("Boxes of this class go.");
    s.Field("force_suppress", &P::force_suppress).Default(false).Describe("Boxes of other classes suppress each other, too.");
    BoxFormatField(s, "in_format", &P::in_format, "The coordinates of data");
    BoxFormatField(s, "out_format", &P::out_format, "The coordinates of y");
  }
};

// Matrices of `boxes` rows and `width` columns, and what is known of their columns.
struct NmsSize {
  int64_t batch, boxes, width, top, coordinates, score, id, background;
  bool across_classes;
  int in_format, out_format;

  NmsSize(const BoxNmsParam& p, const Shape& x)
      : batch(x.Size(0, x.ndim() - 2)),
        boxes(x[x.ndim() - 2]),
        width(x.back()),
        top(p.topk < 0 || p.topk > boxes ? boxes : p.topk),
        coordinates(p.coord_start),
        score(p.score_index),
        id(p.id_index),
        background(p.background_id),
        across_classes(p.force_suppress || p.id_index < 0),
        in_format(p.in_format),
        out_format(top == 0 ? p.in_format : p.out_format) {}
};

template <class C>
struct LoadScore {
  NmsSize s;
  C least;
  In<C> x;
  C* score;
  HOST_DEVICE void operator()(int64_t i) const {
    const C v = x[i * s.width + s.score];
    const bool valid = v > least && (s.id < 0 || x[i * s.width + s.id] != static_cast<C>(s.background));
    score[i] = valid ? v : -std::numeric_limits<C>::infinity();
  }
};

// Boxes in the order of their scores.
template <class C>
struct BoxNmsCandidates {
  NmsSize s;
  C most;
  const C* score;
  const int64_t* order;
  In<C> x;

  HOST_DEVICE int64_t Row(int64_t b, int64_t place) const { return b * s.boxes + order[b * s.boxes + place]; }
  HOST_DEVICE bool Valid(int64_t b, int64_t place) const { return score[Row(b, place)] > -std::numeric_limits<C>::infinity(); }
  HOST_DEVICE C Between(int64_t b, int64_t better, int64_t place) const {
    const int64_t one = Row(b, better) * s.width, two = Row(b, place) * s.width;
    if (!s.across_classes && x[one + s.id] != x[two + s.id]) return -std::numeric_limits<C>::infinity();
    return Overlap(Box<C>::Load(x, one + s.coordinates, s.in_format), Box<C>::Load(x, two + s.coordinates, s.in_format));
  }
  HOST_DEVICE bool IsTooMuch(C overlap) const { return overlap > most; }
};

// The rows that stay, and -1 behind them.
struct ListRows {
  Stays stays;
  const int64_t* order;
  int64_t* kept;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / stays.boxes, n = i % stays.boxes;
    kept[i] = n < stays.count[b] ? order[b * stays.boxes + stays.kept[i]] : -1;
  }
};

struct KeepAll {
  int64_t boxes;
  int64_t* kept;
  HOST_DEVICE void operator()(int64_t i) const { kept[i] = i % boxes; }
};

// Element `column` of a box that is read from `row` on, with its coordinates in the other format if wanted. The formats'
// conversions are linear; `transposed` goes back through them, as gradients do.
template <class C>
struct Converted {
  In<C> x;
  int64_t coordinates;
  int from, to;
  bool transposed;

  HOST_DEVICE C operator()(int64_t row, int64_t column) const {
    const int64_t k = column - coordinates;
    if (from == to || k < 0 || k > 3) return x[row + column];
    const bool position = k < 2;
    const C a = x[row + coordinates + k % 2], b = x[row + coordinates + k % 2 + 2];
    if (from == kCorner) {  // The centre is (a + b) / 2, the size b - a.
      if (transposed) return position ? a / 2 - b : a / 2 + b;
      return position ? (a + b) / 2 : b - a;
    }
    if (transposed) return position ? a + b : (b - a) / 2;
    return position ? a - b / 2 : a + b / 2;
  }
};

template <class C>
struct WriteBox {
  NmsSize s;
  const int64_t* kept;
  Converted<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / s.width, from = kept[row];
    y.Set(i, from < 0 ? C(-1) : x((row / s.boxes * s.boxes + from) * s.width, i % s.width));
  }
};
template <class C>
struct ReturnBox {
  NmsSize s;
  In<int64_t> kept;
  Converted<C> dy;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / s.width, to = kept[row];
    if (to >= 0 && to < s.boxes) dx.Set((row / s.boxes * s.boxes + to) * s.width + i % s.width, dy(row * s.width, i % s.width));
  }
};

struct BoxNms {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<BoxNmsParam>();
    if (in[0].Size() == 0) return absl::OkStatus();
    const NmsSize s(p, in[0].shape);
    const int64_t n = s.batch * s.boxes;
    ASSIGN_OR_RETURN(int64_t* const kept, Space<int64_t>(ctx, n));
    if (s.top == 0) RETURN_IF_ERROR(ForEach<D>(ctx, n, KeepAll{s.boxes, kept}));
    return DispatchReal(in[0].dtype, [&]<class C>(C) -> absl::Status {
      const In<C> x(in[0]);
      if (s.top > 0) {
        ASSIGN_OR_RETURN(C* const score, Space<C>(ctx, n));
        RETURN_IF_ERROR(ForEach<D>(ctx, n, LoadScore<C>{s, static_cast<C>(p.valid_thresh), x, score}));
        ASSIGN_OR_RETURN(const int64_t* const order,
                         SortedOrder<D>(ctx, {s.batch, s.boxes, 1}, false, s.top, VectorOf(ctx, score, n)));
        ASSIGN_OR_RETURN(const Stays stays, Stays::Of(ctx, s.batch, s.boxes));
        const BoxNmsCandidates<C> candidates = {s, static_cast<C>(p.overlap_thresh), score, order, x};
        RETURN_IF_ERROR(Suppress<D>(ctx, s.batch, s.top, candidates, stays));
        RETURN_IF_ERROR(ForEach<D>(ctx, n, ListRows{stays, order, kept}));
      }
      if (req[1] != kNullOp) RETURN_IF_ERROR((ConvertTo<D, int64_t>(ctx, VectorOf(ctx, kept, n), req[1], out[1])));
      if (req[0] == kNullOp) return absl::OkStatus();
      return ForEach<D>(ctx, n * s.width,
                        WriteBox<C>{s, kept, {x, s.coordinates, s.in_format, s.out_format, false}, Out<C>(out[0], req[0])});
    });
  }
};

// Inputs: dy, and the rows that stayed.
struct BackwardBoxNms {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const NmsSize s(attrs.param<BoxNmsParam>(), out[0].shape);
    RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], out[0]));
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      const Converted<C> dy = {In<C>(in[0]), s.coordinates, s.in_format, s.out_format, true};
      return ForEach<D>(ctx, out[0].Size(), ReturnBox<C>{s, In<int64_t>(in[1]), dy, Out<C>(out[0], req[0])});
    });
  }
};

absl::StatusOr<bool> BoxNmsShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<BoxNmsParam>();
  const Shape& x = (*in)[0];
  RETURN_IF_ERROR(CheckRank(x, 2, ": boxes, and the numbers of each"));
  if (!x.known()) return false;
  const int64_t wanted = std::max({p.coord_start + 4, p.score_index + 1, p.id_index + 1});
  if (x.back() < wanted) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected ", wanted,
                                                   " or more columns, by parameters coord_start (", p.coord_start,
                                                   "), score_index (", p.score_index, ") and id_index (", p.id_index, ")"));
  }
  RETURN_IF_ERROR(CheckCompared(NmsSize(p, x).top, "topk"));
  Shape rows = x;
  rows[x.ndim() - 1] = 1;
  SHAPE_ASSIGN_CHECK(out, 1, rows);
  return true;
}

absl::StatusOr<bool> BoxNmsType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  TYPE_ASSIGN_CHECK(out, 1, DType::kInt64);
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(_contrib_box_nms)
    .describe(
        "Non-maximum suppression: the boxes that stay, by score, then rows of -1. A box goes if its score is low, and if "
        "it overlaps one of a higher score that stays. The gradient is that of the boxes that stay.")
    .add_alias("_contrib_box_non_maximum_suppression")
    .add_argument("data", "NDArray", "(..., boxes, columns): score, coordinates and class of each box, and what else there is.")
    .params<BoxNmsParam>()
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListOutputNames>("FListOutputNames", Names({"output", "index"}))
    .infer(LikeFirst<BoxNmsShape>(), BoxNmsType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_contrib_box_nms", {dy[0], Output(node, 1)}, node->attrs.dict)};
                         })
    .compute<BoxNms>();

GLUOND_REGISTER_OP(_backward_contrib_box_nms)
    .describe("The gradient of _contrib_box_nms' data: that of each box that stayed, where it came from.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("index", "NDArray", "_contrib_box_nms' hidden output.")
    .params<BoxNmsParam>()
    .set_num_inputs(2)
    .infer(ShapeOfInput<0>, TypeOfInput<0>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients&) -> absl::StatusOr<Gradients> {
                           return absl::UnimplementedError("the gradient of _contrib_box_nms cannot be differentiated again");
                         })
    .compute<BackwardBoxNms>();

}  // namespace
}  // namespace gluond::ops
