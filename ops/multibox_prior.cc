// _contrib_MultiBoxPrior (Liu et al., 2016): the anchors of a detector, boxes of several sizes and ratios around the centre
// of each element of an image. Coordinates are relative to the image's. A box of size s and ratio r is s sqrt(r) wide and
// s / sqrt(r) high, measured in the image's height.

#include <cmath>

#include "ops/elements.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

constexpr size_t kMostSizes = 64;  // The greatest number of sizes, and of ratios.

struct MultiBoxPriorParam : Param<MultiBoxPriorParam> {
  std::vector<double> sizes, ratios, steps, offsets;
  bool clip;
  static void Fields(Schema<MultiBoxPriorParam>& s) {
    using P = MultiBoxPriorParam;
    const auto numbers = [](const std::vector<double>& v, auto good) {
      for (double e : v)
        if (!good(e)) return false;
      return !v.empty() && v.size() <= kMostSizes;
    };
    s.Field("sizes", &P::sizes)
        .Default(std::vector<double>{1})
        .Check([=](const auto& v) { return numbers(v, [](double e) { return e >= 0 && std::isfinite(e); }); },
               "want 1 to 64 numbers of 0 or more")
        .Describe("Sizes, relative to the image's height. Those after the first have the first ratio.");
    s.Field("ratios", &P::ratios)
        .Default(std::vector<double>{1})
        .Check([=](const auto& v) { return numbers(v, [](double e) { return e > 0 && std::isfinite(e); }); },
               "want 1 to 64 numbers above 0")
        .Describe("Ratios of width to height. Those after the first have the first size.");
    s.Field("clip", &P::clip).Default(false).Describe("Coordinates end at 0 and 1.");
    s.Field("steps", &P::steps)
        .Default(std::vector<double>{-1, -1})
        .Check(
            [](const auto& v) { return v.size() == 2 && std::isfinite(v[0]) && std::isfinite(v[1]) && (v[0] > 0) == (v[1] > 0); },
            "want two numbers, both above 0 or neither")
        .Describe("The distances of centres, down and across. 0 or less: 1 / height and 1 / width.");
    s.Field("offsets", &P::offsets)
        .Default(std::vector<double>{0.5, 0.5})
        .Check([](const auto& v) { return v.size() == 2 && std::isfinite(v[0]) && std::isfinite(v[1]); }, "want two numbers")
        .Describe("The place of the first centre in its step, down and across.");
  }
  int64_t boxes() const { return static_cast<int64_t>(sizes.size() + ratios.size()) - 1; }
};

template <class C>
struct PriorBox {
  int64_t width, boxes;  // `width`: the image's. `boxes`: at each element.
  C step_x, step_y, offset_x, offset_y;
  bool clip;
  C half_width[2 * kMostSizes], half_height[2 * kMostSizes];
  Out<C> y;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t box = i / 4 % boxes, at = i / 4 / boxes;
    const bool across = i % 2 == 0;
    const C place = static_cast<C>(across ? at % width : at / width);
    const C centre = across ? (place + offset_x) * step_x : (place + offset_y) * step_y;
    const C half = across ? half_width[box] : half_height[box];
    C v = i % 4 < 2 ? centre - half : centre + half;
    if (clip) v = v < 0 ? C(0) : v > 1 ? C(1) : v;
    y.Set(i, v);
  }
};

struct MultiBoxPrior {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<MultiBoxPriorParam>();
    const double height = static_cast<double>(in[0].shape[2]), width = static_cast<double>(in[0].shape[3]);
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> y) {
      const auto step = [&](int i, double size) { return static_cast<C>(p.steps[i] > 0 ? p.steps[i] : 1 / size); };
      PriorBox<C> prior{in[0].shape[3],
                        p.boxes(),
                        step(1, width),
                        step(0, height),
                        static_cast<C>(p.offsets[1]),
                        static_cast<C>(p.offsets[0]),
                        p.clip,
                        {},
                        {},
                        y};
      for (size_t i = 0; i < static_cast<size_t>(p.boxes()); ++i) {
        const size_t sizes = p.sizes.size();
        const double size = p.sizes[i < sizes ? i : 0], root = std::sqrt(p.ratios[i < sizes ? 0 : i - sizes + 1]);
        prior.half_width[i] = static_cast<C>(size * height / width * root / 2);
        prior.half_height[i] = static_cast<C>(size / root / 2);
      }
      return prior;
    });
  }
};

absl::StatusOr<bool> MultiboxPriorShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  const Shape& x = (*in)[0];
  if (x[2] < 0 || x[3] < 0) return false;
  ASSIGN_OR_RETURN(const int64_t boxes,
                   ElementsOf("the boxes of all pixels", {x[2], x[3], attrs.param<MultiBoxPriorParam>().boxes()}));
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({1, boxes, 4}));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return x.known();
}

GLUOND_REGISTER_OP(_contrib_MultiBoxPrior)
    .describe(
        "Anchors around each element of an image: (1, height * width * (sizes + ratios - 1), 4), each left, top, right, "
        "bottom, relative to the image. At each element come the sizes, then the further ratios.")
    .add_argument("data", "NDArray", "(any, any, height, width); its values are not used.")
    .params<MultiBoxPriorParam>()
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)
    .infer(MultiboxPriorShape, SameFloatType)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<MultiBoxPrior>();

}  // namespace
}  // namespace gluond::ops
