// _contrib_AdaptiveAvgPooling2D: images of a given size, whatever that of x is. Element i of an axis of y is the average
// of the elements of x from floor(i in / out) up to ceil((i + 1) in / out). These windows overlap where out does not
// divide in.

#include "engine/core/batch_axis.h"
#include "ops/operator.h"
#include "ops/window.h"
#include "ops/window_sum.h"

namespace gluond::ops {
namespace {

struct AdaptiveAvgPooling2DParam : Param<AdaptiveAvgPooling2DParam> {
  std::vector<int64_t> output_size;
  static void Fields(Schema<AdaptiveAvgPooling2DParam>& s) {
    s.Field("output_size", &AdaptiveAvgPooling2DParam::output_size)
        .Default(std::vector<int64_t>{})
        .Elements<int64_t>(1, kMaxSpatial)
        .Check([](const std::vector<int64_t>& size) { return size.size() <= 2; }, "want at most two: height and width")
        .Describe("Height and width of y, or one number for both. Default: 1.");
  }
  int64_t height() const { return output_size.empty() ? 1 : output_size.front(); }
  int64_t width() const { return output_size.empty() ? 1 : output_size.back(); }
};

absl::StatusOr<bool> AdaptiveAvgPoolingShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
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
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const int64_t column = i % columns.out, row = i / columns.out % rows.out, plane = i / columns.out / rows.out;
    const int64_t top = rows.Begin(row), height = rows.End(row) - top;
    const int64_t left = columns.Begin(column), width = columns.End(column) - left;
    const C sum = SumOfWindow<C>(g, height, width,
                                 [&](int64_t r, int64_t c) { return x[(plane * rows.in + top + r) * columns.in + left + c]; });
    if (g.first()) y.Set(i, sum / static_cast<C>(height * width));
  }
};

template <class C>
struct SpreadWindows {
  AdaptiveAxis rows, columns;
  In<C> dy;
  Out<C> dx;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t i) const {
    const int64_t column = i % columns.in, row = i / columns.in % rows.in, plane = i / columns.in / rows.in;
    const AdaptiveAxis of_row = rows.Transposed(), of_column = columns.Transposed();
    const int64_t top = of_row.Begin(row), height = of_row.End(row) - top;
    const int64_t left = of_column.Begin(column), width = of_column.End(column) - left;
    const C sum = SumOfWindow<C>(g, height, width, [&](int64_t r, int64_t c) {
      const int64_t tall = rows.End(top + r) - rows.Begin(top + r), wide = columns.End(left + c) - columns.Begin(left + c);
      return dy[(plane * rows.out + top + r) * columns.out + left + c] / static_cast<C>(tall * wide);
    });
    if (g.first()) dx.Set(i, sum);
  }
};

template <bool backward>
struct AdaptiveAvgPooling2D {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Shape &x = (backward ? out : in)[0].shape, &y = (backward ? in : out)[0].shape;
    const AdaptiveAxis rows = {x[2], y[2]}, columns = {x[3], y[3]};
    const int64_t n = out[0].Size();
    if (req[0] == kNullOp || n == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      using Kernel = std::conditional_t<backward, SpreadWindows<C>, AverageWindow<C>>;
      return ForEachSum<D>(ctx, n, in[0].Size() / n, Kernel{rows, columns, In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(_contrib_AdaptiveAvgPooling2D)
    .describe("Averages over as many windows as y has elements. The windows are of equal size, as far as that is possible.")
    .add_argument("data", "NDArray", "(batch, channels, height, width).")
    .params<AdaptiveAvgPooling2DParam>()
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .infer(AdaptiveAvgPoolingShape, SameFloatType)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_contrib_AdaptiveAvgPooling2D"})
    .compute<AdaptiveAvgPooling2D<false>>();

GLUOND_REGISTER_OP(_backward_contrib_AdaptiveAvgPooling2D)
    .describe("The gradient of _contrib_AdaptiveAvgPooling2D's data.")
    .with(GradientByShape(GradientShape<AdaptiveAvgPoolingShape>, TypesOfInputs<1>, "x; only its shape and type are used."))
    .params<AdaptiveAvgPooling2DParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_contrib_AdaptiveAvgPooling2D"})
    .compute<AdaptiveAvgPooling2D<true>>();

}  // namespace
}  // namespace gluond::ops
