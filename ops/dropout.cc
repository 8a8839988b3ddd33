// Dropout: y = x mask, where an element of the mask is 1 / (1 - p) with probability 1 - p, else 0. Element i of the
// mask is drawn by word i of the node's Philox stream: the same on every device. The mask is a hidden output.

#include "engine/core/op_facts.h"
#include "ops/channel_blocks.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/fill.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum DropoutMode { kTraining, kAlways };

struct DropoutParam : Param<DropoutParam> {
  double p;
  int mode;
  std::vector<int64_t> axes;
  bool cudnn_off;
  static void Fields(Schema<DropoutParam>& s) {
    s.Field("p", &DropoutParam::p)
        .Default(0.5)
        .Check([](double v) { return v >= 0 && v < 1; }, "want 0 to below 1")
        .Describe("The part of the elements that becomes 0.");
    s.Field("mode", &DropoutParam::mode)
        .Enum({{"training", kTraining}, {"always", kAlways}})
        .Default("training")
        .Describe("When to drop: while training, or always.");
    s.Field("axes", &DropoutParam::axes).Default(std::vector<int64_t>{}).Describe("Axes along which the mask does not vary.");
    s.Field("cudnn_off", &DropoutParam::cudnn_off).Default(false).Describe("Accepted for MXNet's sake, not used.");
  }
};

struct DropoutDraw {
  Philox random;
  double p;
  HOST_DEVICE float operator()(uint32_t word) const {
    return Philox::ToUniform(word) < static_cast<float>(p) ? 0.0f : static_cast<float>(1 / (1 - p));
  }
};

// Elements 4 b to 4 b + 3, from one block of random words.
template <class C>
struct DropFour {
  DropoutDraw draw;
  int64_t n;
  In<C> x;
  Out<C> y, mask;
  bool set_y, set_mask;
  HOST_DEVICE void operator()(int64_t b) const {
    const Philox::Block block = draw.random(static_cast<uint64_t>(b));
    for (int64_t j = 0; j < 4 && 4 * b + j < n; ++j) {
      const C m = static_cast<C>(draw(block.word[j]));
      if (set_mask) mask.Set(4 * b + j, m);
      if (set_y) y.Set(4 * b + j, x[4 * b + j] * m);
    }
  }
};

// Element i of x, under a mask that has size 1 along some axes.
template <class C>
struct DropShared {
  DropoutDraw draw;
  In<C> x;
  Out<C> y;
  int ndim;
  int64_t dims[Shape::kMaxRank], strides[Shape::kMaxRank];  // The dims are x's, the strides the mask's.
  HOST_DEVICE void operator()(int64_t i) const {
    int64_t rest = i, at = 0;
    for (int axis = ndim - 1; axis >= 0; --axis) {
      at += rest % dims[axis] * strides[axis];
      rest /= dims[axis];
    }
    y.Set(i, x[i] * static_cast<C>(draw(draw.random.Word(static_cast<uint64_t>(at)))));
  }
};

struct Dropout {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& param = attrs.param<DropoutParam>();
    const TBlob &x = in[0], &y = out[0], &mask = out[1];
    if (param.p == 0 || (param.mode == kTraining && !ctx.is_train)) {
      RETURN_IF_ERROR(Fill<D>(ctx, 1, req[1], mask));
      return Copy<D>(ctx, x, req[0], y);
    }
    const DropoutDraw draw = {ctx.random, param.p};
    const bool shared = !param.axes.empty();
    return DispatchReal(y.dtype, [&]<class C>(C) -> absl::Status {
      RETURN_IF_ERROR(ForEach<D>(ctx, (mask.Size() + 3) / 4,
                                 DropFour<C>{draw, mask.Size(), In<C>(x), Out<C>(y, req[0]), Out<C>(mask, req[1]),
                                             !shared && req[0] != kNullOp, req[1] != kNullOp},
                                 kGrain / 4));
      if (!shared || req[0] == kNullOp) return absl::OkStatus();
      DropShared<C> drop = {draw, In<C>(x), Out<C>(y, req[0]), x.shape.ndim(), {}, {}};
      int64_t stride = 1;
      for (int axis = x.shape.ndim() - 1; axis >= 0; --axis) {
        drop.dims[axis] = x.shape[axis];
        drop.strides[axis] = mask.shape[axis] == 1 ? 0 : stride;
        stride *= mask.shape[axis];
      }
      return ForEach<D>(ctx, x.Size(), drop);
    });
  }
};

absl::StatusOr<bool> DropoutShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape mask = (*in)[0];
  if (!mask.rank_known()) return false;
  for (int64_t axis : attrs.param<DropoutParam>().axes) {
    ASSIGN_OR_RETURN(const int a, NormalizeAxis(axis, mask.ndim()));
    mask[a] = 1;
  }
  SHAPE_ASSIGN_CHECK(out, 1, mask);
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(Dropout)
    .describe("While training, each element becomes 0 with probability p, and the others are divided by 1 - p.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<DropoutParam>()
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListOutputNames>("FListOutputNames", Names({"output", "mask"}))
    .infer(LikeFirst<DropoutShape>(), SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FChannelBlocks>("FChannelBlocks",
                              [](const Node& node, absl::Span<const Shape>, int64_t block) {
                                return node.param<DropoutParam>().mode == kTraining ? AsItIs(node, block) : BlockedCall();
                              })
    .set_attr<FResourceRequest>("FResourceRequest", Random)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           // Where only the mask has a head gradient, y's is zeros, and the tape need not keep y to make them.
                           if (dy[0].node->facts().zeros) return {{}};
                           const bool shared = !node->param<DropoutParam>().axes.empty();
                           return {Call(shared ? "broadcast_mul" : "elemwise_mul", {dy[0], Output(node, 1)})};
                         })
    .compute<Dropout>();

}  // namespace
}  // namespace gluond::ops
