#include "ops/kernel/rnn.h"

#include "engine/core/status_macros.h"
#include "ops/kernel/bias.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/rnn_cells.h"
#include "ops/kernel/stage.h"
#include "ops/kernel/unit_product.h"

namespace gluond::ops {
namespace {

// One direction's part of the reserve. Slot s of `h` (and `c`) is a state: slot t holds the state before step t,
// slot t + 1 the state after the step. The reverse direction has the two the other way round.
template <class C>
struct Direction {
  bool reverse;
  int64_t state, steps;
  C *gates, *h, *extra;  // `extra`: c, or the state's part of the new gate.

  Direction(const RnnSize& s, C* reserve, int64_t layer, int64_t direction)
      : reverse(direction == 1),
        state(s.state()),
        steps(s.steps),
        gates(reserve + s.DirectionAt(layer, direction)),
        h(gates + s.rows() * s.gates()),
        extra(h + s.states()) {}

  int64_t before(int64_t t) const { return (reverse ? t + 1 : t) * state; }
  int64_t after(int64_t t) const { return (reverse ? t : t + 1) * state; }
  int64_t first() const { return reverse ? steps * state : 0; }
  int64_t last() const { return reverse ? 0 : steps * state; }
  int64_t StepNumber(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

template <class C>
struct Weights {
  C *input, *state, *input_bias, *state_bias;
  Weights(const RnnSize& s, C* parameters, int64_t layer, int64_t direction)
      : input(parameters + s.WeightsAt(layer, direction)),
        state(input + s.gates() * s.inputs(layer)),
        input_bias(parameters + s.BiasesAt(layer, direction)),
        state_bias(input_bias + s.gates()) {}
};

template <RnnMode value>
struct ModeConstant {
  static constexpr RnnMode kMode = value;
};
template <class Run>
absl::Status WithMode(RnnMode mode, const Run& run) {
  switch (mode) {
    case RnnMode::kRelu: return run(ModeConstant<RnnMode::kRelu>());
    case RnnMode::kTanh: return run(ModeConstant<RnnMode::kTanh>());
    case RnnMode::kLstm: return run(ModeConstant<RnnMode::kLstm>());
    default: return run(ModeConstant<RnnMode::kGru>());
  }
}

template <class C>
void SetStep(const RnnSize& s, const RnnInputs& in, const Direction<C>& d, int64_t t, RnnStep<C>* step) {
  step->units = s.units;
  step->y_stride = s.directions * s.units;
  step->step = t;
  step->has_length = in.length.data != nullptr;
  if (step->has_length) step->length = In<double>(in.length);
  step->h_before = d.h + d.before(t);
  step->c_before = s.lstm() ? d.extra + d.before(t) : nullptr;
}

// All steps of one direction of one layer: x to y, which has a column block for each direction.
template <class D, class C>
absl::Status ForwardDirection(const OpContext& ctx, const RnnSize& s, const RnnInputs& in, int64_t layer, const Direction<C>& d,
                              const C* parameters, UnitProduct<D, C>* by_state, const C* x, C* from_state, C* y) {
  const int64_t gates = s.gates();
  const Weights<const C> w(s, parameters, layer, d.reverse ? 1 : 0);
  UnitProduct<D, C> by_input(s.GatesOfInput(layer), s.units);
  RETURN_IF_ERROR(by_input.Load(ctx, parameters, w.input - parameters, 1));
  RETURN_IF_ERROR(by_input.Multiply(ctx, x, kWriteTo, d.gates));
  RETURN_IF_ERROR(by_state->Load(ctx, parameters, w.state - parameters, s.steps));
  return WithMode(s.mode, [&](auto mode) -> absl::Status {
    constexpr RnnMode kMode = decltype(mode)::kMode;
    for (int64_t i = 0; i < s.steps; ++i) {
      const int64_t t = d.StepNumber(i);
      RnnStepForward<C, kMode> step{};
      SetStep(s, in, d, t, &step);
      step.input_bias = w.input_bias;
      step.state_bias = w.state_bias;
      step.from_state = from_state;
      step.gates = d.gates + t * s.batch * gates;
      step.h = d.h + d.after(t);
      step.c = s.lstm() ? d.extra + d.after(t) : nullptr;
      step.y = y + t * s.batch * step.y_stride;
      step.new_from_state = d.extra + t * s.state();
      const bool apart = kMode == RnnMode::kGru;
      RETURN_IF_ERROR(by_state->Run(ctx, step.h_before, apart ? kWriteTo : kAddTo, apart ? from_state : step.gates, step));
    }
    return absl::OkStatus();
  });
}

// Element i of a layer's mask is word `first` + i of the node's random stream.
template <class C>
struct DrawMask {
  Philox random;
  int64_t first;
  double p;
  C *mask, *y;
  HOST_DEVICE void operator()(int64_t i) const {
    const float u = Philox::ToUniform(random.Word(static_cast<uint64_t>(first + i)));
    mask[i] = u < static_cast<float>(p) ? C(0) : static_cast<C>(1 / (1 - p));
    y[i] *= mask[i];
  }
};

struct Product {
  template <class C>
  HOST_DEVICE C operator()(C a, C b) const {
    return a * b;
  }
};

template <class D>
absl::Status Drop(const OpContext& ctx, const RnnSize& s, int64_t layer, const TBlob& y, const TBlob& mask) {
  if (!ctx.is_train) return Fill<D>(ctx, 1, kWriteTo, mask);
  return DispatchReal(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<D>(ctx, s.outputs(),
                      DrawMask<C>{ctx.random, layer * s.outputs(), s.p, static_cast<C*>(mask.data), static_cast<C*>(y.data)});
  });
}

template <class D, class C>
absl::Status Forward(const OpContext& ctx, const RnnSize& s, const RnnInputs& in, const Target& y_out, const Target& state_out,
                     const Target& cell_out, const Target& reserve_out) {
  Stage<D, C> y_stage, reserve_stage;
  RETURN_IF_ERROR(y_stage.Begin(ctx, y_out, true));
  RETURN_IF_ERROR(reserve_stage.Begin(ctx, reserve_out, true));
  C* reserve = reserve_stage.data;
  ASSIGN_OR_RETURN(const C* x, (As<D, C>(ctx, in.data)));
  ASSIGN_OR_RETURN(const C* parameters, (As<D, C>(ctx, in.parameters)));
  C* from_state = nullptr;
  if (s.mode == RnnMode::kGru) {
    ASSIGN_OR_RETURN(from_state, Space<C>(ctx, s.batch * s.gates()));
  }
  UnitProduct<D, C> by_state(s.GatesOfState(), s.units);

  for (int64_t layer = 0; layer < s.layers; ++layer) {
    C* y = layer + 1 < s.layers ? reserve + s.OutputAt(layer) : y_stage.data;
    for (int64_t direction = 0; direction < s.directions; ++direction) {
      const Direction<C> d(s, reserve, layer, direction);
      const int64_t at = (layer * s.directions + direction) * s.state();
      const auto load = [&](const TBlob& first, C* slots) {
        const TBlob to = VectorOf(ctx, slots + d.first(), s.state());
        return ConvertTo<D, C>(ctx, Section(first, at, s.state()), kWriteTo, to);
      };
      const auto store = [&](const C* slots, const Target& last) {
        if (last.req == kNullOp) return absl::OkStatus();
        return ConvertTo<D, C>(ctx, VectorOf(ctx, slots + d.last(), s.state()), last.req, Section(last.blob, at, s.state()));
      };
      RETURN_IF_ERROR(load(in.state, d.h));
      if (s.lstm()) RETURN_IF_ERROR(load(in.cell, d.extra));
      RETURN_IF_ERROR(
          (ForwardDirection<D, C>(ctx, s, in, layer, d, parameters, &by_state, x, from_state, y + direction * s.units)));
      RETURN_IF_ERROR(store(d.h, state_out));
      if (s.lstm()) RETURN_IF_ERROR(store(d.extra, cell_out));
    }
    if (layer + 1 < s.layers && s.p > 0) {
      RETURN_IF_ERROR(Drop<D>(ctx, s, layer, VectorOf(ctx, y, s.outputs()), VectorOf(ctx, reserve + s.MaskAt(layer), s.outputs())));
    }
    x = y;
  }
  RETURN_IF_ERROR(y_stage.Finish(ctx));
  return reserve_stage.Finish(ctx);
}

// Memory that the backward pass of a direction writes to, beside the parameters' gradients.
template <class C>
struct BackwardSpace {
  C *dh, *dc, *dgates, *dstate_gates;
  C* dbias;  // A bias at a time.
};

// The gates' gradients of all steps, and those of the first state in dh and dc.
template <class D, class C>
absl::Status BackwardSteps(const OpContext& ctx, const RnnSize& s, const RnnInputs& in, const Direction<C>& d,
                           const UnitProduct<D, C>& by_state, const C* dy, const BackwardSpace<C>& space) {
  const int64_t gates = s.gates();
  return WithMode(s.mode, [&](auto mode) -> absl::Status {
    const C* of_later = nullptr;  // The gates' gradients of the step that was computed before.
    for (int64_t i = s.steps - 1; i >= 0; --i) {
      const int64_t t = d.StepNumber(i);
      RnnStepBackward<C, decltype(mode)::kMode> step{};
      SetStep(s, in, d, t, &step);
      step.gates = d.gates + t * s.batch * gates;
      step.c = s.lstm() ? d.extra + d.after(t) : nullptr;
      step.new_from_state = d.extra + t * s.state();
      step.dy = dy + t * s.batch * step.y_stride;
      step.dh = space.dh;
      step.dc = space.dc;
      step.dgates = space.dgates + t * s.batch * gates;
      step.dstate_gates = space.dstate_gates + t * s.batch * gates;
      RETURN_IF_ERROR(by_state.Run(ctx, of_later, kAddTo, space.dh, step));
      of_later = step.dstate_gates;
    }
    return of_later == nullptr ? absl::OkStatus() : by_state.Multiply(ctx, of_later, kAddTo, space.dh);
  });
}

// Data with zeros where sequences have ended: the gates' gradients are 0 there, and 0 times what padding holds may be NaN.
template <class C>
struct KeepLiving {
  int64_t batch, input;
  const C* x;
  In<double> length;
  C* y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / input;
    y[i] = static_cast<double>(row / batch) < length[row % batch] ? x[i] : C(0);
  }
};
template <class D, class C>
absl::StatusOr<const C*> WithoutPadding(const OpContext& ctx, const RnnSize& s, const RnnInputs& in, const C* x) {
  if (in.length.data == nullptr) return x;
  ASSIGN_OR_RETURN(C* const y, Space<C>(ctx, s.rows() * s.input));
  RETURN_IF_ERROR(ForEach<D>(ctx, s.rows() * s.input, KeepLiving<C>{s.batch, s.input, x, In<double>(in.length), y}));
  return y;
}

// The gradients of a direction's parameters, from the gates' gradients.
template <class D, class C>
absl::Status BackwardWeights(const OpContext& ctx, const RnnSize& s, int64_t layer, const Direction<C>& d, const C* x,
                             const BackwardSpace<C>& space, const Weights<C>& dw, OpReqType req) {
  const int64_t gates = s.gates(), rows = s.rows();
  const C* before = d.h + (d.reverse ? s.state() : 0);  // The states before every step, one after the other.
  RETURN_IF_ERROR(Gemm<D>(ctx, DTypeOf<C>, s.OfInputWeights(layer), space.dgates, x, req, dw.input));
  RETURN_IF_ERROR(Gemm<D>(ctx, DTypeOf<C>, s.OfStateWeights(), space.dstate_gates, before, req, dw.state));
  const TBlob dbias = VectorOf(ctx, space.dbias, gates);
  RETURN_IF_ERROR(SumColumns<D>(ctx, VectorOf(ctx, space.dgates, rows * gates), kWriteTo, dbias));
  RETURN_IF_ERROR((ConvertTo<D, C>(ctx, dbias, req, VectorOf(ctx, dw.input_bias, gates))));
  if (space.dstate_gates != space.dgates) {
    RETURN_IF_ERROR(SumColumns<D>(ctx, VectorOf(ctx, space.dstate_gates, rows * gates), kWriteTo, dbias));
  }
  return ConvertTo<D, C>(ctx, dbias, req, VectorOf(ctx, dw.state_bias, gates));
}

template <class D, class C>
absl::Status Backward(const OpContext& ctx, const RnnSize& s, const RnnInputs& in, const TBlob& reserve_blob, const TBlob& dy_in,
                      const TBlob& dstate, const TBlob& dcell, const Target& dx_out, const Target& dparameters_out,
                      const Target& dstate_out, const Target& dcell_out) {
  C* reserve = static_cast<C*>(reserve_blob.data);
  ASSIGN_OR_RETURN(const C* data, (As<D, C>(ctx, in.data)));
  ASSIGN_OR_RETURN(const C* parameters, (As<D, C>(ctx, in.parameters)));
  ASSIGN_OR_RETURN(const C* dy, (As<D, C>(ctx, dy_in)));
  Stage<D, C> dx_stage, dparameters;
  RETURN_IF_ERROR(dx_stage.Begin(ctx, dx_out, false));
  RETURN_IF_ERROR(dparameters.Begin(ctx, dparameters_out, false));
  if (dparameters.req != kNullOp) {
    ASSIGN_OR_RETURN(data, (WithoutPadding<D, C>(ctx, s, in, data)));
  }
  BackwardSpace<C> space;
  ASSIGN_OR_RETURN(space.dh, Space<C>(ctx, s.state()));
  ASSIGN_OR_RETURN(space.dc, Space<C>(ctx, s.lstm() ? s.state() : 0));
  ASSIGN_OR_RETURN(space.dgates, Space<C>(ctx, s.rows() * s.gates()));
  space.dstate_gates = space.dgates;
  if (s.mode == RnnMode::kGru) {
    ASSIGN_OR_RETURN(space.dstate_gates, Space<C>(ctx, s.rows() * s.gates()));
  }
  ASSIGN_OR_RETURN(space.dbias, Space<C>(ctx, s.gates()));
  C* between[2] = {nullptr, nullptr};  // dL/d(output) of the layers below, by turns.
  for (int64_t i = 0; i < 2 && i + 1 < s.layers; ++i) {
    ASSIGN_OR_RETURN(between[i], Space<C>(ctx, s.outputs()));
  }
  UnitProduct<D, C> by_state(s.OfState(), s.units);

  for (int64_t layer = s.layers - 1; layer >= 0; --layer) {
    C* dx = layer > 0 ? between[(layer - 1) % 2] : dx_stage.data;
    const OpReqType dx_req = layer > 0 ? kWriteTo : dx_stage.req;
    const C* x = layer > 0 ? reserve + s.OutputAt(layer - 1) : data;
    for (int64_t direction = 0; direction < s.directions; ++direction) {
      const Direction<C> d(s, reserve, layer, direction);
      const Weights<const C> w(s, parameters, layer, direction);
      const int64_t at = (layer * s.directions + direction) * s.state();
      const auto begin = [&](const TBlob& last, C* to) {
        const TBlob y = VectorOf(ctx, to, s.state());
        return last.data == nullptr ? Fill<D>(ctx, 0, kWriteTo, y)
                                    : ConvertTo<D, C>(ctx, Section(last, at, s.state()), kWriteTo, y);
      };
      const auto end = [&](const Target& first, C* from) {
        if (first.req == kNullOp) return absl::OkStatus();
        return ConvertTo<D, C>(ctx, VectorOf(ctx, from, s.state()), first.req, Section(first.blob, at, s.state()));
      };
      RETURN_IF_ERROR(begin(dstate, space.dh));
      if (s.lstm()) RETURN_IF_ERROR(begin(dcell, space.dc));
      RETURN_IF_ERROR(by_state.Load(ctx, parameters, w.state - parameters, s.steps));
      RETURN_IF_ERROR((BackwardSteps<D, C>(ctx, s, in, d, by_state, dy + direction * s.units, space)));
      RETURN_IF_ERROR(end(dstate_out, space.dh));
      if (s.lstm()) RETURN_IF_ERROR(end(dcell_out, space.dc));
      if (dx_req != kNullOp) {
        RETURN_IF_ERROR(Gemm<D>(ctx, DTypeOf<C>, s.OfInput(layer), space.dgates, w.input, direction > 0 ? kAddTo : dx_req, dx));
      }
      if (dparameters.req != kNullOp) {
        RETURN_IF_ERROR(
            (BackwardWeights<D, C>(ctx, s, layer, d, x, space, {s, dparameters.data, layer, direction}, dparameters.req)));
      }
    }
    if (layer > 0 && s.p > 0) {
      const TBlob both[] = {VectorOf(ctx, dx, s.outputs()), VectorOf(ctx, reserve + s.MaskAt(layer - 1), s.outputs())};
      RETURN_IF_ERROR((Map<D, 2>(ctx, Product(), both, kWriteTo, both[0])));
    }
    dy = dx;
  }
  RETURN_IF_ERROR(dx_stage.Finish(ctx));
  return dparameters.Finish(ctx);
}

}  // namespace

template <class D>
absl::Status RnnForward(const OpContext& ctx, const RnnSize& size, const RnnInputs& in, const Target& y, const Target& state,
                        const Target& cell, const Target& reserve) {
  return DispatchReal(in.data.dtype, [&](auto c) { return Forward<D, decltype(c)>(ctx, size, in, y, state, cell, reserve); });
}

template <class D>
absl::Status RnnBackward(const OpContext& ctx, const RnnSize& size, const RnnInputs& in, const TBlob& reserve, const TBlob& dy,
                         const TBlob& dstate, const TBlob& dcell, const Target& dx, const Target& dparameters,
                         const Target& dstate_in, const Target& dcell_in) {
  return DispatchReal(in.data.dtype, [&](auto c) {
    return Backward<D, decltype(c)>(ctx, size, in, reserve, dy, dstate, dcell, dx, dparameters, dstate_in, dcell_in);
  });
}

template absl::Status RnnForward<Backend>(const OpContext&, const RnnSize&, const RnnInputs&, const Target&, const Target&,
                                          const Target&, const Target&);
template absl::Status RnnBackward<Backend>(const OpContext&, const RnnSize&, const RnnInputs&, const TBlob&, const TBlob&,
                                           const TBlob&, const TBlob&, const Target&, const Target&, const Target&, const Target&);

}  // namespace gluond::ops
