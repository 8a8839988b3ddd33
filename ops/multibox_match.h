// The matching of _contrib_MultiBoxTarget: which anchors are given an object, and which. Every step is that of a group of
// threads for each sample, or for each label, and long ones end between steps where nobody waits for them any more.

#ifndef OPS_MULTIBOX_MATCH_H_
#define OPS_MULTIBOX_MATCH_H_

#include <algorithm>

#include "engine/core/interruption.h"
#include "ops/boxes.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {

struct TargetSize {
  int64_t batch, anchors, labels, label_width, classes;
};

enum State : int64_t { kIgnored = -1, kNegative = 0, kPositive = 1 };
enum AnchorOfLabel : int64_t { kNone = -1, kGiven = -2, kLost = -3 };  // kLost: it is to be found again.

// The working space of all samples: one entry for each anchor, or for each label.
template <class C>
struct Matches {
  int64_t *state, *object;       // By anchor; `object`: the label that it overlaps most, or that it was given.
  C* overlap;                    // By anchor: with that label.
  int64_t* anchor;               // By label: the anchor left that overlaps it most, or an AnchorOfLabel.
  C* best;                       // By label: by how much.
  int64_t *objects, *positives;  // By sample: how many labels count, and how many anchors are positive.

  static absl::StatusOr<Matches> Of(const OpContext& ctx, const TargetSize& s) {
    Matches m;
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
};

namespace match_internal {

template <class C>
struct Sample {
  TargetSize s;
  In<C> anchors, labels;
  Matches<C> m;

  HOST_DEVICE C Class(int64_t b, int64_t k) const { return labels[(b * s.labels + k) * s.label_width]; }
  HOST_DEVICE C Between(int64_t b, int64_t a, int64_t k) const {
    return Overlap(Box<C>::Load(anchors, a * 4), Box<C>::Load(labels, (b * s.labels + k) * s.label_width + 1));
  }
};

// Labels of a sample count up to the first of class -1.
template <class C>
struct CountObjects {
  Sample<C> of;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const int64_t labels = of.s.labels;
    const int64_t objects = g.Reduce(
        labels, labels, [&](int64_t k) { return of.Class(b, k) == C(-1) ? k : labels; },
        [](int64_t x, int64_t y) { return x < y ? x : y; });
    g.ForEach(labels, [&](int64_t k) { of.m.anchor[b * labels + k] = k < objects ? kLost : kNone; });
    if (!g.first()) return;
    of.m.objects[b] = objects;
    of.m.positives[b] = 0;
  }
};

// An anchor or a label, and an overlap. The greatest overlap wins, and the first among equal ones.
template <class C>
struct Candidate {
  C overlap;
  int64_t at, tie;
};
template <class C>
HOST_DEVICE Candidate<C> Better(const Candidate<C>& x, const Candidate<C>& y) {
  if (y.at < 0 || x.at < 0) return y.at < 0 ? x : y;
  if (x.overlap != y.overlap) return y.overlap > x.overlap ? y : x;
  return y.tie < x.tie || (y.tie == x.tie && y.at < x.at) ? y : x;
}

// The object that an anchor overlaps most.
template <class C>
struct FindObject {
  Sample<C> of;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const int64_t b = i / of.s.anchors;
    const Candidate<C> none = {-1, kNone, 0};
    const Candidate<C> best = g.Reduce(
        of.m.objects[b], none,
        [&](int64_t k) {
          const C v = of.Between(b, i % of.s.anchors, k);
          return v > none.overlap ? Candidate<C>{v, k, k} : none;
        },
        [](const Candidate<C>& x, const Candidate<C>& y) { return Better(x, y); });
    if (!g.first()) return;
    of.m.state[i] = kIgnored;
    of.m.object[i] = best.at < 0 ? 0 : best.at;
    of.m.overlap[i] = best.overlap;
  }
};

// The anchor left that overlaps a label most. Overlaps must be above kLeast to make a pair.
template <class C, class Group>
HOST_DEVICE void FindAnchor(Group g, const Sample<C>& of, int64_t b, int64_t k) {
  constexpr double kLeast = 1e-6;
  const Candidate<C> none = {static_cast<C>(kLeast), kNone, 0};
  const Candidate<C> best = g.Reduce(
      of.s.anchors, none,
      [&](int64_t a) {
        if (of.m.state[b * of.s.anchors + a] == kPositive) return none;
        const C v = of.Between(b, a, k);
        return v > none.overlap ? Candidate<C>{v, a, a} : none;
      },
      [](const Candidate<C>& x, const Candidate<C>& y) { return Better(x, y); });
  if (!g.first()) return;
  of.m.best[b * of.s.labels + k] = best.overlap;
  of.m.anchor[b * of.s.labels + k] = best.at;
}
template <class C>
struct FindLost {
  Sample<C> of;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    if (of.m.anchor[i] == kLost) FindAnchor(g, of, i / of.s.labels, i % of.s.labels);
  }
};

// Gives the pairs with the greatest overlaps to each other, so many at most. Labels that lose their anchor by that look for
// another one at once, or are left kLost.
template <class C>
struct TakePairs {
  Sample<C> of;
  int64_t most;
  bool find;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const int64_t first = b * of.s.labels, objects = of.m.objects[b];
    int64_t* const anchor = of.m.anchor + first;
    for (int64_t taken = 0; taken < most; ++taken) {
      const Candidate<C> none = {0, kNone, 0};
      const Candidate<C> pair = g.Reduce(
          objects, none,
          [&](int64_t k) {
            return anchor[k] < 0 ? none : Candidate<C>{of.m.best[first + k], k, anchor[k]};
          },
          [](const Candidate<C>& x, const Candidate<C>& y) { return Better(x, y); });
      if (pair.at < 0) return;
      const int64_t a = pair.tie, i = b * of.s.anchors + a;
      g.ForEach(objects, [&](int64_t k) { anchor[k] = k == pair.at ? kGiven : anchor[k] == a ? kLost : anchor[k]; });
      if (g.first()) {
        of.m.state[i] = kPositive;
        of.m.object[i] = pair.at;
        of.m.overlap[i] = pair.overlap;
        ++of.m.positives[b];
      }
      g.ForEach(0, [](int64_t) {});
      for (int64_t k = 0; k < objects && find; ++k) {
        if (anchor[k] == kLost) FindAnchor(g, of, b, k);
        g.ForEach(0, [](int64_t) {});
      }
    }
  }
};

// Anchors that overlap their object by more than a threshold are positive, too.
template <class C>
struct TakeOthers {
  Sample<C> of;
  C threshold;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    if (!(threshold > 0) || of.m.objects[b] == 0) return;
    const int64_t taken = g.Reduce(
        of.s.anchors, int64_t{0},
        [&](int64_t a) {
          const int64_t i = b * of.s.anchors + a;
          if (of.m.state[i] == kPositive || !(of.m.overlap[i] > threshold)) return int64_t{0};
          of.m.state[i] = kPositive;
          return int64_t{1};
        },
        [](int64_t x, int64_t y) { return x + y; });
    if (g.first()) of.m.positives[b] += taken;
  }
};

}  // namespace match_internal

template <class D, class C>
absl::Status MatchAnchors(const OpContext& ctx, const TargetSize& s, C threshold, const In<C>& anchors, const In<C>& labels,
                          const Matches<C>& m) {
  using namespace match_internal;
  constexpr int64_t kAtOnce = int64_t{1} << 26;  // Overlaps of a sample until the run is asked whether it goes on.
  const Sample<C> of = {s, anchors, labels, m};
  const int64_t pairs = s.anchors * s.labels + 1, rounds = std::min(s.anchors, s.labels);
  const int64_t most = std::max<int64_t>(1, kAtOnce / pairs);
  RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch, s.labels, CountObjects<C>{of}));
  RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch * s.anchors, 8 * s.labels, FindObject<C>{of}));
  RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch * s.labels, 8 * s.anchors, FindLost<C>{of}));
  for (int64_t taken = 0; taken < rounds; taken += most) {
    RETURN_IF_ERROR(CheckInterrupted());
    RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch, 8 * pairs, TakePairs<C>{of, most, most > 1}));
    if (most == 1) RETURN_IF_ERROR(ForEachGroup<D>(ctx, s.batch * s.labels, 8 * s.anchors, FindLost<C>{of}));
  }
  return ForEachGroup<D>(ctx, s.batch, s.anchors, TakeOthers<C>{of, threshold});
}

}  // namespace gluond::ops

#endif  // OPS_MULTIBOX_MATCH_H_
