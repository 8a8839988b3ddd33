// FullyConnected: y = x W^T + b, with x flattened to rows. Its gradient is one operator, so that it is two products
// and a sum. That operator is linear in each input, so that it and FullyConnected differentiate it, as often as wanted.

#include "ops/affine.h"
#include "ops/bilinear.h"
#include "ops/kernel/bias.h"
#include "ops/kernel/gemm.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct FullyConnectedParam : Param<FullyConnectedParam> {
  int64_t num_hidden;
  bool no_bias, flatten;

  static void Fields(Schema<FullyConnectedParam>& s) {
    s.Field("num_hidden", &FullyConnectedParam::num_hidden).Range(1, int64_t{1} << 31).Describe("Units of the output.");
    s.Field("no_bias", &FullyConnectedParam::no_bias).Decides().Default(false).Describe("Leave b out.");
    s.Field("flatten", &FullyConnectedParam::flatten)
        .Default(true)
        .Describe("Take all axes of x but the first together; otherwise W applies to the last axis.");
  }
};

// x is m x k, W is n x k, y is m x n.
GemmSize FullyConnectedSizeOf(const FullyConnectedParam& param, const Shape& x) {
  const int split = param.flatten ? 1 : x.ndim() - 1;
  return {.m = x.Size(0, split), .n = param.num_hidden, .k = x.Size(split, x.ndim()), .transpose_b = true};
}
// dx = dy W, dW = dy^T x.
GemmSize DataGradientOf(const GemmSize& s) { return {.m = s.m, .n = s.k, .k = s.n}; }
GemmSize WeightGradientOf(const GemmSize& s) { return {.m = s.n, .n = s.k, .k = s.m, .transpose_a = true}; }

absl::StatusOr<bool> FullyConnectedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& param = attrs.param<FullyConnectedParam>();
  if (!param.no_bias) SHAPE_ASSIGN_CHECK(in, 2, Shape({param.num_hidden}));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({param.num_hidden, Shape::kUnknown}));
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  if (x.ndim() < 1) return absl::InvalidArgumentError("input 0 'data' is a scalar; want rows: rank 1 or more");
  Shape y = x;
  if (param.flatten) {
    y = {x[0], param.num_hidden};
  } else {
    y[x.ndim() - 1] = param.num_hidden;
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  Shape from_y = Shape::OfRank(x.ndim());  // The axes that x and y share.
  for (int axis = 0; axis < (param.flatten ? 1 : x.ndim() - 1); ++axis) from_y[axis] = (*out)[0][axis];
  if (!param.flatten || x.ndim() == 2) from_y[x.ndim() - 1] = (*in)[1][1];
  SHAPE_ASSIGN_CHECK(in, 0, from_y);
  Shape rest = (*in)[0];
  rest[0] = 1;
  if (!param.flatten) rest = {1, rest.back()};
  if (rest.known()) SHAPE_ASSIGN_CHECK(in, 1, Shape({param.num_hidden, rest.Size()}));
  return AllKnown(*in) && AllKnown(*out);
}

struct FullyConnected {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const GemmSize size = FullyConnectedSizeOf(attrs.param<FullyConnectedParam>(), in[0].shape);
    return Gemm<D>(ctx, out[0].dtype, size, in[0].data, in[1].data, req[0], out[0].data, in.size() < 3 ? nullptr : in[2].data);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return PrepareGemm(ctx, out[0].dtype, FullyConnectedSizeOf(attrs.param<FullyConnectedParam>(), in[0].shape), in[1].data,
                       req[0]);
  }
};

// Beside them, db = the sum of dy's rows.
struct BackwardFullyConnected {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob &dy = in[0], &x = in[1], &w = in[2];
    const GemmSize s = FullyConnectedSizeOf(attrs.param<FullyConnectedParam>(), x.shape);
    RETURN_IF_ERROR(Gemm<D>(ctx, dy.dtype, DataGradientOf(s), dy.data, w.data, req[0], out[0].data));
    RETURN_IF_ERROR(Gemm<D>(ctx, dy.dtype, WeightGradientOf(s), dy.data, x.data, req[1], out[1].data));
    return out.size() < 3 ? absl::OkStatus() : SumColumns<D>(ctx, dy, req[2], out[2]);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    const GemmSize s = FullyConnectedSizeOf(attrs.param<FullyConnectedParam>(), in[1].shape);
    RETURN_IF_ERROR(PrepareGemm(ctx, in[0].dtype, DataGradientOf(s), in[2].data, req[0]));
    return PrepareGemm(ctx, in[0].dtype, WeightGradientOf(s), in[1].data, req[1]);
  }
};

// The units are the output's last axis.
NodePtr FullyConnectedAbsorb(const Node& node, const Affine& affine, int rank, DType dtype) {
  return affine.axis == rank - 1 ? WithAffine<FullyConnectedParam>(node, affine, 2, dtype) : nullptr;
}

GLUOND_REGISTER_OP(FullyConnected)
    .describe("y = x W^T + b: a dense layer.")
    .add_argument("data", "NDArray", "x: (batch, ...); with flatten=False, (..., units).")
    .add_argument("weight", "NDArray", "W: (num_hidden, units).")
    .add_argument("bias", "NDArray", "b: (num_hidden). Absent with no_bias.")
    .params<FullyConnectedParam>()
    .with(Bilinear<FullyConnectedParam>)
    .set_attr<FAbsorbAffine>("FAbsorbAffine", FullyConnectedAbsorb)
    .infer(FullyConnectedShape, SameFloatType)
    .compute<FullyConnected>();

GLUOND_REGISTER_OP(_backward_FullyConnected)
    .describe("The gradients of FullyConnected's inputs.")
    .with(BackwardBilinear<FullyConnectedParam, &FullyConnectedParam::num_hidden>("W."))
    .params<FullyConnectedParam>()
    .compute<BackwardFullyConnected>();

}  // namespace
}  // namespace gluond::ops
