// Recurrent layers over a sequence, forward and backward, on either device: products by Gemm, everything else by the
// cells of rnn_cells.h. 16-bit tensors are computed in float32.
//
// The forward pass keeps a `reserve` for the backward one: a vector of float or double, laid out by
// RnnSize. `parameters` has MXNet's layout: for each layer and direction the weights of the input and those of the
// state, and after all weights, in the same order, their biases.

#ifndef OPS_KERNEL_RNN_H_
#define OPS_KERNEL_RNN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "ops/kernel/gemm.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {

enum class RnnMode { kRelu, kTanh, kLstm, kGru };

struct RnnSize {
  RnnMode mode;
  int64_t steps, batch, input, units, layers, directions;
  double p;  // The dropout between layers.

  bool lstm() const { return mode == RnnMode::kLstm; }
  int64_t gates() const { return units * (lstm() ? 4 : mode == RnnMode::kGru ? 3 : 1); }
  int64_t inputs(int64_t layer) const { return layer == 0 ? input : directions * units; }
  int64_t rows() const { return steps * batch; }
  int64_t state() const { return batch * units; }
  int64_t outputs() const { return rows() * directions * units; }  // One layer's.

  // Where the weights and the biases of a layer's direction begin in `parameters`.
  int64_t WeightsAt(int64_t layer, int64_t direction) const {
    const int64_t later = layer > 0 ? layer - 1 : 0;
    const int64_t before = layer > 0 ? directions * (input + units) : 0;
    return gates() * (before + later * directions * (inputs(1) + units) + direction * (inputs(layer) + units));
  }
  int64_t BiasesAt(int64_t layer, int64_t direction) const {
    return WeightsAt(layers, 0) + 2 * gates() * (layer * directions + direction);
  }
  int64_t parameters() const { return BiasesAt(layers, 0); }

  // The reserve of one direction: gates; states, steps + 1 of them; cells likewise (lstm) or the state's part of the
  // new gate (gru).
  int64_t states() const { return (steps + 1) * state(); }
  int64_t direction_reserve() const {
    return rows() * gates() + states() + (lstm() ? states() : mode == RnnMode::kGru ? rows() * units : 0);
  }
  // Before them all lie the outputs of all layers but the last, as the next layer sees them, and, with dropout, the
  // masks that they were multiplied by.
  int64_t OutputAt(int64_t layer) const { return layer * outputs(); }
  int64_t MaskAt(int64_t layer) const { return (layers - 1 + layer) * outputs(); }
  int64_t DirectionAt(int64_t layer, int64_t direction) const {
    return (layers - 1) * (p > 0 ? 2 : 1) * outputs() + (layer * directions + direction) * direction_reserve();
  }
  int64_t reserve() const { return DirectionAt(layers, 0); }

  // The products of a layer: the input's and the state's parts of the gates; and the gradients of the input, of a state, and of
  // the weights of both.
  GemmSize GatesOfInput(int64_t layer) const { return {.m = rows(), .n = gates(), .k = inputs(layer), .transpose_b = true}; }
  GemmSize GatesOfState() const { return {.m = batch, .n = gates(), .k = units, .transpose_b = true}; }
  GemmSize OfState() const { return {.m = batch, .n = units, .k = gates()}; }
  GemmSize OfInput(int64_t layer) const { return {.m = rows(), .n = inputs(layer), .k = gates()}; }
  GemmSize OfInputWeights(int64_t layer) const { return {.m = gates(), .n = inputs(layer), .k = rows(), .transpose_a = true}; }
  GemmSize OfStateWeights() const { return {.m = gates(), .n = units, .k = rows(), .transpose_a = true}; }
};

// A tensor that is not there has no data.
struct RnnInputs {
  TBlob data, parameters, state, cell, length;
};
template <class D>
absl::Status RnnForward(const OpContext& ctx, const RnnSize& size, const RnnInputs& in, const Target& y, const Target& state,
                        const Target& cell, const Target& reserve);

// `dstate` and `dcell`, the gradients of the last states, may have no data.
template <class D>
absl::Status RnnBackward(const OpContext& ctx, const RnnSize& size, const RnnInputs& in, const TBlob& reserve, const TBlob& dy,
                         const TBlob& dstate, const TBlob& dcell, const Target& dx, const Target& dparameters,
                         const Target& dstate_in, const Target& dcell_in);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_RNN_H_
