// _contrib_MultiBoxDetection (Liu et al., 2016): what a detector found. An anchor is moved by the offsets that were
// predicted for it, and has the class of the highest probability. Boxes come by probability, those that overlap a better
// one of their class with class -1; rows of -1 follow.

#include <limits>

#include "ops/kernel/math.h"
#include "ops/kernel/sort.h"
#include "ops/kernel/stage.h"
#include "ops/suppression.h"

namespace gluond::ops {
namespace {

struct MultiBoxDetectionParam : Param<MultiBoxDetectionParam> {
  bool clip, force_suppress;
  double threshold, nms_threshold;
  int64_t background_id, nms_topk;
  std::vector<double> variances;
  static void Fields(Schema<MultiBoxDetectionParam>& s) {
    using P = MultiBoxDetectionParam;
    s.Field("clip", &P::clip).Default(true).Describe("Coordinates end at 0 and 1.");
    s.Field("threshold", &P::threshold).Default(0.01).Describe("Boxes of a lower probability are left out.");
    s.Field("background_id", &P::background_id)
        .Default(int64_t{0})
        .Check([](int64_t v) { return v == 0; }, "want 0: the first class is the background")
        .Describe("The class of anchors without an object.");
    s.Field("nms_threshold", &P::nms_threshold)
        .Default(0.5)
        .Describe("A box goes that overlaps a better one by this. 0 or less, or above 1: none goes, and boxes come as anchors.");
    s.Field("force_suppress", &P::force_suppress).Default(false).Describe("Boxes of other classes suppress each other, too.");
    VariancesField(s);
    s.Field("nms_topk", &P::nms_topk).Default(int64_t{-1}).Describe("How many of the best boxes are looked at; 0 or less: all.");
  }
  bool suppresses() const { return nms_threshold > 0 && nms_threshold <= 1; }
};

struct DetectionSize {
  int64_t batch, classes, anchors;
};

// The class that is found at each anchor, or -1, its probability and its box; `key`: by which they are ordered, -infinity last.
template <class C>
struct Found {
  int64_t* id;
  C *score, *key, *box;
};

template <class C>
struct FindBox {
  DetectionSize s;
  C threshold;
  bool clip, by_score;
  C variances[4];
  In<C> probability, offsets, anchors;
  Found<C> found;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / s.anchors, a = i % s.anchors;
    C score = -1;
    int64_t id = 0;
    for (int64_t c = 1; c < s.classes; ++c) {
      const C v = probability[(b * s.classes + c) * s.anchors + a];
      if (!(v > score)) continue;
      score = v;
      id = c;
    }
    const bool valid = id > 0 && !(score < threshold);
    found.id[i] = valid ? id - 1 : -1;
    found.score[i] = score;
    found.key[i] = !valid ? -std::numeric_limits<C>::infinity() : by_score ? score : C(0);
    const Box<C> from = Box<C>::Load(anchors, a * 4);
    const C x = offsets[i * 4] * variances[0] * from.width() + (from.left + from.right) / 2;
    const C y = offsets[i * 4 + 1] * variances[1] * from.height() + (from.top + from.bottom) / 2;
    const C width = math::Exp(offsets[i * 4 + 2] * variances[2]) * from.width() / 2;
    const C height = math::Exp(offsets[i * 4 + 3] * variances[3]) * from.height() / 2;
    C* const box = found.box + i * 4;
    box[0] = Clipped(x - width);
    box[1] = Clipped(y - height);
    box[2] = Clipped(x + width);
    box[3] = Clipped(y + height);
  }

 private:
  HOST_DEVICE C Clipped(C v) const { return !clip ? v : v < 0 ? C(0) : v > 1 ? C(1) : v; }
};

// Boxes in the order of their scores.
template <class C>
struct MultiboxDetectionCandidates {
  int64_t anchors;
  C most;
  bool across_classes;
  Found<C> found;
  const int64_t* order;

  HOST_DEVICE int64_t Anchor(int64_t b, int64_t place) const { return b * anchors + order[b * anchors + place]; }
  HOST_DEVICE bool Valid(int64_t b, int64_t place) const { return found.id[Anchor(b, place)] >= 0; }
  HOST_DEVICE C Between(int64_t b, int64_t better, int64_t place) const {
    const int64_t one = Anchor(b, better), two = Anchor(b, place);
    if (!across_classes && found.id[one] != found.id[two]) return -std::numeric_limits<C>::infinity();
    In<C> boxes;
    boxes.data = found.box;
    boxes.dtype = DTypeOf<C>;
    return Overlap(Box<C>::Load(boxes, one * 4), Box<C>::Load(boxes, two * 4));
  }
  HOST_DEVICE bool IsTooMuch(C overlap) const { return overlap >= most; }
};

// The class of each place in the order: -1 where nothing was found, and for boxes that do not stay, or are not looked at.
template <class C>
struct ListClasses {
  MultiboxDetectionCandidates<C> candidates;
  int64_t top;
  const int64_t* gone;  // Null: all stay.
  int64_t* id;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / candidates.anchors, place = i % candidates.anchors;
    const bool stays = place < top && (gone == nullptr || gone[i] == 0);
    id[i] = stays ? candidates.found.id[candidates.Anchor(b, place)] : -1;
  }
};

template <class C>
struct WriteDetection {
  int64_t anchors;
  Found<C> found;
  const int64_t *order, *id;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t j) const {
    const int64_t i = j / anchors * anchors + order[j];
    const bool valid = found.id[i] >= 0;
    y.Set(j * 6, valid ? static_cast<C>(id[j]) : C(-1));
    y.Set(j * 6 + 1, valid ? found.score[i] : C(-1));
    for (int k = 0; k < 4; ++k) y.Set(j * 6 + 2 + k, valid ? found.box[i * 4 + k] : C(-1));
  }
};

struct MultiBoxDetection {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<MultiBoxDetectionParam>();
    const DetectionSize s = {in[0].shape[0], in[0].shape[1], in[0].shape[2]};
    const int64_t n = s.batch * s.anchors;
    if (req[0] == kNullOp || n == 0) return absl::OkStatus();
    return DispatchReal(in[0].dtype, [&]<class C>(C) -> absl::Status {
      Found<C> found;
      ASSIGN_OR_RETURN(found.id, Space<int64_t>(ctx, n));
      ASSIGN_OR_RETURN(found.score, Space<C>(ctx, n));
      ASSIGN_OR_RETURN(found.key, Space<C>(ctx, n));
      ASSIGN_OR_RETURN(found.box, Space<C>(ctx, n * 4));
      FindBox<C> find{s, static_cast<C>(p.threshold), p.clip, p.suppresses(), {}, In<C>(in[0]), In<C>(in[1]), In<C>(in[2]), found};
      for (int k = 0; k < 4; ++k) find.variances[k] = static_cast<C>(p.variances[k]);
      RETURN_IF_ERROR(ForEach<D>(ctx, n, find, kGrain / 16));
      ASSIGN_OR_RETURN(const int64_t* const order,
                       SortedOrder<D>(ctx, {s.batch, s.anchors, 1}, false, s.anchors, VectorOf(ctx, found.key, n)));
      ASSIGN_OR_RETURN(int64_t* const id, Space<int64_t>(ctx, n));
      const int64_t top = p.suppresses() && p.nms_topk > 0 ? std::min(p.nms_topk, s.anchors) : s.anchors;
      const MultiboxDetectionCandidates<C> candidates = {s.anchors, static_cast<C>(p.nms_threshold), p.force_suppress, found,
                                                         order};
      ListClasses<C> list = {candidates, top, nullptr, id};
      if (p.suppresses()) {
        ASSIGN_OR_RETURN(const Stays stays, Stays::Of(ctx, s.batch, s.anchors));
        RETURN_IF_ERROR(Suppress<D>(ctx, s.batch, top, candidates, stays));
        list.gone = stays.gone;
      }
      RETURN_IF_ERROR(ForEach<D>(ctx, n, list));
      return ForEach<D>(ctx, n, WriteDetection<C>{s.anchors, found, order, id, Out<C>(out[0], req[0])}, kGrain / 8);
    });
  }
};

absl::StatusOr<bool> MultiboxDetectionShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<MultiBoxDetectionParam>();
  SHAPE_ASSIGN_CHECK(in, 2, Shape({1, Shape::kUnknown, 4}));
  SHAPE_ASSIGN_CHECK(in, 0, Shape({Shape::kUnknown, Shape::kUnknown, (*in)[2][1]}));
  SHAPE_ASSIGN_CHECK(in, 2, Shape({1, (*in)[0][2], 4}));
  const int64_t batch = (*in)[0][0], anchors = (*in)[0][2];
  if (anchors >= 0) {
    RETURN_IF_ERROR(Shape::FromDims({std::max<int64_t>(batch, 1), anchors, 6}).status());
    SHAPE_ASSIGN_CHECK(in, 1, Shape({batch, anchors * 4}));
    if (p.suppresses()) RETURN_IF_ERROR(CheckCompared(p.nms_topk > 0 ? std::min(p.nms_topk, anchors) : anchors, "nms_topk"));
  }
  SHAPE_ASSIGN_CHECK(out, 0, Shape({batch, anchors, 6}));
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(_contrib_MultiBoxDetection)
    .describe(
        "What a detector found: (batch, anchors, 6), each row class, probability, left, top, right, bottom. Classes are "
        "counted without the background. A class of -1: nothing, or a box that a better one suppresses.")
    .add_argument("cls_prob", "NDArray", "(batch, classes, anchors), after a softmax; class 0 is background.")
    .add_argument("loc_pred", "NDArray", "(batch, anchors * 4): offsets of x, y, width, height, as _contrib_MultiBoxTarget's.")
    .add_argument("anchor", "NDArray", "(1, anchors, 4): left, top, right, bottom.")
    .params<MultiBoxDetectionParam>()
    .set_num_inputs(3)
    .infer(MultiboxDetectionShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<MultiBoxDetection>();

}  // namespace
}  // namespace gluond::ops
