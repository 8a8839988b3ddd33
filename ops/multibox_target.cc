// _contrib_MultiBoxTarget (Liu et al., 2016): what a detector is to learn. An anchor is positive if it is given an object:
// * each object gets the anchor that overlaps it most, the pair with the greatest overlap first,
// * an anchor that is left gets the object that it overlaps most, if by more than overlap_threshold.
// The other anchors are negative (background). With negative_mining_ratio only some of them are, those that overlap no
// object by negative_mining_thresh and seem least to be background; the rest is not to be learned from.

#include <limits>

#include "ops/kernel/fill.h"
#include "ops/kernel/math.h"
#include "ops/kernel/sort.h"
#include "ops/kernel/stage.h"
#include "ops/multibox_match.h"

namespace gluond::ops {
namespace {

struct MultiBoxTargetParam : Param<MultiBoxTargetParam> {
  double overlap_threshold, ignore_label, negative_mining_ratio, negative_mining_thresh;
  int64_t minimum_negative_samples;
  std::vector<double> variances;
  static void Fields(Schema<MultiBoxTargetParam>& s) {
    using P = MultiBoxTargetParam;
    s.Field("overlap_threshold", &P::overlap_threshold)
        .Default(0.5)
        .Describe("Anchors that overlap an object by more are positive. 0 or less: each object's best anchor only.");
    s.Field("ignore_label", &P::ignore_label).Default(-1.0).Describe("The class of anchors that are not to be learned from.");
    s.Field("negative_mining_ratio", &P::negative_mining_ratio)
        .Default(-1.0)
        .Describe("How many negative anchors there are for each positive one; 0 or less: all that are not positive.");
    s.Field("negative_mining_thresh", &P::negative_mining_thresh)
        .Default(0.5)
        .Describe("With negative_mining_ratio: anchors that overlap an object by this are not negative.");
    s.Field("minimum_negative_samples", &P::minimum_negative_samples)
        .Default(int64_t{0})
        .Describe("Accepted for MXNet's sake, not used, as there.");
    VariancesField(s);
  }
};

// The probability that an anchor is background, as the predictions say, for those that may be negative.
template <class C>
struct LoadDoubt {
  TargetSize s;
  C threshold;
  In<C> prediction;
  Matches<C> m;
  C* doubt;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t first = i / s.anchors * s.classes * s.anchors + i % s.anchors;
    doubt[i] = std::numeric_limits<C>::infinity();
    if (m.state[i] == kPositive || !(m.overlap[i] < threshold)) return;
    C max = prediction[first], sum = 0;
    for (int64_t c = 1; c < s.classes; ++c) {
      const C v = prediction[first + c * s.anchors];
      max = v > max ? v : max;
    }
    for (int64_t c = 0; c < s.classes; ++c) sum += math::Exp(prediction[first + c * s.anchors] - max);
    doubt[i] = math::Exp(prediction[first] - max) / sum;
  }
};
// By sample: how many anchors may be negative, and how many are none, having an infinite doubt.
template <class C>
struct CountNegatives {
  TargetSize s;
  double ratio;
  Matches<C> m;
  const C* doubt;
  int64_t *most, *never;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const int64_t infinite = g.Reduce(
        s.anchors, int64_t{0},
        [&](int64_t a) -> int64_t { return doubt[b * s.anchors + a] == std::numeric_limits<C>::infinity() ? 1 : 0; },
        [](int64_t x, int64_t y) { return x + y; });
    if (!g.first()) return;
    never[b] = infinite;
    most[b] = Convert<int64_t>(static_cast<double>(m.positives[b]) * ratio);
  }
};
// In the anchors' order, infinite doubts stand behind all numbers, and NaN behind those.
template <class C>
struct TakeNegatives {
  TargetSize s;
  Matches<C> m;
  const C* doubt;
  const int64_t *order, *most, *never;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / s.anchors, at = b * s.anchors + order[i];
    const C v = doubt[at];
    const int64_t rank = v == v ? i % s.anchors : i % s.anchors - never[b];
    if (v != std::numeric_limits<C>::infinity() && rank < most[b]) m.state[at] = kNegative;
  }
};
template <class C>
struct AllNegative {
  Matches<C> m;
  HOST_DEVICE void operator()(int64_t i) const {
    if (m.state[i] != kPositive) m.state[i] = kNegative;
  }
};

// The outputs of an anchor, of a sample without objects zeros and ignore_label.
template <class C>
struct WriteTarget {
  TargetSize s;
  C ignore;
  C variances[4];
  In<C> anchors, labels;
  Matches<C> m;
  OpReqType loc_req, mask_req, class_req;
  Out<C> loc, mask, cls;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / s.anchors, label = (b * s.labels + m.object[i]) * s.label_width;
    const int64_t state = m.objects[b] > 0 ? m.state[i] : kIgnored;
    const bool positive = state == kPositive;
    const Box<C> anchor = Box<C>::Load(anchors, i % s.anchors * 4);
    for (int k = 0; k < 4; ++k) {
      if (mask_req != kNullOp) mask.Set(i * 4 + k, positive ? C(1) : C(0));
      if (loc_req != kNullOp) loc.Set(i * 4 + k, positive ? Offset(anchor, Box<C>::Load(labels, label + 1), k) : C(0));
    }
    if (class_req != kNullOp) cls.Set(i, positive ? labels[label] + 1 : state == kNegative ? C(0) : ignore);
  }

 private:
  HOST_DEVICE C Offset(const Box<C>& a, const Box<C>& g, int k) const {
    switch (k) {
      case 0: return ((g.left + g.right) / 2 - (a.left + a.right) / 2) / a.width() / variances[0];
      case 1: return ((g.top + g.bottom) / 2 - (a.top + a.bottom) / 2) / a.height() / variances[1];
      case 2: return math::Log(g.width() / a.width()) / variances[2];
      default: return math::Log(g.height() / a.height()) / variances[3];
    }
  }
};

struct MultiBoxTarget {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<MultiBoxTargetParam>();
    const Shape &label = in[1].shape, &prediction = in[2].shape;
    const TargetSize s = {label[0], in[0].shape[1], label[1], label[2], prediction[1]};
    if (s.batch == 0 || s.anchors == 0) return absl::OkStatus();
    return DispatchReal(in[0].dtype, [&]<class C>(C) -> absl::Status {
      const In<C> anchors(in[0]), labels(in[1]);
      ASSIGN_OR_RETURN(const Matches<C> m, Matches<C>::Of(ctx, s));
      const int64_t n = s.batch * s.anchors;
      RETURN_IF_ERROR((MatchAnchors<D, C>(ctx, s, static_cast<C>(p.overlap_threshold), anchors, labels, m)));
      if (p.negative_mining_ratio > 0) {
        ASSIGN_OR_RETURN(C* const doubt, Space<C>(ctx, n));
        ASSIGN_OR_RETURN(int64_t* const most, Space<int64_t>(ctx, 2 * s.batch));
        const C threshold = static_cast<C>(p.negative_mining_thresh);
        RETURN_IF_ERROR(ForEach<D>(ctx, n, LoadDoubt<C>{s, threshold, In<C>(in[2]), m, doubt}, kGrain / 16));
        ASSIGN_OR_RETURN(const int64_t* const order,
                         SortedOrder<D>(ctx, {s.batch, s.anchors, 1}, true, s.anchors, VectorOf(ctx, doubt, n)));
        const CountNegatives<C> count = {s, p.negative_mining_ratio, m, doubt, most, most + s.batch};
        RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch, s.anchors, count));
        RETURN_IF_ERROR(ForEach<D>(ctx, n, TakeNegatives<C>{s, m, doubt, order, most, most + s.batch}));
      } else {
        RETURN_IF_ERROR(ForEach<D>(ctx, n, AllNegative<C>{m}));
      }
      WriteTarget<C> write{s,
                           static_cast<C>(p.ignore_label),
                           {},
                           anchors,
                           labels,
                           m,
                           req[0],
                           req[1],
                           req[2],
                           Out<C>(out[0], req[0]),
                           Out<C>(out[1], req[1]),
                           Out<C>(out[2], req[2])};
      for (int k = 0; k < 4; ++k) write.variances[k] = static_cast<C>(p.variances[k]);
      return ForEach<D>(ctx, n, write, kGrain / 16);
    });
  }
};

absl::StatusOr<bool> MultiboxTargetShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape({1, Shape::kUnknown, 4}));
  SHAPE_ASSIGN_CHECK(in, 1, Shape::OfRank(3));
  SHAPE_ASSIGN_CHECK(in, 2, Shape({(*in)[1][0], Shape::kUnknown, (*in)[0][1]}));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({(*in)[2][0], Shape::kUnknown, Shape::kUnknown}));
  const Shape &label = (*in)[1], &prediction = (*in)[2];
  if (label[2] >= 0 && label[2] < 5) {
    return absl::InvalidArgumentError(absl::StrCat("input 1 'label' has shape ", label.ToString(),
                                                   ", expected 5 or more columns: class, left, top, right, bottom"));
  }
  if (prediction[1] == 0) {
    return absl::InvalidArgumentError("input 2 'cls_pred' has 0 classes, expected 1 or more: background and others");
  }
  if (!AllKnown(*in)) return false;
  const int64_t anchors = (*in)[0][1];
  // A label that loses its best anchor looks at all of them again. More work would take many minutes.
  constexpr double kMostWork = static_cast<double>(int64_t{1} << 38);
  const double labels = static_cast<double>(label[1]), all = static_cast<double>(anchors);
  if (labels * all * std::min(labels, all) > kMostWork) {
    return absl::InvalidArgumentError(absl::StrCat("input 1 'label' has shape ", label.ToString(), ", expected fewer rows for ",
                                                   anchors, " anchors: rows times anchors times the smaller of them is above ",
                                                   static_cast<int64_t>(kMostWork)));
  }
  RETURN_IF_ERROR(Shape::FromDims({label[0], anchors, 4}).status());
  SHAPE_ASSIGN_CHECK(out, 0, Shape({label[0], anchors * 4}));
  SHAPE_ASSIGN_CHECK(out, 1, Shape({label[0], anchors * 4}));
  SHAPE_ASSIGN_CHECK(out, 2, Shape({label[0], anchors}));
  return true;
}

GLUOND_REGISTER_OP(_contrib_MultiBoxTarget)
    .describe(
        "What a detector is to learn of each anchor: offsets to its object, a mask of ones for anchors that have one "
        "(both (batch, anchors * 4)), and the object's class + 1, 0 for background, or ignore_label (batch, anchors).")
    .add_argument("anchor", "NDArray", "(1, anchors, 4): left, top, right, bottom.")
    .add_argument("label", "NDArray", "(batch, labels, 5 or more): class, left, top, right, bottom; a class of -1 ends them.")
    .add_argument("cls_pred", "NDArray", "(batch, classes, anchors), before any softmax; class 0 is background.")
    .params<MultiBoxTargetParam>()
    .set_num_inputs(3)
    .set_num_outputs(3)
    .set_attr<FListOutputNames>("FListOutputNames", Names({"loc_target", "loc_mask", "cls_target"}))
    .infer(MultiboxTargetShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<MultiBoxTarget>();

}  // namespace
}  // namespace gluond::ops
