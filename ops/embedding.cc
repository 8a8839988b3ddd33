// Embedding: rows of a table, by number. Numbers beyond the table take its first or last row, as MXNet does.

#include "ops/kernel/gather.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct EmbeddingParam : Param<EmbeddingParam> {
  int64_t input_dim, output_dim;
  DType dtype;
  bool sparse_grad;
  static void Fields(Schema<EmbeddingParam>& s) {
    constexpr int64_t kMax = int64_t{1} << 40;
    s.Field("input_dim", &EmbeddingParam::input_dim).Range(1, kMax).Describe("Rows of the table.");
    s.Field("output_dim", &EmbeddingParam::output_dim).Range(1, kMax).Describe("Columns of the table.");
    s.Field("dtype", &EmbeddingParam::dtype).Default(DType::kFloat32).Describe("The table's type, where nothing else says it.");
    s.Field("sparse_grad", &EmbeddingParam::sparse_grad).Default(false).Describe("Accepted for MXNet's sake: gradients are dense.");
  }
};

// The copy of `count` rows of a table of shape `table`.
GatherGeometry EmbeddingRowsOf(const Shape& table, int64_t count) { return {1, table[0], table[1], count}; }

struct Embedding {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return Gather<D>(ctx, EmbeddingRowsOf(in[1].shape, in[0].Size()), kClip, in[1], in[0], req[0], out[0]);
  }
};

struct BackwardEmbedding {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return ScatterAdd<D>(ctx, EmbeddingRowsOf(out[0].shape, in[1].Size()), kClip, in[0], in[1], req[0], out[0]);
  }
};

Shape TableShape(const NodeAttrs& attrs) {
  const auto& param = attrs.param<EmbeddingParam>();
  return {param.input_dim, param.output_dim};
}

absl::StatusOr<bool> EmbeddingShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 1, TableShape(attrs));
  Shape y = (*in)[0];
  if (!y.rank_known()) return false;
  if (y.ndim() >= Shape::kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has rank ", y.ndim(), ", expected at most ", Shape::kMaxRank - 1));
  }
  y.Append(attrs.param<EmbeddingParam>().output_dim);
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> EmbeddingType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(in, 1, (*out)[0]);
  if ((*in)[1] == DType::kUnknown) (*in)[1] = attrs.param<EmbeddingParam>().dtype;
  TYPE_ASSIGN_CHECK(out, 0, (*in)[1]);
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(Embedding)
    .describe(
        "y[...] = weight[data[...]]: a row of the table for each number; numbers beyond it take its first or last "
        "row.")
    .add_argument("data", "NDArray", "Row numbers, of any shape and type.")
    .add_argument("weight", "NDArray", "The table: (input_dim, output_dim).")
    .params<EmbeddingParam>()
    .set_num_inputs(2)
    .infer(EmbeddingShape, EmbeddingType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {{}, Call("_backward_Embedding", {dy[0], node->inputs[0]}, node->attrs.dict)};
                         })
    .compute<Embedding>();

GLUOND_REGISTER_OP(_backward_Embedding)
    .describe("The gradient of Embedding's table: the rows of dy, each added to the row that it came from.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "Row numbers.")
    .params<EmbeddingParam>()
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(out, 0, TableShape(attrs));
                             return AllKnown(*in);
                           })
    .set_attr<FInferType>("FInferType", TypesOfInputs<0>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& g) -> Gradients {
                           return {Call("Embedding", {node->inputs[1], g[0]}, node->attrs.dict), {}};
                         })
    .compute<BackwardEmbedding>();

}  // namespace
}  // namespace gluond::ops
