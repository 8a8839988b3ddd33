// row_sums: y[i] = scale sum_j x[i, j], with an attribute, a rule of shapes, and a gradient that is a graph of operators.

#include "gluond_op.hpp"

namespace {

using namespace gluond_op;  // NOLINT: these words are all that there is here.

struct RowSumsParam {
  double scale;
  static void Fields(Schema<RowSumsParam>& s) {
    s.Field("scale", &RowSumsParam::scale).Default("1").Above(0).Describe("Multiplies each sum.");
  }
};

Status RowSumsShape(const NodeAttrs&, Shapes* in, Shapes* out) {
  const Shape& x = (*in)[0];
  if (!x.known) return Ok();  // The rule is asked again when more is known.
  if (x.size() != 2) return InvalidArgument("data has " + std::to_string(x.size()) + " axes, expected 2");
  (*out)[0] = {x[0]};
  return Ok();
}

template <class T>
void RowSumsIn(const OpContext& ctx, T scale, const gluond_tensor& x, int32_t req, const gluond_tensor& y) {
  const int64_t columns = x.dims[1];
  const T* const from = static_cast<const T*>(x.data);
  T* const to = static_cast<T*>(y.data);
  ctx.ParallelFor(y.size, 1 + 32768 / (columns + 1), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += from[i * columns + j];
      to[i] = scale * sum + (req == GLUOND_ADD_TO ? to[i] : 0);
    }
  });
}

struct RowSums {
  static constexpr std::initializer_list<int32_t> kTypes = {GLUOND_DTYPE_FLOAT32, GLUOND_DTYPE_FLOAT64};
  static Status Run(const NodeAttrs& attrs, const OpContext& ctx, Tensors x, Requests req, Tensors y) {
    if (req[0] == GLUOND_NULL_OP) return Ok();
    const double scale = attrs.param<RowSumsParam>().scale;
    x[0].dtype == GLUOND_DTYPE_FLOAT32 ? RowSumsIn<float>(ctx, static_cast<float>(scale), x[0], req[0], y[0])
                                       : RowSumsIn<double>(ctx, scale, x[0], req[0], y[0]);
    return Ok();
  }
};

// dx[i, j] = scale dy[i].
Entries RowSumsGradient(Graph& g) {
  const Entry dy = g.Call("_mul_scalar", {g.head(0)}, {{"scalar", g.text(0)}});
  return {g.Call("broadcast_like", {g.Call("expand_dims", {dy}, {{"axis", "1"}}), g.input(0)})};
}

GLUOND_REGISTER_OP(row_sums)
    .describe("y[i] = scale sum_j x[i, j].")
    .add_argument("data", "NDArray", "A matrix.")
    .params<RowSumsParam>()
    .set_attr<FInferShape>("FInferShape", RowSumsShape)
    .set_attr<FGradient>("FGradient", RowSumsGradient)
    .compute<RowSums>();

}  // namespace

GLUOND_LIBRARY_OF_OPERATORS();
