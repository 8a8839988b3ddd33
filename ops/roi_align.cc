// _contrib_ROIAlign (He et al., 2017): the averages of the bins that a region of an image is divided into. A bin is sampled
// on a grid of places, whose values are interpolated between the four elements around them. Nothing is rounded. With
// position_sensitive, each bin reads channels of its own.

#include <cmath>

#include "ops/elements.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"
#include "ops/rois.h"

namespace gluond::ops {
namespace {

struct ROIAlignParam : Param<ROIAlignParam> {
  std::vector<int64_t> pooled_size;
  double spatial_scale;
  int64_t sample_ratio;
  bool position_sensitive, aligned;
  static void Fields(Schema<ROIAlignParam>& s) {
    using P = ROIAlignParam;
    PooledSizeField(s);
    s.Field("spatial_scale", &P::spatial_scale)
        .Check([](double v) { return std::isfinite(v); }, "want a finite number")
        .Describe("Multiplies the regions' coordinates: the size of data, relative to that of the images.");
    s.Field("sample_ratio", &P::sample_ratio)
        .Default(int64_t{-1})
        .Range(-1, 64)
        .Describe("Places along each side of a bin; 0 or less: the side, rounded up.");
    s.Field("position_sensitive", &P::position_sensitive)
        .Default(false)
        .Describe("Each bin reads channels of its own, of which data has as many times more than the result.");
    s.Field("aligned", &P::aligned)
        .Default(false)
        .Describe(
            "Coordinates are moved by half an element, to the elements' centres, and sides may be below 1; a region "
            "without an area gives 0.");
  }
};

struct RoiAlignSize {
  int64_t channels, height, width, rows, columns;  // `rows` and `columns`: the bins. `channels`: those of data.
  int64_t sample_ratio;
  bool by_position, aligned;
  double scale;

  RoiAlignSize(const ROIAlignParam& p, const Shape& x)
      : channels(x[1]),
        height(x[2]),
        width(x[3]),
        rows(p.pooled_size[0]),
        columns(p.pooled_size[1]),
        sample_ratio(p.sample_ratio),
        by_position(p.position_sensitive),
        aligned(p.aligned),
        scale(p.spatial_scale) {}
  HOST_DEVICE int64_t bins() const { return rows * columns; }
  HOST_DEVICE int64_t out_channels() const { return by_position ? channels / bins() : channels; }
};

// The places of one bin along an axis of `n` elements: `count` of them, of which those in [begin, end) may be inside.
template <class C>
struct Places {
  C start, step;
  int64_t n, count, begin, end;

  // Bin i of `bins`, of a region between two coordinates.
  HOST_DEVICE Places(const RoiAlignSize& s, C first, C last, int64_t i, int64_t bins, int64_t n) : n(n) {
    const C shift = s.aligned ? C(0.5) : C(0), scale = static_cast<C>(s.scale);
    first = first * scale - shift;
    C side = last * scale - shift - first;
    side = s.aligned || side > 1 ? side : C(1);
    const C bin = side / static_cast<C>(bins);
    count = s.sample_ratio > 0 ? s.sample_ratio : Convert<int64_t>(math::Ceil(bin));
    count = n > 0 && count > 0 && side > 0 ? count : 0;
    start = first + static_cast<C>(i) * bin;
    step = bin / static_cast<C>(count > 0 ? count : 1);
    begin = 0;
    end = count;
    // A region from data may be larger than any image: only places in the image are visited.
    if (count > 1024) {
      begin = Inside(Convert<int64_t>((-1 - start) / step - 2));
      end = Inside(Convert<int64_t>((static_cast<C>(n) - start) / step + 2));
    }
  }

  // The elements on both sides of place i, and the weight of the second. False: the place is outside.
  HOST_DEVICE bool At(int64_t i, int64_t* low, int64_t* high, C* part) const {
    C place = start + (static_cast<C>(i) + C(0.5)) * step;
    if (!(place >= -1 && place <= static_cast<C>(n))) return false;
    place = place > 0 ? place : C(0);
    *low = static_cast<int64_t>(place);
    *low = *low < n - 1 ? *low : n - 1;
    *high = *low < n - 1 ? *low + 1 : *low;
    *part = *high > *low ? place - static_cast<C>(*low) : C(0);
    return true;
  }

 private:
  HOST_DEVICE int64_t Inside(int64_t i) const { return i < 0 ? 0 : i < count ? i : count; }
};

// f(element of the plane, its weight) for all that bin (row, column) of a region takes; the weights' sum is 1 inside.
template <class C, class F>
HOST_DEVICE void ForEachWeight(const RoiAlignSize& s, const In<C>& rois, int64_t roi, int64_t bin, const F& f) {
  const Places<C> down(s, rois[roi * 5 + 2], rois[roi * 5 + 4], bin / s.columns, s.rows, s.height);
  const Places<C> across(s, rois[roi * 5 + 1], rois[roi * 5 + 3], bin % s.columns, s.columns, s.width);
  const C count = static_cast<C>(down.count) * static_cast<C>(across.count);
  for (int64_t i = down.begin; i < down.end; ++i) {
    int64_t above, below;
    C low;
    if (!down.At(i, &above, &below, &low)) continue;
    for (int64_t k = across.begin; k < across.end; ++k) {
      int64_t left, right;
      C far;
      if (!across.At(k, &left, &right, &far)) continue;
      f(above * s.width + left, (1 - low) * (1 - far) / count);
      f(above * s.width + right, (1 - low) * far / count);
      f(below * s.width + left, low * (1 - far) / count);
      f(below * s.width + right, low * far / count);
    }
  }
}

template <class C>
struct AlignBin {
  RoiAlignSize s;
  const int64_t* image;
  In<C> x, rois;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t bin = i % s.bins(), to = i / s.bins() % s.out_channels(), roi = i / s.bins() / s.out_channels();
    const int64_t channel = s.by_position ? to * s.bins() + bin : to;
    const int64_t plane = (image[roi] * s.channels + channel) * s.height * s.width;
    C sum = 0;
    if (image[roi] >= 0) {
      ForEachWeight<C>(s, rois, roi, bin, [&](int64_t at, C weight) { sum += weight * x[plane + at]; });
    }
    y.Set(i, sum);
  }
};

// Adds what the bins of some regions took from a plane.
template <class C>
struct SpreadBins {
  RoiAlignSize s;
  const int64_t* image;
  In<C> dy, rois;

  HOST_DEVICE void operator()(int64_t plane, int64_t begin, int64_t end, C* sum) const {
    const int64_t channel = plane % s.channels;
    const int64_t from = s.by_position ? channel / s.bins() : channel;
    const int64_t first = s.by_position ? channel % s.bins() : 0, last = s.by_position ? first + 1 : s.bins();
    for (int64_t roi = begin; roi < end; ++roi) {
      if (image[roi] != plane / s.channels) continue;
      for (int64_t bin = first; bin < last; ++bin) {
        const C g = dy[(roi * s.out_channels() + from) * s.bins() + bin];
        ForEachWeight<C>(s, rois, roi, bin, [&](int64_t at, C weight) { sum[at] += weight * g; });
      }
    }
  }
};

struct ROIAlign {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const RoiAlignSize size(attrs.param<ROIAlignParam>(), in[0].shape);
    ASSIGN_OR_RETURN(const int64_t* const image, ImagesOfRois<D>(ctx, in[1], in[0].shape[0]));
    return ForEachReal<D>(
        ctx, req[0], out[0],
        [&]<class C>(Out<C> y) {
          return AlignBin<C>{size, image, In<C>(in[0]), In<C>(in[1]), y};
        },
        kGrain / 64);
  }
};

// Inputs: dy, the regions, and data, whose values are not used.
struct BackwardROIAlign {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob& dx = out[0];
    if (req[0] == kNullOp || dx.Size() == 0) return absl::OkStatus();
    const RoiAlignSize size(attrs.param<ROIAlignParam>(), dx.shape);
    const int64_t images = dx.shape[0], count = in[1].shape[0];
    ASSIGN_OR_RETURN(const int64_t* const image, ImagesOfRois<D>(ctx, in[1], images));
    const RoiPieces pieces(images * size.channels, size.height * size.width, count);
    return DispatchReal(dx.dtype, [&]<class C>(C) {
      return AddRegions<D, C>(ctx, pieces, size.bins() / images + 1, SpreadBins<C>{size, image, In<C>(in[0]), In<C>(in[1])}, req[0],
                              dx);
    });
  }
};

absl::StatusOr<bool> RoiAlignShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<ROIAlignParam>();
  RETURN_IF_ERROR(AssignRois(in));
  const Shape &x = (*in)[0], &rois = (*in)[1];
  if (!AllKnown(*in)) return false;
  const int64_t bins = p.pooled_size[0] * p.pooled_size[1];
  if (p.position_sensitive && x[1] % bins != 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'data' has ", x[1], " channels, expected a multiple of the ", bins,
                                                   " bins, as position_sensitive is set"));
  }
  const int64_t channels = p.position_sensitive ? x[1] / bins : x[1];
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({rois[0], channels, p.pooled_size[0], p.pooled_size[1]}));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

GLUOND_REGISTER_OP(_contrib_ROIAlign)
    .describe(
        "The averages of the bins of regions of images, sampled between the elements: (regions, channels, height, "
        "width), pooled_size being the last two. Places outside of the image count as 0. Regions have no gradient.")
    .add_argument("data", "NDArray", "(images, channels, height, width).")
    .add_argument("rois", "NDArray", "(regions, 5): image, left, top, right, bottom; a negative image: padding, which gives 0.")
    .params<ROIAlignParam>()
    .set_num_inputs(2)
    .infer(RoiAlignShape, LabelledType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& node, const Gradients& dy) -> Gradients {
          return {Call("_backward_contrib_ROIAlign", {dy[0], node->inputs[1], node->inputs[0]}, node->attrs.dict), {}};
        })
    .compute<ROIAlign>();

GLUOND_REGISTER_OP(_backward_contrib_ROIAlign)
    .describe("The gradient of _contrib_ROIAlign's data.")
    .with(GradientByIndex(GradientShape<RoiAlignShape>, "rois", "As given to _contrib_ROIAlign.", "data; only its shape is used."))
    .params<ROIAlignParam>()
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", FirstGradient<1>{"_contrib_ROIAlign"})
    .compute<BackwardROIAlign>();

}  // namespace
}  // namespace gluond::ops
