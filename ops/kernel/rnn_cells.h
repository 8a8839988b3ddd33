// The cells of recurrent layers: one step of one direction, elementwise, forward and backward. With the gates' sums
// a = W x + b_i + R h + b_h (rows of the batch, the gates' units side by side):
//   rnn:  h' = f(a)
//   lstm: gates i, f, g, o: c' = f c + i g, h' = o tanh(c'), with g = tanh(a_g) and sigmoids for the others
//   gru:  gates r, z, n: h' = (1 - z) n + z h, with n = tanh(W_n x + b_in + r (R_n h + b_hn))
// A sequence that has ended carries its state on, and its output is 0.

#ifndef OPS_KERNEL_RNN_CELLS_H_
#define OPS_KERNEL_RNN_CELLS_H_

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rnn.h"
#include BACKEND(rnn_cells.h)

namespace gluond::ops {

// A step, as both passes know it. Rows of y and dy lie y_stride apart, all others are dense.
template <class C>
struct RnnStep {
  int64_t units, y_stride, step;
  In<double> length;
  bool has_length;
  const C *h_before, *c_before;

  HOST_DEVICE bool Active(int64_t n) const { return !has_length || static_cast<double>(step) < length[n]; }
};

template <class C, RnnMode mode>
struct RnnStepForward : RnnStep<C> {
  // Exponentials take longer than memory does.
  static constexpr bool kIsBoundByArithmetic = mode != RnnMode::kRelu;

  const C *input_bias, *state_bias;
  const C* from_state;   // gru: R h.
  C *gates, *h, *c, *y;  // `gates`: the sums without the biases, then their values.
  C* new_from_state;     // gru: R_n h + b_hn.

  HOST_DEVICE void Hold(int64_t n, int64_t j) const {
    const int64_t i = n * this->units + j;
    constexpr int64_t kGates = mode == RnnMode::kLstm ? 4 : mode == RnnMode::kGru ? 3 : 1;
    for (int64_t k = 0; k < kGates; ++k) gates[(n * kGates + k) * this->units + j] = 0;
    h[i] = this->h_before[i];
    y[n * this->y_stride + j] = 0;
    if constexpr (mode == RnnMode::kLstm) c[i] = this->c_before[i];
    if constexpr (mode == RnnMode::kGru) new_from_state[i] = 0;
  }

  HOST_DEVICE void operator()(int64_t n, int64_t j) const {
    const int64_t units = this->units, i = n * units + j;
    C out;
    if constexpr (mode == RnnMode::kLstm) {
      const int64_t at = 4 * n * units + j;
      const auto sum = [&](int64_t k) { return gates[at + k * units] + input_bias[k * units + j] + state_bias[k * units + j]; };
      const C in = math::Sigmoid(sum(0)), forget = math::Sigmoid(sum(1)), g = math::Tanh(sum(2));
      const C o = math::Sigmoid(sum(3)), cell = forget * this->c_before[i] + in * g;
      gates[at] = in;
      gates[at + units] = forget;
      gates[at + 2 * units] = g;
      gates[at + 3 * units] = o;
      c[i] = cell;
      out = o * math::Tanh(cell);
    } else if constexpr (mode == RnnMode::kGru) {
      const int64_t at = 3 * n * units + j;
      const auto of_input = [&](int64_t k) { return gates[at + k * units] + input_bias[k * units + j]; };
      const auto of_state = [&](int64_t k) { return from_state[at + k * units] + state_bias[k * units + j]; };
      const C r = math::Sigmoid(of_input(0) + of_state(0)), z = math::Sigmoid(of_input(1) + of_state(1));
      const C through = of_state(2), fresh = math::Tanh(of_input(2) + r * through);
      gates[at] = r;
      gates[at + units] = z;
      gates[at + 2 * units] = fresh;
      new_from_state[i] = through;
      out = (1 - z) * fresh + z * this->h_before[i];
    } else {
      const C sum = gates[i] + input_bias[j] + state_bias[j];
      out = mode == RnnMode::kTanh ? math::Tanh(sum) : sum > 0 ? sum : sum != sum ? sum : C(0);
      gates[i] = out;
    }
    h[i] = out;
    y[n * this->y_stride + j] = out;
  }
};

// `dh`: the gradient of the step's state without dy, then the part of the gradient of the state before it that does not
// go through R.
template <class C, RnnMode mode>
struct RnnStepBackward : RnnStep<C> {
  static constexpr bool kIsBoundByArithmetic = false;

  const C *gates, *c, *new_from_state, *dy;
  C *dh, *dc, *dgates;
  C* dstate_gates;  // gru: the gradients of R h; those of W x are in dgates. The others: dgates.

  HOST_DEVICE void Hold(int64_t n, int64_t j) const {
    constexpr int64_t kGates = mode == RnnMode::kLstm ? 4 : mode == RnnMode::kGru ? 3 : 1;
    for (int64_t k = 0; k < kGates; ++k) {
      dgates[(n * kGates + k) * this->units + j] = 0;
      dstate_gates[(n * kGates + k) * this->units + j] = 0;
    }
  }

  HOST_DEVICE void operator()(int64_t n, int64_t j) const {
    const int64_t units = this->units, i = n * units + j;
    const C d = dh[i] + dy[n * this->y_stride + j];
    if constexpr (mode == RnnMode::kLstm) {
      const int64_t at = 4 * n * units + j;
      const C in = gates[at], forget = gates[at + units], g = gates[at + 2 * units], o = gates[at + 3 * units];
      const C t = math::Tanh(c[i]), cell = dc[i] + d * o * (1 - t * t);
      dgates[at] = cell * g * in * (1 - in);
      dgates[at + units] = cell * this->c_before[i] * forget * (1 - forget);
      dgates[at + 2 * units] = cell * in * (1 - g * g);
      dgates[at + 3 * units] = d * t * o * (1 - o);
      dc[i] = cell * forget;
      dh[i] = 0;
    } else if constexpr (mode == RnnMode::kGru) {
      const int64_t at = 3 * n * units + j;
      const C r = gates[at], z = gates[at + units], fresh = gates[at + 2 * units];
      const C dn = d * (1 - z) * (1 - fresh * fresh), dr = dn * new_from_state[i] * r * (1 - r);
      const C dz = d * (this->h_before[i] - fresh) * z * (1 - z);
      dgates[at] = dstate_gates[at] = dr;
      dgates[at + units] = dstate_gates[at + units] = dz;
      dgates[at + 2 * units] = dn;
      dstate_gates[at + 2 * units] = dn * r;
      dh[i] = d * z;
    } else {
      const C h = gates[i];
      dgates[i] = mode == RnnMode::kTanh ? d * (1 - h * h) : h > 0 ? d : C(0);
      dh[i] = 0;
    }
  }
};

// f(n, j), or Hold, for every unit j of every sequence n.
template <class D, class F>
absl::Status ForEachUnit(const OpContext& ctx, int64_t batch, const F& f) {
  return ForEachUnitOn(D(), ctx, batch, f);
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_RNN_CELLS_H_
