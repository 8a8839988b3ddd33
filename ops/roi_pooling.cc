// ROIPooling (Girshick, 2015): the maxima of the bins that a region of an image is divided into. With the region's sides
// rounded to whole elements, first to last, bin i of n along an axis goes from floor(i size / n) to ceil((i + 1) size / n).

#include <limits>

#include "ops/kernel/math.h"
#include "ops/operator.h"
#include "ops/rois.h"

namespace gluond::ops {
namespace {

struct ROIPoolingParam : Param<ROIPoolingParam> {
  std::vector<int64_t> pooled_size;
  double spatial_scale;
  static void Fields(Schema<ROIPoolingParam>& s) {
    PooledSizeField(s);
    s.Field("spatial_scale", &ROIPoolingParam::spatial_scale)
        .Range(0.0, 1.0)
        .Describe("Multiplies the regions' coordinates: the size of data, relative to that of the images.");
  }
};

struct RoiPoolSize {
  int64_t channels, height, width, rows, columns;  // `rows` and `columns`: the bins.
  double scale;

  RoiPoolSize(const ROIPoolingParam& p, const Shape& x)
      : channels(x[1]), height(x[2]), width(x[3]), rows(p.pooled_size[0]), columns(p.pooled_size[1]), scale(p.spatial_scale) {}
  HOST_DEVICE int64_t bins() const { return rows * columns; }
};

// The elements [begin, end) of an axis of `n`.
struct Bin {
  int64_t begin, end;

  // Bin i of `bins`, of a region between two coordinates that are scaled already.
  template <class C>
  HOST_DEVICE static Bin Of(C first, C last, int64_t i, int64_t bins, int64_t n) {
    const int64_t begin = ToPixel(first), size = Larger(ToPixel(last) - begin + 1, 1);
    return {Inside(begin + i * size / bins, n), Inside(begin + ((i + 1) * size + bins - 1) / bins, n)};
  }

 private:
  HOST_DEVICE static int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
  HOST_DEVICE static int64_t Inside(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n; }
  // Coordinates far outside of any image stay so small that nothing overflows.
  template <class C>
  HOST_DEVICE static int64_t ToPixel(C v) {
    constexpr int64_t kFar = int64_t{1} << 40;
    const int64_t i = Convert<int64_t>(math::Round(v));
    return i < -kFar ? -kFar : i < kFar ? i : kFar;
  }
};

template <class C>
struct PoolBin {
  RoiPoolSize s;
  const int64_t* image;
  In<C> x, rois;
  OpReqType y_req, index_req;
  Out<C> y;
  Out<int64_t> index;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % s.columns, row = i / s.columns % s.rows;
    const int64_t channel = i / s.bins() % s.channels, roi = i / s.bins() / s.channels;
    const C scale = static_cast<C>(s.scale);
    const auto side = [&](int64_t k) { return rois[roi * 5 + k] * scale; };
    const Bin across = Bin::Of(side(1), side(3), column, s.columns, s.width);
    const Bin down = Bin::Of(side(2), side(4), row, s.rows, s.height);
    C best = 0;
    int64_t at = -1;
    if (image[roi] >= 0) {
      const int64_t plane = (image[roi] * s.channels + channel) * s.height * s.width;
      for (int64_t r = down.begin; r < down.end; ++r) {
        for (int64_t c = across.begin; c < across.end; ++c) {
          const C v = x[plane + r * s.width + c];
          if (at >= 0 && !(v > best) && !(v != v && best == best)) continue;
          best = v;
          at = r * s.width + c;
        }
      }
    }
    if (y_req != kNullOp) y.Set(i, best);
    if (index_req != kNullOp) index.Set(i, at);
  }
};

// Adds what the bins of some regions took from a plane.
template <class C>
struct ReturnMaxima {
  RoiPoolSize s;
  const int64_t* image;
  In<C> dy;
  In<int64_t> index;

  HOST_DEVICE void operator()(int64_t plane, int64_t begin, int64_t end, C* sum) const {
    const int64_t n = s.height * s.width, channel = plane % s.channels;
    for (int64_t roi = begin; roi < end; ++roi) {
      if (image[roi] != plane / s.channels) continue;
      const int64_t first = (roi * s.channels + channel) * s.bins();
      for (int64_t i = first; i < first + s.bins(); ++i) {
        const int64_t at = index[i];
        if (at >= 0 && at < n) sum[at] += dy[i];
      }
    }
  }
};

struct ROIPooling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const RoiPoolSize size(attrs.param<ROIPoolingParam>(), in[0].shape);
    ASSIGN_OR_RETURN(const int64_t* const image, ImagesOfRois<D>(ctx, in[1], in[0].shape[0]));
    const int64_t n = out[0].Size();
    if ((req[0] == kNullOp && req[1] == kNullOp) || n == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEach<D>(
          ctx, n,
          PoolBin<C>{size, image, In<C>(in[0]), In<C>(in[1]), req[0], req[1], Out<C>(out[0], req[0]), Out<int64_t>(out[1], req[1])},
          kGrain / 64);
    });
  }
};

// Inputs: dy, the regions, the places of the maxima, and data, whose values are not used.
struct BackwardROIPooling {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob& dx = out[0];
    if (req[0] == kNullOp || dx.Size() == 0) return absl::OkStatus();
    const RoiPoolSize size(attrs.param<ROIPoolingParam>(), dx.shape);
    const int64_t images = dx.shape[0], count = in[1].shape[0];
    ASSIGN_OR_RETURN(const int64_t* const image, ImagesOfRois<D>(ctx, in[1], images));
    const RoiPieces pieces(images * size.channels, size.height * size.width, count);
    return DispatchReal(dx.dtype, [&]<class C>(C) {
      return AddRegions<D, C>(ctx, pieces, size.bins() / images + 1, ReturnMaxima<C>{size, image, In<C>(in[0]), In<int64_t>(in[2])},
                              req[0], dx);
    });
  }
};

absl::StatusOr<bool> RoiPoolingShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<ROIPoolingParam>();
  RETURN_IF_ERROR(AssignRois(in));
  const Shape &x = (*in)[0], &rois = (*in)[1];
  if (!AllKnown(*in)) return false;
  if (x[2] * x[3] > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected less than 2^31 elements in each channel"));
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({rois[0], x[1], p.pooled_size[0], p.pooled_size[1]}));
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, y);
  return true;
}

absl::StatusOr<bool> RoiPoolingType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 1, DType::kInt32);
  return LabelledType(attrs, in, out);
}

GLUOND_REGISTER_OP(ROIPooling)
    .describe(
        "The maxima of the bins of regions of images: (regions, channels, height, width), pooled_size being the last "
        "two. A bin outside of the image is 0. Regions have no gradient.")
    .add_argument("data", "NDArray", "(images, channels, height, width).")
    .add_argument("rois", "NDArray", "(regions, 5): image, left, top, right, bottom; a negative image: padding, which gives 0.")
    .params<ROIPoolingParam>()
    .set_num_inputs(2)
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListOutputNames>("FListOutputNames", Names({"output", "index"}))
    .infer(RoiPoolingShape, RoiPoolingType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& node, const Gradients& dy) -> Gradients {
          return {Call("_backward_ROIPooling", {dy[0], node->inputs[1], Output(node, 1), node->inputs[0]}, node->attrs.dict), {}};
        })
    .compute<ROIPooling>();

GLUOND_REGISTER_OP(_backward_ROIPooling)
    .describe("The gradient of ROIPooling's data.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("rois", "NDArray", "As given to ROIPooling.")
    .add_argument("index", "NDArray", "The places of the maxima: ROIPooling's hidden output.")
    .add_argument("data", "NDArray", "data; only its shape and type are used.")
    .params<ROIPoolingParam>()
    .set_num_inputs(4)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<3>)
    .infer(ShapesOfInputs<3>, TypesOfInputs<3>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients&) -> absl::StatusOr<Gradients> {
                           return absl::UnimplementedError(
                               "the gradient of ROIPooling cannot be differentiated again; use _contrib_ROIAlign");
                         })
    .compute<BackwardROIPooling>();

}  // namespace
}  // namespace gluond::ops
