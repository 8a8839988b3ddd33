// _contrib_AdaptiveAvgPooling2D: images of a given size, whatever that of x is. Element i of an axis of y is the average
// of the elements of x from floor(i in / out) up to ceil((i + 1) in / out). These windows overlap where out does not
// divide in.

#include "engine/core/batch_axis.h"
#include "ops/operator.h"
#include "ops/elements.h"
#include "ops/window.h"

namespace gluond::ops {
namespace {

struct AdaptiveAvgPooling2DParam : Param<AdaptiveAvgPooling2DParam> {
  std::vector<int64_t> output_size;
  static void Fields(Schema<AdaptiveAvgPooling2DParam>& s) {
    s.Field("output_size", &AdaptiveAvgPooling2DParam::output_size).Default(std::vector<int64_t>{})
        .Elements<int64_t>(1, kMaxSpatial)
        .Check([](const std::vector<int64_t>& size) { return size.size() <= 2; }, "want at most two: height and width")
        .Describe("Height and width of y, or one number for both. Default: 1.");
  }
  int64_t height() const { return output_size.empty() ? 1 : output_size.front(); }
  int64_t width() const { return output_size.empty() ? 1 : output_size.back(); }
};

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<AdaptiveAvgPooling2DParam>();
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  SHAPE_ASSIGN_CHECK(out, 0, Shape({Shape::kUnknown, Shape::kUnknown, p.height(), p.width()}));
  SHAPE_ASSIGN_CHECK(out, 0, Shape({(*in)[0][0], (*in)[0][1], Shape::kUnknown, Shape::kUnknown}));
  SHAPE_ASSIGN_CHECK(in, 0, Shape({(*out)[0][0], (*out)[0][1], Shape::kUnknown, Shape::kUnknown}));
  const Shape &x = (*in)[0], &y = (*out)[0];
  if (!x.known()) return false;
  RETURN_IF_ERROR(Shape::FromDims(y.dims()).status());
  if (y.Size() == 0 || x.Size() > 0) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected at least one element in each image"));
}

// An axis of x, of `in` elements, and of y, of `out`.
struct AdaptiveAxis {
  int64_t in, out;
  // The window of element i of y.
  HOST_DEVICE int64_t Begin(int64_t i) const { return i * in / out; }
  HOST_DEVICE int64_t End(int64_t i) const { return ((i + 1) * in + out - 1) / out; }
  // The elements of y whose windows have element i of x, in turn.
  HOST_DEVICE AdaptiveAxis Transposed() const { return {out, in}; }
};

template <class C>
struct AverageWindow {
  AdaptiveAxis rows, columns;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % columns.out, row = i / columns.out % rows.out, plane = i / columns.out / rows.out;
    const int64_t top = rows.Begin(row), bottom = rows.End(row), left = columns.Begin(column), right = columns.End(column);
    C sum = 0;
    for (int64_t r = top; r < bottom; ++r) {
      C of_row = 0;
      for (int64_t c = left; c < right; ++c) of_row += x[(plane * rows.in + r) * columns.in + c];
      sum += of_row;
    }
    y.Set(i, sum / static_cast<C>((bottom - top) * (right - left)));
  }
};

template <class C>
struct SpreadWindows {
  AdaptiveAxis rows, columns;
  In<C> dy;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % columns.in, row = i / columns.in % rows.in, plane = i / columns.in / rows.in;
    const AdaptiveAxis of_row = rows.Transposed(), of_column = columns.Transposed();
    C sum = 0;
    for (int64_t r = of_row.Begin(row); r < of_row.End(row); ++r) {
      for (int64_t c = of_column.Begin(column); c < of_column.End(column); ++c) {
        const int64_t count = (rows.End(r) - rows.Begin(r)) * (columns.End(c) - columns.Begin(c));
        sum += dy[(plane * rows.out + r) * columns.out + c] / static_cast<C>(count);
      }
    }
    dx.Set(i, sum);
  }
};

// One element of the result reads about so many of the input: fewer results are enough work for a thread.
int64_t GrainOf(const TBlob& x, const TBlob& y) {
  return std::max<int64_t>(1, kGrain / (x.Size() / std::max<int64_t>(1, y.Size()) + 1));
}

template <bool backward>
struct AdaptiveAvgPooling2D {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Shape &x = (backward ? out : in)[0].shape, &y = (backward ? in : out)[0].shape;
    const AdaptiveAxis rows = {x[2], y[2]}, columns = {x[3], y[3]};
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> to) {
      using Kernel = std::conditional_t<backward, SpreadWindows<C>, AverageWindow<C>>;
      return Kernel{rows, columns, In<C>(in[0]), to};
    }, GrainOf(in[0], out[0]));
  }
};

GLUOND_REGISTER_OP(_contrib_AdaptiveAvgPooling2D)
    .describe("Averages over as many windows as y has elements. The windows are of equal size, as far as that is possible.")
    .add_argument("data", "NDArray", "(batch, channels, height, width).")
    .params<AdaptiveAvgPooling2DParam>()
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .infer(InferShape, SameFloatType)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_contrib_AdaptiveAvgPooling2D"})
    .compute<AdaptiveAvgPooling2D<false>>();

GLUOND_REGISTER_OP(_backward_contrib_AdaptiveAvgPooling2D)
    .describe("The gradient of _contrib_AdaptiveAvgPooling2D's data.")
    .with(GradientByShape(GradientShape<InferShape>, TypesOfInputs<1>, "x; only its shape and type are used."))
    .params<AdaptiveAvgPooling2DParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_contrib_AdaptiveAvgPooling2D"})
    .compute<AdaptiveAvgPooling2D<true>>();

}  // namespace
}  // namespace gluond::ops
