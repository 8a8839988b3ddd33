// Matrix products: dot, of the last axis with the first; batch_dot and linalg_gemm2, of the matrices in the last two
// axes. Their gradient is one operator, which needs no transposed copy. That operator is linear in each input, so that
// it and the product differentiate it, as often as wanted.

#include <optional>

#include "ops/kernel/gemm.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

template <class P>
void TransposeFields(Schema<P>& s, absl::string_view what = "") {
  s.template Field<bool>("transpose_a", &P::transpose_a)
      .Default(false)
      .Describe(absl::StrCat("Transpose the first input", what, "."));
  s.template Field<bool>("transpose_b", &P::transpose_b)
      .Default(false)
      .Describe(absl::StrCat("Transpose the second input", what, "."));
}
template <class P>
void StypeField(Schema<P>& s) {
  s.Field("forward_stype", &P::forward_stype)
      .Enum({{"default", 0}})
      .Default("None")
      .Describe("Accepted for MXNet's sake: all tensors are dense.");
}

absl::Status Mismatch(const Shape& a, const Shape& b, int64_t k_a, int64_t k_b) {
  return absl::InvalidArgumentError(absl::StrCat("inputs of shapes ", a.ToString(), " and ", b.ToString(),
                                                 " do not fit: the axes to be multiplied have ", k_a, " and ", k_b,
                                                 " elements; check transpose_a and transpose_b"));
}

// Each parameter struct knows its operator's sizes (of known shapes) and the shape of the result.
struct DotParam : Param<DotParam> {
  bool transpose_a, transpose_b;
  std::optional<int> forward_stype;
  static constexpr const char* kBackward = "_backward_dot";
  static constexpr const char* kForward = "dot";

  static void Fields(Schema<DotParam>& s) { TransposeFields(s), StypeField(s); }

  GemmSize Size(const Shape& a, const Shape& b) const {
    const int a_split = transpose_a ? 1 : a.ndim() - 1, b_split = transpose_b ? b.ndim() - 1 : 1;
    return {.m = transpose_a ? a.Size(1, a.ndim()) : a.Size(0, a_split),
            .n = transpose_b ? b.Size(0, b_split) : b.Size(1, b.ndim()),
            .k = transpose_a ? a[0] : a.back(),
            .transpose_a = transpose_a,
            .transpose_b = transpose_b};
  }
  absl::StatusOr<Shape> Result(const Shape& a, const Shape& b) const {
    if (a.ndim() < 1 || b.ndim() < 1) return absl::InvalidArgumentError("dot of a scalar; want rank 1 or more");
    const int64_t k_a = transpose_a ? a[0] : a.back(), k_b = transpose_b ? b.back() : b[0];
    if (k_a >= 0 && k_b >= 0 && k_a != k_b) return Mismatch(a, b, k_a, k_b);
    if (a.ndim() + b.ndim() - 2 > Shape::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("dot of ", a.ToString(), " and ", b.ToString(), " has rank ",
                                                     a.ndim() + b.ndim() - 2, ", expected at most ", Shape::kMaxRank));
    }
    Shape y = Shape::Scalar();
    for (int i = 0; i + 1 < a.ndim(); ++i) y.Append(a[transpose_a ? i + 1 : i]);
    for (int i = 0; i + 1 < b.ndim(); ++i) y.Append(b[transpose_b ? i : i + 1]);
    if (y.ndim() == 0) y.Append(1);  // As MXNet: the product of two vectors has shape (1).
    return y;
  }
};

// The shape rule of matrices in the last two axes, and the sizes.
template <class P>
struct MatrixPair : Param<P> {
  bool transpose_a, transpose_b;

  GemmSize Size(const Shape& a, const Shape& b) const {
    const int r = a.ndim();
    return {.m = a[transpose_a ? r - 1 : r - 2],
            .n = b[transpose_b ? r - 2 : r - 1],
            .k = a[transpose_a ? r - 2 : r - 1],
            .transpose_a = transpose_a,
            .transpose_b = transpose_b,
            .batch = a.Size(0, r - 2)};
  }
  absl::StatusOr<Shape> Result(const Shape& a, const Shape& b) const {
    const int r = a.ndim();
    if (r < P::kMinRank || b.ndim() != r) {
      return absl::InvalidArgumentError(absl::StrCat("inputs of shapes ", a.ToString(), " and ", b.ToString(),
                                                     ", expected equal ranks of ", P::kMinRank, " or more"));
    }
    Shape y = a, from_b = b;
    const int64_t k_a = a[transpose_a ? r - 2 : r - 1], k_b = b[transpose_b ? r - 1 : r - 2];
    if (k_a >= 0 && k_b >= 0 && k_a != k_b) return Mismatch(a, b, k_a, k_b);
    y[r - 2] = from_b[r - 2] = a[transpose_a ? r - 1 : r - 2];
    y[r - 1] = from_b[r - 1] = b[transpose_b ? r - 2 : r - 1];
    if (!ShapeAssign(&y, from_b)) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs of shapes ", a.ToString(), " and ", b.ToString(), ", expected equal axes before the last two"));
    }
    return y;
  }
};

struct BatchDotParam : MatrixPair<BatchDotParam> {
  std::optional<int> forward_stype;
  static constexpr int kMinRank = 3;
  static constexpr const char* kBackward = "_backward_batch_dot";
  static constexpr const char* kForward = "batch_dot";
  static void Fields(Schema<BatchDotParam>& s) { TransposeFields(s, "'s matrices"), StypeField(s); }
};
struct Gemm2Param : MatrixPair<Gemm2Param> {
  double alpha;
  int axis;
  static constexpr int kMinRank = 2;
  static constexpr const char* kBackward = "_backward_linalg_gemm2";
  static constexpr const char* kForward = "_linalg_gemm2";
  static void Fields(Schema<Gemm2Param>& s) {
    TransposeFields(s, "'s matrices");
    s.Field("alpha", &Gemm2Param::alpha).Default(1.0).Describe("Multiplies the product.");
    s.Field("axis", &Gemm2Param::axis)
        .Default(-2)
        .Check([](int v) { return v == -2; }, "want -2; transpose the input instead")
        .Describe("The axis of the matrices' rows; the last but one.");
  }
  GemmSize Size(const Shape& a, const Shape& b) const {
    GemmSize size = MatrixPair::Size(a, b);
    size.alpha = alpha;
    return size;
  }
};
template <class P>
absl::StatusOr<bool> MatrixProductShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  if (!(*in)[0].rank_known() || !(*in)[1].rank_known()) return false;
  ASSIGN_OR_RETURN(const Shape y, attrs.param<P>().Result((*in)[0], (*in)[1]));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in) && AllKnown(*out);
}

template <class P>
struct Product {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const GemmSize size = attrs.param<P>().Size(in[0].shape, in[1].shape);
    return Gemm<D>(ctx, out[0].dtype, size, in[0].data, in[1].data, req[0], out[0].data);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return PrepareGemm(ctx, out[0].dtype, attrs.param<P>().Size(in[0].shape, in[1].shape), in[1].data, req[0]);
  }
};

// With A' = op(A), B' = op(B) and dC: dA' = alpha dC B'^T, dB' = alpha A'^T dC, each written the way A or B lies.
template <class P>
struct BackwardProduct {
  // One of the two products: its operands are dC and the other input, or that input and dC.
  struct Part {
    GemmSize size;
    bool dc_first;
  };
  static Part PartOf(const GemmSize& s, int i) {
    const auto part = [&s](int64_t m, int64_t n, int64_t k, bool transpose_x, bool transpose_y, bool dc_first) -> Part {
      return {{m, n, k, transpose_x, transpose_y, s.batch, s.alpha}, dc_first};
    };
    if (i == 0) {
      return s.transpose_a ? part(s.k, s.m, s.n, s.transpose_b, true, false) : part(s.m, s.k, s.n, false, !s.transpose_b, true);
    }
    return s.transpose_b ? part(s.n, s.k, s.m, true, s.transpose_a, true) : part(s.k, s.n, s.m, !s.transpose_a, false, false);
  }

  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const TBlob& dc = in[0];
    const GemmSize s = attrs.param<P>().Size(in[1].shape, in[2].shape);
    for (int i = 0; i < 2; ++i) {
      const auto [size, dc_first] = PartOf(s, i);
      const TBlob& other = in[2 - i];
      RETURN_IF_ERROR(
          Gemm<D>(ctx, dc.dtype, size, dc_first ? dc.data : other.data, dc_first ? other.data : dc.data, req[i], out[i].data));
    }
    return absl::OkStatus();
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    const GemmSize s = attrs.param<P>().Size(in[1].shape, in[2].shape);
    for (int i = 0; i < 2; ++i) {
      const auto [size, dc_first] = PartOf(s, i);
      RETURN_IF_ERROR(PrepareGemm(ctx, in[0].dtype, size, dc_first ? in[2 - i].data : in[0].data, req[i]));
    }
    return absl::OkStatus();
  }
};

template <class P>
Gradients MatrixProductBackward(const NodePtr& node, const NodeEntry& dc, const NodeEntry& a, const NodeEntry& b) {
  return OutputsOf(Call(P::kBackward, {dc, a, b}, node->attrs.dict));
}
template <class P>
Gradients MatrixProductGradient(const NodePtr& node, const Gradients& dc) {
  return MatrixProductBackward<P>(node, dc[0], node->inputs[0], node->inputs[1]);
}
template <class P>
Gradients MatrixProductGradientOfBackward(const NodePtr& node, const Gradients& g) {
  const NodeEntry &dc = node->inputs[0], &a = node->inputs[1], &b = node->inputs[2];
  return {Call(P::kForward, {g[0], b}, node->attrs.dict) + Call(P::kForward, {a, g[1]}, node->attrs.dict),
          MatrixProductBackward<P>(node, dc, a, g[1])[0], MatrixProductBackward<P>(node, dc, g[0], b)[1]};
}

#define PRODUCT(name, P)                                                    \
  GLUOND_REGISTER_OP(_backward_##name)                                      \
      .describe("The gradients of the product's inputs.")                   \
      .add_argument("out_grad", "NDArray", "dL/dy.")                        \
      .add_argument("lhs", "NDArray", "The first input.")                   \
      .add_argument("rhs", "NDArray", "The second input.")                  \
      .params<P>()                                                          \
      .set_num_inputs(3)                                                    \
      .set_num_outputs(2)                                                   \
      .infer(ShapesOfInputs<1>, SameFloatType)                              \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)            \
      .set_attr<FGradient>("FGradient", MatrixProductGradientOfBackward<P>) \
      .compute<BackwardProduct<P>>();                                       \
  GLUOND_REGISTER_OP_NAMED(name, P::kForward)                               \
      .params<P>()                                                          \
      .set_num_inputs(2)                                                    \
      .infer(MatrixProductShape<P>, SameFloatType)                          \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)            \
      .set_attr<FGradient>("FGradient", MatrixProductGradient<P>)           \
      .compute<Product<P>>()

PRODUCT(dot, DotParam)
    .describe(
        "The product over the last axis of lhs and the first of rhs (with transpose_a: the first of lhs; with "
        "transpose_b: the last of rhs). Two vectors give shape (1).")
    .add_argument("lhs", "NDArray", "Rank 1 or more.")
    .add_argument("rhs", "NDArray", "Rank 1 or more.");

PRODUCT(batch_dot, BatchDotParam)
    .describe("The product of each matrix of lhs with that of rhs.")
    .add_argument("lhs", "NDArray", "(batch..., m, k); with transpose_a, (batch..., k, m).")
    .add_argument("rhs", "NDArray", "(batch..., k, n); with transpose_b, (batch..., n, k).");

PRODUCT(linalg_gemm2, Gemm2Param)
    .describe("alpha times the product of the matrices in the last two axes.")
    .add_alias("linalg_gemm2")
    .add_argument("A", "NDArray", "(batch..., m, k); with transpose_a, (batch..., k, m).")
    .add_argument("B", "NDArray", "(batch..., k, n); with transpose_b, (batch..., n, k).");

}  // namespace
}  // namespace gluond::ops
