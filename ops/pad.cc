// Pad: elements added around a tensor: a number, its outermost elements, or its reflection there. The gradient sums dy
// over all places that an element was copied to.

#include "ops/elements.h"
#include "ops/operator.h"
#include "ops/window_sum.h"

namespace gluond::ops {
namespace {

enum PadMode { kConstant, kEdge, kReflect };

struct PadParam : Param<PadParam> {
  int mode;
  std::vector<int64_t> pad_width;
  double constant_value;
  static void Fields(Schema<PadParam>& s) {
    s.Field("mode", &PadParam::mode)
        .Enum({{"constant", kConstant}, {"edge", kEdge}, {"reflect", kReflect}})
        .Describe("What is added: constant_value, the nearest element, or the elements in opposite order but the outermost.");
    s.Field("pad_width", &PadParam::pad_width)
        .Elements(int64_t{0}, int64_t{1} << 40)
        .Describe("Two numbers for each axis: how many before, how many after.");
    s.Field("constant_value", &PadParam::constant_value).Default(0.0).Describe("What mode 'constant' adds.");
  }
};

absl::StatusOr<bool> PadShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const PadParam& p = attrs.param<PadParam>();
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  if (static_cast<int>(p.pad_width.size()) != 2 * x.ndim()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pad_width has ", p.pad_width.size(), " numbers; input 0, ", x.ToString(), ", wants ", 2 * x.ndim()));
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const int64_t before = p.pad_width[2 * axis], after = p.pad_width[2 * axis + 1], most = std::max(before, after);
    if (most > 0 && ((p.mode == kReflect && most >= x[axis]) || (p.mode == kEdge && x[axis] == 0))) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", axis, " of input 0, ", x.ToString(), ", is to be padded by ", before, " and ", after, "; mode '",
                       p.mode == kEdge ? "edge' wants an element" : "reflect' wants less than its size"));
    }
    dims.push_back(x[axis] + before + after);
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

struct PadGeometry {
  int ndim, mode;
  int64_t x[Shape::kMaxRank], before[Shape::kMaxRank], y[Shape::kMaxRank];

  PadGeometry(const PadParam& p, const Shape& from, const Shape& to) : ndim(from.ndim()), mode(p.mode) {
    for (int axis = 0; axis < ndim; ++axis) {
      x[axis] = from[axis];
      before[axis] = p.pad_width[2 * axis];
      y[axis] = to[axis];
    }
  }

  // The index along the axis of x that index i of y comes from, or -1.
  HOST_DEVICE int64_t Source(int axis, int64_t i) const {
    const int64_t at = i - before[axis], n = x[axis];
    if (at >= 0 && at < n) return at;
    if (mode == kConstant) return -1;
    if (mode == kEdge) return at < 0 ? 0 : n - 1;
    return at < 0 ? -at : 2 * (n - 1) - at;
  }
  // Element i of y: its element of x, or -1.
  HOST_DEVICE int64_t Source(int64_t i) const {
    int64_t at = 0, stride = 1;
    for (int axis = ndim; axis-- > 0; i /= y[axis]) {
      const int64_t k = Source(axis, i % y[axis]);
      if (k < 0) return -1;
      at += k * stride;
      stride *= x[axis];
    }
    return at;
  }
  // How many indices of y index k of x goes to, and the one of number `which`.
  HOST_DEVICE int64_t Count(int axis, int64_t k) const {
    const int64_t last = x[axis] - 1, after = y[axis] - before[axis] - x[axis];
    if (mode == kConstant) return 1;
    if (mode == kEdge) return 1 + (k == 0 ? before[axis] : 0) + (k == last ? after : 0);
    return 1 + Mirrored(k, before[axis]) + Mirrored(last - k, after);
  }
  // The most places of y that one element goes to.
  int64_t MostCopies() const {
    int64_t most = 1;
    for (int axis = 0; axis < ndim; ++axis) {
      const int64_t last = x[axis] - 1;
      most *= last < 0 ? 1 : std::max(Count(axis, 0), Count(axis, last));
    }
    return most;
  }
  HOST_DEVICE int64_t Target(int axis, int64_t k, int64_t which) const {
    const int64_t last = x[axis] - 1, own = before[axis] + k;
    if (mode == kConstant || (mode == kReflect && which == 0)) return own;
    if (mode == kEdge) return k == 0 ? which : own + which;
    return which == 1 && Mirrored(k, before[axis]) ? before[axis] - k : before[axis] + 2 * last - k;
  }

 private:
  HOST_DEVICE static bool Mirrored(int64_t distance, int64_t padding) { return distance >= 1 && distance <= padding; }
};

template <class C>
struct PadElement {
  PadGeometry g;
  C constant;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = g.Source(i);
    y.Set(i, at < 0 ? constant : x[at]);
  }
};

// The sum over one index of y for each axis, in every combination.
template <class C>
struct UnpadElement {
  PadGeometry g;
  In<C> dy;
  Out<C> dx;
  template <class Group>
  HOST_DEVICE void operator()(Group group, int64_t i) const {
    int64_t index[Shape::kMaxRank], count[Shape::kMaxRank], combinations = 1;
    int64_t rest = i;
    for (int axis = g.ndim; axis-- > 0; rest /= g.x[axis]) {
      index[axis] = rest % g.x[axis];
      count[axis] = g.Count(axis, index[axis]);
      combinations *= count[axis];
    }
    const auto load = [&](int64_t k) {
      int64_t which = k, at = 0, stride = 1;
      for (int axis = g.ndim; axis-- > 0; which /= count[axis]) {
        at += g.Target(axis, index[axis], which % count[axis]) * stride;
        stride *= g.y[axis];
      }
      return dy[at];
    };
    const C sum = group.Reduce(combinations, C(0), load, [](C a, C b) { return WrappingAdd(a, b); });
    if (group.first()) dx.Set(i, sum);
  }
};

struct Pad {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const PadParam& p = attrs.param<PadParam>();
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return PadElement<C>{PadGeometry(p, x[0].shape, y[0].shape), Convert<C>(p.constant_value), In<C>(x[0]), out};
    });
  }
};

struct BackwardPad {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs dy, Requests req, Blobs dx) {
    const PadGeometry g(attrs.param<PadParam>(), dx[0].shape, dy[0].shape);
    const int64_t n = dx[0].Size();
    if (req[0] == kNullOp || n == 0) return absl::OkStatus();
    return DispatchCompute(dx[0].dtype, [&]<class C>(C) {
      const UnpadElement<C> unpad{g, In<C>(dy[0]), Out<C>(dx[0], req[0])};
      // An outermost element may have gone to most of y.
      if (g.MostCopies() >= kLargeWindow) return ForEachGroup<D>(ctx, n, dy[0].Size() / n, unpad);
      return ForEach<D>(ctx, n, ByOneThread<UnpadElement<C>>{unpad});
    });
  }
};

GLUOND_REGISTER_OP(Pad)
    .describe("Elements added before and after along each axis.")
    .add_alias("pad")
    .add_argument("data", "NDArray", "Any shape.")
    .params<PadParam>()
    .infer(PadShape, ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_Pad"})
    .compute<Pad>();

GLUOND_REGISTER_OP(_backward_Pad)
    .describe("The gradient of Pad.")
    .with(GradientByShape(GradientShape<PadShape>, ElemwiseType<2, 1>, "data; only its shape is used."))
    .params<PadParam>()
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           AttrDict dict = node->attrs.dict;
                           dict.erase("constant_value");
                           return {Call("Pad", {dy[0]}, std::move(dict)), {}};
                         })
    .compute<BackwardPad>();

}  // namespace
}  // namespace gluond::ops
