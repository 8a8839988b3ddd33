// _contrib_box_iou: the overlap of each box of one tensor with each box of another.

#include "ops/boxes.h"
#include "ops/elements.h"

namespace gluond::ops {
namespace {

struct BoxIouParam : Param<BoxIouParam> {
  int format;
  static void Fields(Schema<BoxIouParam>& s) { BoxFormatField(s, "format", &BoxIouParam::format, "The four numbers"); }
};

template <class C>
struct OverlapOfPair {
  int64_t n;  // Boxes of b.
  int format;
  In<C> a, b;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    y.Set(i, Overlap(Box<C>::Load(a, i / n * 4, format), Box<C>::Load(b, i % n * 4, format)));
  }
};

struct BoxIou {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const int format = attrs.param<BoxIouParam>().format;
    return ForEachReal<D>(
        ctx, req[0], out[0],
        [&]<class C>(Out<C> y) {
          return OverlapOfPair<C>{in[1].Size() / 4, format, In<C>(in[0]), In<C>(in[1]), y};
        },
        kGrain / 8);
  }
};

absl::StatusOr<bool> BoxIouShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < 2; ++i) {
    const Shape& x = (*in)[i];
    if (!x.known()) return false;
    if (x.ndim() < 1 || x.back() != 4) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, i == 0 ? " 'lhs'" : " 'rhs'", " has shape ", x.ToString(),
                                                     ", expected boxes: a last axis of 4"));
    }
    dims.insert(dims.end(), x.begin(), x.end() - 1);
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

GLUOND_REGISTER_OP(_contrib_box_iou)
    .describe(
        "The area of the intersection of each box of lhs and each of rhs, relative to that of their union: the axes of "
        "lhs, then those of rhs, each without the last. Where both have no area it is 0.")
    .add_argument("lhs", "NDArray", "(..., 4).")
    .add_argument("rhs", "NDArray", "(..., 4).")
    .params<BoxIouParam>()
    .set_num_inputs(2)
    .infer(BoxIouShape, SameFloatType)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<BoxIou>();

}  // namespace
}  // namespace gluond::ops
