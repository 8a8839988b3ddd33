// tile and repeat: y is x with axes repeated as a whole (tile) or element by element (repeat). Their gradient sums over
// the repetitions.

#include "ops/kernel/fill.h"
#include "ops/kernel/reduce.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

constexpr int64_t kMaxTimes = int64_t{1} << 48;

struct TileParam : Param<TileParam> {
  std::vector<int64_t> reps;
  static void Fields(Schema<TileParam>& s) {
    s.Field("reps", &TileParam::reps)
        .Elements(int64_t{0}, kMaxTimes)
        .Describe("How often each axis is repeated, from the last one on; missing axes have size 1.");
  }
};

struct RepeatParam : Param<RepeatParam> {
  int64_t repeats;
  std::optional<int> axis;
  static void Fields(Schema<RepeatParam>& s) {
    s.Field("repeats", &RepeatParam::repeats).Range(0, kMaxTimes).Describe("How often each element is repeated.");
    s.Field("axis", &RepeatParam::axis).Default(std::nullopt).Describe("The axis; None: of x as one row.");
  }
};

// One axis of y: `outer` times x's axis of size n, each element `inner` times.
struct Axis {
  int64_t outer, n, inner;
};
using Axes = std::vector<Axis>;

absl::StatusOr<Axes> RepeatAxesOf(const TileParam& p, const Shape& x) {
  const int reps = static_cast<int>(p.reps.size()), ndim = std::max(x.ndim(), reps);
  Axes axes;
  for (int axis = 0; axis < ndim; ++axis) {
    const int in_reps = axis - (ndim - reps), in_x = axis - (ndim - x.ndim());
    axes.push_back({in_reps < 0 ? 1 : p.reps[in_reps], in_x < 0 ? 1 : x[in_x], 1});
  }
  return axes;
}
absl::StatusOr<Axes> RepeatAxesOf(const RepeatParam& p, const Shape& x) {
  if (!p.axis) return Axes{{1, x.Size(), p.repeats}};
  ASSIGN_OR_RETURN(const int repeated, NormalizeAxis(*p.axis, x.ndim()));
  Axes axes;
  for (int axis = 0; axis < x.ndim(); ++axis) axes.push_back({1, x[axis], axis == repeated ? p.repeats : 1});
  return axes;
}

template <class P>
absl::StatusOr<bool> RepeatShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  if (!(*in)[0].known()) return false;
  ASSIGN_OR_RETURN(const Axes axes, RepeatAxesOf(attrs.param<P>(), (*in)[0]));
  std::vector<int64_t> dims;
  for (const Axis& axis : axes) {
    ASSIGN_OR_RETURN(const Shape repeated, Shape::FromDims({axis.outer, axis.n, axis.inner}));
    dims.push_back(repeated.Size());
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

// y's index space as axes along which x has one stride, as few as possible, from the innermost.
struct RepeatStep {
  int64_t n, x_stride;
};
std::vector<RepeatStep> RepeatStepsOf(const Axes& axes) {
  std::vector<RepeatStep> steps;
  const auto add = [&](int64_t n, int64_t stride) {
    if (n == 1) return;
    if (!steps.empty() && steps.back().x_stride * steps.back().n == stride) {
      steps.back().n *= n;
    } else {
      steps.push_back({n, stride});
    }
  };
  int64_t x_size = 1;
  for (size_t axis = axes.size(); axis-- > 0;) {
    add(axes[axis].inner, 0);
    add(axes[axis].n, x_size);
    x_size *= axes[axis].n;
    add(axes[axis].outer, 0);
  }
  return steps;
}

// A copy has at most kMaxRank axes; those outside of them are a loop of copies.
template <class P>
struct CopyRepeated {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp || y[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Axes axes, RepeatAxesOf(attrs.param<P>(), x[0].shape));
    const std::vector<RepeatStep> steps = RepeatStepsOf(axes);
    const int inner = std::min(static_cast<int>(steps.size()), Shape::kMaxRank);
    StridedCopy copy{.dims = Shape::OfRank(inner)};
    for (int i = 0; i < inner; ++i) {
      copy.dims[inner - 1 - i] = steps[i].n;
      copy.x_strides[inner - 1 - i] = steps[i].x_stride;
    }
    DenseStrides(copy.dims, copy.y_strides);
    const int64_t size = copy.dims.Size();
    for (int64_t part = 0; part * size < y[0].Size(); ++part) {
      copy.y_offset = part * size;
      copy.x_offset = 0;
      int64_t rest = part;
      for (size_t i = inner; i < steps.size(); rest /= steps[i++].n) {
        copy.x_offset += rest % steps[i].n * steps[i].x_stride;
      }
      RETURN_IF_ERROR(CopyStrided<D>(ctx, copy, x[0], req[0], y[0]));
    }
    return absl::OkStatus();
  }
};

template <class P>
struct SumRepeated {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs dy, Requests req, Blobs dx) {
    ASSIGN_OR_RETURN(const Axes axes, RepeatAxesOf(attrs.param<P>(), dx[0].shape));
    if (dy[0].Size() == 0) return Fill<D>(ctx, 0, req[0], dx[0]);
    int64_t stride = dy[0].Size();
    ReduceWalk walk;
    for (const Axis& axis : axes) {
      walk.Append(axis.outer, stride /= axis.outer, true);
      walk.Append(axis.n, stride /= axis.n, false);
      walk.Append(axis.inner, stride /= axis.inner, true);
    }
    return Reduce<D>(ctx, walk, SumReducer(), dy[0], req[0], dx[0]);
  }
};

#define REPEAT_OP(name, P, backward, text)                           \
  GLUOND_REGISTER_OP(name)                                           \
      .describe(text)                                                \
      .add_argument("data", "NDArray", "Any shape.")                 \
      .params<P>()                                                   \
      .infer(RepeatShape<P>, ElemwiseType<1, 1>)                     \
      .set_attr<FGradient>("FGradient", FirstGradient<0>{#backward}) \
      .compute<CopyRepeated<P>>()
#define BACKWARD_REPEAT(name, P, forward)                                                                                     \
  GLUOND_REGISTER_OP(name)                                                                                                    \
      .describe("The gradient of " #forward ".")                                                                              \
      .with(GradientByShape(GradientShape<RepeatShape<P>>, ElemwiseType<2, 1>, "What was repeated; only the shape is used.")) \
      .params<P>()                                                                                                            \
      .set_attr<FGradient>("FGradient", FirstGradient<>{#forward})                                                            \
      .compute<SumRepeated<P>>()

REPEAT_OP(tile, TileParam, _backward_tile, "x repeated as a whole along axes.");
REPEAT_OP(repeat, RepeatParam, _backward_repeat, "Each element of x repeated along an axis.");
BACKWARD_REPEAT(_backward_tile, TileParam, tile);
BACKWARD_REPEAT(_backward_repeat, RepeatParam, repeat);

}  // namespace
}  // namespace gluond::ops
