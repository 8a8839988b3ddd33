// _contrib_MultiBoxTarget (Liu et al., 2016): what a detector is to learn. An anchor is positive if it is given an object:
// * each object gets the anchor that overlaps it most, the pair with the greatest overlap first,
// * an anchor that is left gets the object that it overlaps most, if by more than overlap_threshold.
// The other anchors are negative (background). With negative_mining_ratio only some of them are, those that overlap no
// object by negative_mining_thresh and seem least to be background; the rest is not to be learned from.

#include <limits>

#include "ops/boxes.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/math.h"
#include "ops/kernel/sort.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {
namespace {

struct MultiBoxTargetParam : Param<MultiBoxTargetParam> {
  double overlap_threshold, ignore_label, negative_mining_ratio, negative_mining_thresh;
  int64_t minimum_negative_samples;
  std::vector<double> variances;
  static void Fields(Schema<MultiBoxTargetParam>& s) {
    using P = MultiBoxTargetParam;
    s.Field("overlap_threshold", &P::overlap_threshold).Default(0.5)
        .Describe("Anchors that overlap an object by more are positive. 0 or less: each object's best anchor only.");
    s.Field("ignore_label", &P::ignore_label).Default(-1.0).Describe("The class of anchors that are not to be learned from.");
    s.Field("negative_mining_ratio", &P::negative_mining_ratio).Default(-1.0)
        .Describe("How many negative anchors there are for each positive one; 0 or less: all that are not positive.");
    s.Field("negative_mining_thresh", &P::negative_mining_thresh).Default(0.5)
        .Describe("With negative_mining_ratio: anchors that overlap an object by this are not negative.");
    s.Field("minimum_negative_samples", &P::minimum_negative_samples).Default(int64_t{0})
        .Describe("Accepted for MXNet's sake, not used, as there.");
    VariancesField(s);
  }
};

enum State : int64_t { kIgnored = -1, kNegative = 0, kPositive = 1 };

struct TargetSize {
  int64_t batch, anchors, labels, label_width, classes;
};

// The working space of all samples: one entry for each anchor, or for each label.
template <class C>
struct Matches {
  int64_t *state, *object;  // By anchor; `object`: the label that it overlaps most, or that it was given.
  C* overlap;               // By anchor: with that label.
  int64_t* anchor;          // By label: the anchor left that overlaps it most, kNone or kGiven.
  C* best;                  // By label: by how much.
  int64_t *objects, *positives;  // By sample: how many labels count, and how many anchors are positive.
};
constexpr int64_t kNone = -1, kGiven = -2;

// The matching of one sample. Overlaps must be above kLeast to make a pair.
template <class C>
struct Match {
  static constexpr double kLeast = 1e-6;
  TargetSize s;
  C threshold;
  In<C> anchors, labels;
  Matches<C> m;

  HOST_DEVICE void operator()(int64_t b) const {
    int64_t objects = 0;
    while (objects < s.labels && labels[(b * s.labels + objects) * s.label_width] != C(-1)) ++objects;
    m.objects[b] = objects;
    m.positives[b] = 0;
    for (int64_t a = 0; a < s.anchors; ++a) FindObject(b, a, objects);
    for (int64_t g = 0; g < objects; ++g) FindAnchor(b, g);
    while (TakeBestPair(b, objects)) ++m.positives[b];
    for (int64_t i = b * s.anchors; i < (b + 1) * s.anchors && threshold > 0 && objects > 0; ++i) {
      if (m.state[i] == kPositive || !(m.overlap[i] > threshold)) continue;
      m.state[i] = kPositive;
      ++m.positives[b];
    }
  }

 private:
  HOST_DEVICE C Between(int64_t b, int64_t a, int64_t g) const {
    return Overlap(Box<C>::Load(anchors, a * 4), Box<C>::Load(labels, (b * s.labels + g) * s.label_width + 1));
  }
  HOST_DEVICE void FindObject(int64_t b, int64_t a, int64_t objects) const {
    const int64_t i = b * s.anchors + a;
    m.state[i] = kIgnored;
    m.object[i] = 0;
    m.overlap[i] = -1;
    for (int64_t g = 0; g < objects; ++g) {
      const C v = Between(b, a, g);
      if (!(v > m.overlap[i])) continue;
      m.overlap[i] = v;
      m.object[i] = g;
    }
  }
  HOST_DEVICE void FindAnchor(int64_t b, int64_t g) const {
    const int64_t i = b * s.labels + g;
    m.anchor[i] = kNone;
    m.best[i] = static_cast<C>(kLeast);
    for (int64_t a = 0; a < s.anchors; ++a) {
      if (m.state[b * s.anchors + a] == kPositive) continue;
      const C v = Between(b, a, g);
      if (!(v > m.best[i])) continue;
      m.best[i] = v;
      m.anchor[i] = a;
    }
  }
  // The first anchor's pair comes first among equal overlaps. False: no pair is left.
  HOST_DEVICE bool TakeBestPair(int64_t b, int64_t objects) const {
    const int64_t first = b * s.labels;
    int64_t g = kNone;
    for (int64_t k = 0; k < objects; ++k) {
      if (m.anchor[first + k] < 0) continue;
      const bool better = g < 0 || m.best[first + k] > m.best[first + g] ||
                          (m.best[first + k] == m.best[first + g] && m.anchor[first + k] < m.anchor[first + g]);
      g = better ? k : g;
    }
    if (g < 0) return false;
    const int64_t a = m.anchor[first + g], i = b * s.anchors + a;
    m.state[i] = kPositive;
    m.object[i] = g;
    m.overlap[i] = m.best[first + g];
    m.anchor[first + g] = kGiven;
    for (int64_t k = 0; k < objects; ++k) {
      if (m.anchor[first + k] == a) FindAnchor(b, k);
    }
    return true;
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
template <class C>
struct TakeNegatives {
  TargetSize s;
  double ratio;
  Matches<C> m;
  const C* doubt;
  const int64_t* order;

  HOST_DEVICE void operator()(int64_t b) const {
    const int64_t most = s.anchors - m.positives[b];
    int64_t left = Convert<int64_t>(static_cast<double>(m.positives[b]) * ratio);
    left = left < most ? left : most;
    for (int64_t j = 0; j < s.anchors && left > 0; ++j) {
      const int64_t i = b * s.anchors + order[b * s.anchors + j];
      if (doubt[i] == std::numeric_limits<C>::infinity()) continue;
      m.state[i] = kNegative;
      --left;
    }
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

template <class C>
absl::StatusOr<Matches<C>> SpaceOf(const OpContext& ctx, const TargetSize& s) {
  Matches<C> m;
  const int64_t anchors = s.batch * s.anchors, labels = s.batch * s.labels;
  ASSIGN_OR_RETURN(m.state, Space<int64_t>(ctx, anchors));
  ASSIGN_OR_RETURN(m.object, Space<int64_t>(ctx, anchors));
  ASSIGN_OR_RETURN(m.overlap, Space<C>(ctx, anchors));
  ASSIGN_OR_RETURN(m.anchor, Space<int64_t>(ctx, labels));
  ASSIGN_OR_RETURN(m.best, Space<C>(ctx, labels));
  ASSIGN_OR_RETURN(m.objects, Space<int64_t>(ctx, s.batch));
  ASSIGN_OR_RETURN(m.positives, Space<int64_t>(ctx, s.batch));
  return m;
}

struct MultiBoxTarget {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<MultiBoxTargetParam>();
    const Shape &label = in[1].shape, &prediction = in[2].shape;
    const TargetSize s = {label[0], in[0].shape[1], label[1], label[2], prediction[1]};
    if (s.batch == 0 || s.anchors == 0) return absl::OkStatus();
    return DispatchReal(in[0].dtype, [&]<class C>(C) -> absl::Status {
      const In<C> anchors(in[0]), labels(in[1]);
      ASSIGN_OR_RETURN(const Matches<C> m, SpaceOf<C>(ctx, s));
      const int64_t n = s.batch * s.anchors;
      const int64_t samples = std::max<int64_t>(1, kGrain / (s.anchors * (8 * s.labels + 1)));  // Work for a thread.
      const Match<C> match = {s, static_cast<C>(p.overlap_threshold), anchors, labels, m};
      RETURN_IF_ERROR(ForEach<D>(ctx, s.batch, match, samples));
      if (p.negative_mining_ratio > 0) {
        ASSIGN_OR_RETURN(C* const doubt, Space<C>(ctx, n));
        const C threshold = static_cast<C>(p.negative_mining_thresh);
        RETURN_IF_ERROR(ForEach<D>(ctx, n, LoadDoubt<C>{s, threshold, In<C>(in[2]), m, doubt}, kGrain / 16));
        ASSIGN_OR_RETURN(const int64_t* const order,
                         SortedOrder<D>(ctx, {s.batch, s.anchors, 1}, true, s.anchors, VectorOf(ctx, doubt, n)));
        RETURN_IF_ERROR(ForEach<D>(ctx, s.batch, TakeNegatives<C>{s, p.negative_mining_ratio, m, doubt, order}, samples));
      } else {
        RETURN_IF_ERROR(ForEach<D>(ctx, n, AllNegative<C>{m}));
      }
      WriteTarget<C> write{s, static_cast<C>(p.ignore_label), {}, anchors, labels, m, req[0], req[1], req[2],
                           Out<C>(out[0], req[0]), Out<C>(out[1], req[1]), Out<C>(out[2], req[2])};
      for (int k = 0; k < 4; ++k) write.variances[k] = static_cast<C>(p.variances[k]);
      return ForEach<D>(ctx, n, write, kGrain / 16);
    });
  }
};

absl::StatusOr<bool> InferShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
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
  constexpr int64_t kMostPairs = int64_t{1} << 28;  // More would take minutes, which nothing interrupts.
  if (anchors > 0 && label[1] > kMostPairs / anchors) {
    return absl::InvalidArgumentError(absl::StrCat("input 1 'label' has shape ", label.ToString(), ", expected ",
                                                   kMostPairs / anchors, " or fewer rows for ", anchors, " anchors"));
  }
  RETURN_IF_ERROR(Shape::FromDims({label[0], anchors, 4}).status());
  SHAPE_ASSIGN_CHECK(out, 0, Shape({label[0], anchors * 4}));
  SHAPE_ASSIGN_CHECK(out, 1, Shape({label[0], anchors * 4}));
  SHAPE_ASSIGN_CHECK(out, 2, Shape({label[0], anchors}));
  return true;
}

GLUOND_REGISTER_OP(_contrib_MultiBoxTarget)
    .describe("What a detector is to learn of each anchor: offsets to its object, a mask of ones for anchors that have one "
              "(both (batch, anchors * 4)), and the object's class + 1, 0 for background, or ignore_label (batch, anchors).")
    .add_argument("anchor", "NDArray", "(1, anchors, 4): left, top, right, bottom.")
    .add_argument("label", "NDArray", "(batch, labels, 5 or more): class, left, top, right, bottom; a class of -1 ends them.")
    .add_argument("cls_pred", "NDArray", "(batch, classes, anchors), before any softmax; class 0 is background.")
    .params<MultiBoxTargetParam>()
    .set_num_inputs(3)
    .set_num_outputs(3)
    .set_attr<FListOutputNames>("FListOutputNames", Names({"loc_target", "loc_mask", "cls_target"}))
    .infer(InferShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<MultiBoxTarget>();

}  // namespace
}  // namespace gluond::ops
