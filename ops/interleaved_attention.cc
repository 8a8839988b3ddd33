// _contrib_interleaved_matmul_selfatt_qk and _valatt are the two matrix products of an attention of several heads. One
// tensor (length, batch, heads * 3 * size) holds the query, the key and the value of each head beside each other:
//   qk:     scores = Q K^T / sqrt(size) for each sample and head, (batch * heads, length, length),
//   valatt: attention V, put together again as (length, batch, heads * size).
// The gradients are written in operators, so that they have gradients, too.

#include <cmath>

#include "ops/kernel/gemm.h"
#include "ops/kernel/stage.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum Projection { kQuery, kKey, kValues };
constexpr int64_t kParts = 3;

struct InterleavedParam : Param<InterleavedParam> {
  int64_t heads;
  static void Fields(Schema<InterleavedParam>& s) {
    s.Field("heads", &InterleavedParam::heads).Range(1, int64_t{1} << 31).Describe("Attention heads.");
  }
};

struct HeadSize {
  int64_t length, batch, heads, size;
  HeadSize(int64_t heads, const Shape& x) : length(x[0]), batch(x[1]), heads(heads), size(x[2] / heads / kParts) {}
  int64_t matrix() const { return length * size; }
  int64_t matrices() const { return batch * heads; }
  Shape ByHead() const { return {batch, heads, length, size}; }
  // The strides of (batch, heads, length, size) in (length, batch, heads, ..., size), of `parts` matrices beside each other.
  void InterleavedStrides(int64_t parts, int64_t* strides) const {
    strides[0] = heads * parts * size;
    strides[1] = parts * size;
    strides[2] = batch * heads * parts * size;
    strides[3] = 1;
  }

  GemmSize Scores() const {
    return {length, length, size, false, true, matrices(), size > 0 ? 1 / std::sqrt(static_cast<double>(size)) : 1};
  }
  GemmSize WeightedValues() const { return {length, size, length, false, false, matrices()}; }
};

// One part of all heads, as matrices that follow one another: (batch, heads, length, size). Temporary space.
template <class D>
absl::StatusOr<TBlob> TakePart(const OpContext& ctx, const HeadSize& s, Projection part, const TBlob& x) {
  ASSIGN_OR_RETURN(void* const space, ctx.scratch->Get(s.matrices() * s.matrix() * SizeOf(x.dtype)));
  const TBlob y = {space, s.ByHead(), x.dtype, x.device};
  StridedCopy copy{.dims = y.shape, .x_offset = part * s.size};
  s.InterleavedStrides(kParts, copy.x_strides);
  DenseStrides(y.shape, copy.y_strides);
  RETURN_IF_ERROR(CopyStrided<D>(ctx, copy, x, kWriteTo, y));
  return y;
}

struct QueryKey {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const HeadSize s(attrs.param<InterleavedParam>().heads, in[0].shape);
    ASSIGN_OR_RETURN(const TBlob query, TakePart<D>(ctx, s, kQuery, in[0]));
    ASSIGN_OR_RETURN(const TBlob key, TakePart<D>(ctx, s, kKey, in[0]));
    return Gemm<D>(ctx, out[0].dtype, s.Scores(), query.data, key.data, req[0], out[0].data);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return PrepareGemm(ctx, out[0].dtype, HeadSize(attrs.param<InterleavedParam>().heads, in[0].shape).Scores(), nullptr, req[0]);
  }
};

struct ValueAttention {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const HeadSize s(attrs.param<InterleavedParam>().heads, in[0].shape);
    ASSIGN_OR_RETURN(const TBlob value, TakePart<D>(ctx, s, kValues, in[0]));
    ASSIGN_OR_RETURN(void* const space, ctx.scratch->Get(value.bytes()));
    const TBlob by_head = {space, s.ByHead(), value.dtype, value.device};
    RETURN_IF_ERROR(Gemm<D>(ctx, value.dtype, s.WeightedValues(), in[1].data, value.data, kWriteTo, by_head.data));
    StridedCopy copy{.dims = by_head.shape};
    DenseStrides(by_head.shape, copy.x_strides);
    s.InterleavedStrides(1, copy.y_strides);
    return CopyStrided<D>(ctx, copy, by_head, req[0], out[0]);
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    if (req[0] == kNullOp) return absl::OkStatus();
    return PrepareGemm(ctx, in[0].dtype, HeadSize(attrs.param<InterleavedParam>().heads, in[0].shape).WeightedValues(), nullptr,
                       kWriteTo);
  }
};

// The gradients' words: parts of an interleaved tensor as matrices (batch * heads, length, size), and back.
struct Heads {
  std::string count;
  explicit Heads(const NodePtr& node) : count(absl::StrCat(node->param<InterleavedParam>().heads)) {}

  NodeEntry Take(const NodeEntry& x, Projection part) const {
    NodeEntry y = Reshaped(Reshaped(x, absl::StrCat("(0, 0, -4, ", count, ", -1)")), "(0, 0, 0, -4, 3, -1)");
    y = Call("slice_axis", {y}, {{"axis", "3"}, {"begin", absl::StrCat(part)}, {"end", absl::StrCat(part + 1)}});
    return Reshaped(Call("transpose", {y}, {{"axes", "(1, 2, 0, 3, 4)"}}), "(-3, -3, 0)");
  }
  // The same of a tensor (length, batch, heads * size), which has one part.
  NodeEntry Split(const NodeEntry& y) const {
    const NodeEntry split = Reshaped(y, absl::StrCat("(0, 0, -4, ", count, ", -1)"));
    return Reshaped(Call("transpose", {split}, {{"axes", "(1, 2, 0, 3)"}}), "(-3, 0, 0)");
  }
  NodeEntry Join(const NodeEntry& query, const NodeEntry& key, const NodeEntry& value) const {
    std::vector<NodeEntry> parts = {query, key, value};
    for (NodeEntry& part : parts) {
      part = Call("transpose", {Reshaped(part, absl::StrCat("(-4, -1, ", count, ", 0, 0)"))}, {{"axes", "(2, 0, 1, 3)"}});
    }
    const NodeEntry all = Call("stack", std::move(parts), {{"axis", "3"}, {"num_args", "3"}});
    return Reshaped(Reshaped(all, "(0, 0, -3, 0)"), "(0, 0, -3)");
  }

 private:
  static NodeEntry Reshaped(const NodeEntry& x, std::string shape) { return Call("Reshape", {x}, {{"shape", std::move(shape)}}); }
};

// dQ = dS K / sqrt(size), dK = dS^T Q / sqrt(size).
Gradients QueryKeyGradient(const NodePtr& node, const Gradients& ds) {
  const Heads heads(node);
  const NodeEntry query = heads.Take(node->inputs[0], kQuery), key = heads.Take(node->inputs[0], kKey);
  const NodeEntry of_query = Call("_contrib_div_sqrt_dim", {Call("batch_dot", {ds[0], key})});
  const NodeEntry of_key = Call("_contrib_div_sqrt_dim", {Call("batch_dot", {ds[0], query}, {{"transpose_a", "True"}})});
  return {heads.Join(of_query, of_key, Call("zeros_like", {query}))};
}

// dA = dY V^T, dV = A^T dY.
Gradients ValueAttentionGradient(const NodePtr& node, const Gradients& dy) {
  const Heads heads(node);
  const NodeEntry value = heads.Take(node->inputs[0], kValues), of_y = heads.Split(dy[0]);
  const NodeEntry of_value = Call("batch_dot", {node->inputs[1], of_y}, {{"transpose_a", "True"}});
  const NodeEntry zeros = Call("zeros_like", {value});
  return {heads.Join(zeros, zeros, of_value), Call("batch_dot", {of_y, value}, {{"transpose_b", "True"}})};
}

// The number of heads, if the interleaved tensor has them.
absl::StatusOr<int64_t> CheckedHeads(const NodeAttrs& attrs, ShapeVector* in) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(3));
  const int64_t heads = attrs.param<InterleavedParam>().heads;
  const Shape& x = (*in)[0];
  if (x[2] < 0 || x[2] % (heads * kParts) == 0) return heads;
  return absl::InvalidArgumentError(absl::StrCat("input 0 'queries_keys_values' has shape ", x.ToString(),
                                                 ", expected a multiple of ", heads * kParts,
                                                 " as its last axis: parameter 'heads' times query, key and value"));
}

absl::StatusOr<bool> QueryKeyShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const int64_t heads, CheckedHeads(attrs, in));
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  RETURN_IF_ERROR(Shape::FromDims({x[1], heads, x[0], x[0]}).status());
  SHAPE_ASSIGN_CHECK(out, 0, Shape({x[1] * heads, x[0], x[0]}));
  return true;
}

absl::StatusOr<bool> ValueAttentionShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const int64_t heads, CheckedHeads(attrs, in));
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  RETURN_IF_ERROR(Shape::FromDims({x[1], heads, x[0], x[0]}).status());
  SHAPE_ASSIGN_CHECK(in, 1, Shape({x[1] * heads, x[0], x[0]}));
  SHAPE_ASSIGN_CHECK(out, 0, Shape({x[0], x[1], x[2] / kParts}));
  return true;
}

GLUOND_REGISTER_OP(_contrib_interleaved_matmul_selfatt_qk)
    .describe("Scores of self-attention, Q K^T / sqrt(size) of each head: (batch * heads, length, length).")
    .add_argument("queries_keys_values", "NDArray",
                  "(length, batch, heads * 3 * size): the query, key and value of each head beside each other.")
    .params<InterleavedParam>()
    .infer(QueryKeyShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", QueryKeyGradient)
    .compute<QueryKey>();

GLUOND_REGISTER_OP(_contrib_interleaved_matmul_selfatt_valatt)
    .describe("The values of self-attention, weighted by the attention: (length, batch, heads * size).")
    .add_argument("queries_keys_values", "NDArray",
                  "(length, batch, heads * 3 * size): the query, key and value of each head beside each other.")
    .add_argument("attention", "NDArray", "(batch * heads, length, length): a row of weights for each place.")
    .params<InterleavedParam>()
    .set_num_inputs(2)
    .infer(ValueAttentionShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", ValueAttentionGradient)
    .compute<ValueAttention>();

}  // namespace
}  // namespace gluond::ops
