// _contrib_BilinearResize2D: images of another size. Each element is interpolated between the four elements of x around
// its place. With align_corners the corners of both images lie on each other: element i lies at i (in - 1) / (out - 1).
// Without it their edges do: element i lies at (i + 1/2) in / out - 1/2, and at 0 if that is negative. An only element
// lies at 0 either way, as in MXNet.

#include <cmath>
#include <optional>

#include "engine/core/batch_axis.h"
#include "ops/elements.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

constexpr int64_t kMaxSize = 1 << 20;  // The greatest height and width of y.

enum BilinearResizeMode { kSize, kOddScale, kLike, kToEvenDown, kToEvenUp, kToOddDown, kToOddUp };

template <class P>
void AlignField(Schema<P>& s) {
  s.Field("align_corners", &P::align_corners)
      .Default(true)
      .Describe("The centres of the corners' elements lie on each other (True), or the edges of the images.");
}

struct BilinearResize2DParam : Param<BilinearResize2DParam> {
  int64_t height, width;
  std::optional<double> scale_height, scale_width;
  int mode;
  bool align_corners;
  static void Fields(Schema<BilinearResize2DParam>& s) {
    using P = BilinearResize2DParam;
    s.Field("height", &P::height)
        .Default(int64_t{1})
        .Range(1, kMaxSize)
        .Describe("The height of y, for mode size without scale_height.");
    s.Field("width", &P::width)
        .Default(int64_t{1})
        .Range(1, kMaxSize)
        .Describe("The width of y, for mode size without scale_width.");
    s.Field("scale_height", &P::scale_height)
        .Default(std::nullopt)
        .Above(0.0)
        .Describe("How many times as high y is, for the modes size and odd_scale.");
    s.Field("scale_width", &P::scale_width)
        .Default(std::nullopt)
        .Above(0.0)
        .Describe("How many times as wide y is, for the modes size and odd_scale.");
    s.Field("mode", &P::mode)
        .Decides()
        .Enum({{"size", kSize},
               {"odd_scale", kOddScale},
               {"like", kLike},
               {"to_even_down", kToEvenDown},
               {"to_even_up", kToEvenUp},
               {"to_odd_down", kToOddDown},
               {"to_odd_up", kToOddUp}})
        .Default("size")
        .Describe(
            "The size of y: height and width, or scaled (size); scaled, but of an odd size all elements but one "
            "(odd_scale); that of another image (like); that of x, made even or odd by one element less or more.");
    AlignField(s);
  }
};

absl::Status ParseBilinearResize(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<BilinearResize2DParam>(attrs));
  const auto& p = attrs->param<BilinearResize2DParam>();
  if (p.mode != kOddScale || (p.scale_height && p.scale_width)) return absl::OkStatus();
  return absl::InvalidArgumentError("parameters 'scale_height' and 'scale_width' are None, expected numbers for odd_scale");
}

uint32_t BilinearResizeNumInputs(const NodeAttrs& attrs) { return attrs.param<BilinearResize2DParam>().mode == kLike ? 2 : 1; }

absl::StatusOr<int64_t> Scaled(const char* name, double scale, int64_t in) {
  const double out = std::floor(scale * static_cast<double>(in));
  if (out >= 1 && out <= kMaxSize) return static_cast<int64_t>(out);
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", name, "' is ", scale, ", which makes ", out, " of ", in, " elements, expected 1 to ", kMaxSize));
}

// The size of y along an axis where x has `in` elements. `name`: that of the parameter `scale`.
absl::StatusOr<int64_t> BilinearResizeSizeOf(int mode, int64_t given, const char* name, std::optional<double> scale, int64_t in) {
  const bool odd = in % 2 == 1;
  switch (mode) {
    case kSize: return scale ? Scaled(name, *scale, in) : given;
    case kOddScale: {
      if (!odd) return Scaled(name, *scale, in);
      if (in == 1) return 1;
      // A product below one leaves the one element that is not scaled.
      if (*scale * static_cast<double>(in - 1) < 1) return 1;
      ASSIGN_OR_RETURN(const int64_t out, Scaled(name, *scale, in - 1));
      return out + 1;
    }
    case kToEvenDown: return odd ? in - 1 : in;
    case kToEvenUp: return odd ? in + 1 : in;
    case kToOddDown: return odd ? in : in - 1;
    default: return odd ? in : in + 1;
  }
}

absl::StatusOr<bool> BilinearResizeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<BilinearResize2DParam>();
  for (size_t i = 0; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, Shape::OfRank(4));
  const Shape& x = (*in)[0];
  if (!AllKnown(*in)) return false;
  int64_t height = 0, width = 0;
  if (p.mode == kLike) {
    height = (*in)[1][2], width = (*in)[1][3];
  } else {
    ASSIGN_OR_RETURN(height, BilinearResizeSizeOf(p.mode, p.height, "scale_height", p.scale_height, x[2]));
    ASSIGN_OR_RETURN(width, BilinearResizeSizeOf(p.mode, p.width, "scale_width", p.scale_width, x[3]));
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({x[0], x[1], height, width}));
  if (y.Size() > 0 && x.Size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has shape ", x.ToString(),
                                                   ", expected at least one element to make images of ", height, " x ", width));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

// An axis of x, of `in` elements, and of y, of `out`.
struct ResizedAxis {
  int64_t in, out;
  bool aligned;
  double step;  // The distance in x between neighbours in y.

  ResizedAxis(int64_t in, int64_t out, bool aligned) : in(in), out(out), aligned(aligned) {
    const double from = static_cast<double>(aligned ? in - 1 : in), to = static_cast<double>(aligned ? out - 1 : out);
    step = out > 1 ? from / to : 0;
  }

  // The elements of x on both sides of a place, and the weight of the second.
  struct Pair {
    int64_t low, high;
    double part;
    HOST_DEVICE double Weight(int64_t i) const { return (i == low ? 1 - part : 0) + (i == high ? part : 0); }
  };
  HOST_DEVICE Pair Around(int64_t i) const {
    double place = aligned ? static_cast<double>(i) * step : (static_cast<double>(i) + 0.5) * step - 0.5;
    place = place > 0 ? place : 0;
    int64_t low = static_cast<int64_t>(place);
    low = low < in ? low : in - 1;
    const double part = place - static_cast<double>(low);
    return {low, part > 0 && low + 1 < in ? low + 1 : low, part};
  }
  // The elements of y from Begin(i) to End(i) may have element i of x in their pairs, and no others do. The range has
  // an element more on either side, because of rounding.
  HOST_DEVICE int64_t Begin(int64_t i) const {
    if (step == 0) return 0;
    const double first = (static_cast<double>(i - 1) + shift()) / step - shift() - 1;
    return first > 0 ? static_cast<int64_t>(first) : 0;
  }
  HOST_DEVICE int64_t End(int64_t i) const {
    if (step == 0 || i + 1 >= in) return out;
    const double end = (static_cast<double>(i + 1) + shift()) / step - shift() + 2;
    return end < static_cast<double>(out) ? static_cast<int64_t>(end) : out;
  }

 private:
  HOST_DEVICE double shift() const { return aligned ? 0 : 0.5; }
};

struct Resized {
  ResizedAxis rows, columns;
  Resized(const Shape& x, const Shape& y, bool aligned) : rows(x[2], y[2], aligned), columns(x[3], y[3], aligned) {}
};

template <class C>
struct Interpolate {
  Resized size;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const ResizedAxis &rows = size.rows, &columns = size.columns;
    const int64_t column = i % columns.out, row = i / columns.out % rows.out, plane = i / columns.out / rows.out;
    const auto r = rows.Around(row), c = columns.Around(column);
    const int64_t low = (plane * rows.in + r.low) * columns.in, high = (plane * rows.in + r.high) * columns.in;
    const C down = static_cast<C>(r.part), right = static_cast<C>(c.part);
    const C above = (1 - right) * x[low + c.low] + right * x[low + c.high];
    const C below = (1 - right) * x[high + c.low] + right * x[high + c.high];
    y.Set(i, (1 - down) * above + down * below);
  }
};

// The transposed: an element of dx is the sum of the elements of dy that it was a part of.
template <class C>
struct Collect {
  Resized size;
  In<C> dy;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const ResizedAxis &rows = size.rows, &columns = size.columns;
    const int64_t column = i % columns.in, row = i / columns.in % rows.in, plane = i / columns.in / rows.in;
    const int64_t column_begin = columns.Begin(column), column_end = columns.End(column);
    C sum = 0;
    for (int64_t r = rows.Begin(row); r < rows.End(row); ++r) {
      const C down = static_cast<C>(rows.Around(r).Weight(row));
      if (down == 0) continue;
      for (int64_t c = column_begin; c < column_end; ++c) {
        const C right = static_cast<C>(columns.Around(c).Weight(column));
        if (right != 0) sum += down * right * dy[(plane * rows.out + r) * columns.out + c];
      }
    }
    dx.Set(i, sum);
  }
};

struct BilinearResize2D {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Resized size(in[0].shape, out[0].shape, attrs.param<BilinearResize2DParam>().align_corners);
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> y) { return Interpolate<C>{size, In<C>(in[0]), y}; });
  }
};

struct BackwardParam : Param<BackwardParam> {
  bool align_corners;
  static void Fields(Schema<BackwardParam>& s) { AlignField(s); }
};

struct BackwardBilinearResize2D {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Resized size(out[0].shape, in[0].shape, attrs.param<BackwardParam>().align_corners);
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> dx) { return Collect<C>{size, In<C>(in[0]), dx}; });
  }
};

AttrDict Aligned(bool align_corners, AttrDict more = {}) {
  more["align_corners"] = align_corners ? "True" : "False";
  return more;
}

GLUOND_REGISTER_OP(_contrib_BilinearResize2D)
    .describe("Images of another size, each element interpolated between the four elements around its place.")
    .add_argument("data", "NDArray", "x: (batch, channels, height, width).")
    .add_argument("like", "NDArray", "For mode like: (any, any, height of y, width of y); its values are not used.")
    .params<BilinearResize2DParam>(ParseBilinearResize)
    .set_num_inputs(BilinearResizeNumInputs)
    .set_attr<FListInputNames>("FListInputNames", FirstNames({"data", "like"}, BilinearResizeNumInputs))
    .set_attr<FIgnoreInputs>("FIgnoreInputs",
                             [](const NodeAttrs& attrs) {
                               return BilinearResizeNumInputs(attrs) == 2 ? std::vector<uint32_t>{1} : std::vector<uint32_t>();
                             })
    .set_attr<TBatchInputs>("TBatchInputs", 1)
    .infer(BilinearResizeShape,
           [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
             RETURN_IF_ERROR(Alike(in, out));
             RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
             if (in->size() > 1 && (*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
             return AllKnown(*in);
           })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           Gradients dx(node->num_inputs());
                           dx[0] = Call("_backward_contrib_BilinearResize2D", {dy[0], node->inputs[0]},
                                        Aligned(node->param<BilinearResize2DParam>().align_corners));
                           return dx;
                         })
    .compute<BilinearResize2D>();

GLUOND_REGISTER_OP(_backward_contrib_BilinearResize2D)
    .describe("The gradient of _contrib_BilinearResize2D's data.")
    .with(GradientByShape(ShapesOfInputs<1>, TypesOfInputs<1>, "x; only its shape and type are used."))
    .params<BackwardParam>()
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& node, const Gradients& g) -> Gradients {
          const bool aligned = node->param<BackwardParam>().align_corners;
          return {Call("_contrib_BilinearResize2D", {g[0], node->inputs[0]}, Aligned(aligned, {{"mode", "like"}})), {}};
        })
    .compute<BackwardBilinearResize2D>();

}  // namespace
}  // namespace gluond::ops
