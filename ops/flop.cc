// FFlop of the operators that compute products: what each costs follows from the shapes alone. Apart from the operators' own
// files: programs run without it.

#include "engine/core/flop.h"

#include <cmath>
#include <cstdint>

#include "engine/core/op.h"

namespace gluond::ops {
namespace {

using FlopShapes = absl::Span<const Shape>;

double Elements(const Shape& shape) { return static_cast<double>(shape.Size()); }

// So many of the first `most` outputs are wanted.
double Wanted(FlopShapes out, size_t most) {
  double wanted = 0;
  for (const Shape& shape : out.subspan(0, most)) wanted += shape.rank_known() ? 1 : 0;
  return wanted;
}

// Each element of `from` meets the part of the weight that is one place along its first axis.
double WithWeight(const Shape& from, const Shape& weight) {
  return weight[0] == 0 ? 0 : 2 * Elements(from) * Elements(weight) / static_cast<double>(weight[0]);
}

double ConvolutionFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) { return Wanted(out, 1) * WithWeight(out[0], in[1]); }
double DeconvolutionFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) { return Wanted(out, 1) * WithWeight(in[0], in[1]); }
// From (dy, x, w) to dx and dw, and to what is no product.
double BackwardConvolutionFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return Wanted(out, 2) * WithWeight(in[0], in[2]);
}
double BackwardDeconvolutionFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return Wanted(out, 2) * WithWeight(in[1], in[2]);
}

// Matrices (m, k), (k, n) and (m, n), each `matrices` times and in any layout: 2 m n k each time.
double MatricesFlop(const Shape& a, const Shape& b, const Shape& y, double matrices) {
  return matrices == 0 ? 0 : 2 * std::round(std::sqrt(Elements(a) * Elements(b) * Elements(y) / matrices));
}
double BatchOf(const Shape& matrices) { return static_cast<double>(matrices.Size(0, matrices.ndim() - 2)); }

double DotFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return out[0].rank_known() ? MatricesFlop(in[0], in[1], out[0], 1) : 0;
}
double BatchDotFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return out[0].rank_known() ? MatricesFlop(in[0], in[1], out[0], BatchOf(in[0])) : 0;
}
double BackwardDotFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return Wanted(out, 2) * MatricesFlop(in[0], in[1], in[2], 1);
}
double BackwardBatchDotFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return Wanted(out, 2) * MatricesFlop(in[0], in[1], in[2], BatchOf(in[0]));
}

// Attention of each head: scores (batch * heads, length, length) and the interleaved (length, batch, heads * 3 * size).
double AttentionFlop(const Shape& interleaved, const Shape& scores) {
  const double heads_and_batch = static_cast<double>(scores[0]);
  return heads_and_batch == 0 ? 0
                              : 2 * Elements(scores) * static_cast<double>(interleaved[1] * interleaved[2]) / 3 / heads_and_batch;
}
double ScoresFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) {
  return out[0].rank_known() ? AttentionFlop(in[0], out[0]) : 0;
}
double ValuesFlop(const NodeAttrs&, FlopShapes in, FlopShapes out) { return out[0].rank_known() ? AttentionFlop(in[0], in[1]) : 0; }

// In each step, each row of the batch meets all parameters but the two biases of each gate. The gates' number follows from the
// number of parameters.
double RecurrentFlop(FlopShapes in) {
  const Shape &x = in[0], &parameters = in[1], &state = in[2];
  const auto input = static_cast<double>(x[2]), units = static_cast<double>(state[2]), layers = static_cast<double>(state[0]);
  if (units == 0 || layers == 0) return 0;
  // With d directions, the first d layers read the input, and the others d times the units.
  const auto gates_with = [&](double directions) {
    const double others = layers - directions;
    return Elements(parameters) / (units * (directions * (input + units + 2) + others * (directions * units + units + 2)));
  };
  double gates = gates_with(1);
  if (gates != 1 && gates != 3 && gates != 4) gates = gates_with(2);
  return 2 * static_cast<double>(x[0] * x[1]) * (Elements(parameters) - 2 * layers * gates * units);
}
double RnnFlop(const NodeAttrs&, FlopShapes in, FlopShapes) { return RecurrentFlop(in); }
double BackwardRnnFlop(const NodeAttrs&, FlopShapes in, FlopShapes) { return 2 * RecurrentFlop(in); }

#define FLOP(name, flop) GLUOND_REGISTER_OP(name).set_attr<FFlop>("FFlop", flop)

FLOP(Convolution, ConvolutionFlop);
FLOP(_blocked_Convolution, ConvolutionFlop);
FLOP(_backward_Convolution, BackwardConvolutionFlop);
FLOP(Deconvolution, DeconvolutionFlop);
FLOP(_backward_Deconvolution, BackwardDeconvolutionFlop);
FLOP(FullyConnected, ConvolutionFlop);
FLOP(_backward_FullyConnected, BackwardConvolutionFlop);
FLOP(dot, DotFlop);
FLOP(_backward_dot, BackwardDotFlop);
FLOP(batch_dot, BatchDotFlop);
FLOP(_backward_batch_dot, BackwardBatchDotFlop);
FLOP(_linalg_gemm2, BatchDotFlop);
FLOP(_backward_linalg_gemm2, BackwardBatchDotFlop);
FLOP(_contrib_interleaved_matmul_selfatt_qk, ScoresFlop);
FLOP(_contrib_interleaved_matmul_selfatt_valatt, ValuesFlop);
FLOP(RNN, RnnFlop);
FLOP(_backward_RNN, BackwardRnnFlop);

}  // namespace
}  // namespace gluond::ops
