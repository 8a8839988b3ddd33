// RNN: layers of recurrent cells over whole sequences, with MXNet's flat vector of parameters. A hidden
// output, the reserve, keeps the intermediate results that the backward pass needs. ops/kernel/rnn.h tells the layouts,
// rnn_cells.h the formulas.

#include <optional>

#include "ops/kernel/rnn.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct RNNParam : Param<RNNParam> {
  int64_t state_size, num_layers;
  int mode;
  bool bidirectional, state_outputs, lstm_state_clip_nan, use_sequence_length;
  double p;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;

  static void Fields(Schema<RNNParam>& s) {
    using P = RNNParam;
    s.Field("state_size", &P::state_size).Range(1, 1 << 20).Describe("Units of each layer and direction.");
    s.Field("num_layers", &P::num_layers).Range(1, 1 << 10).Describe("Layers, one on top of the other.");
    s.Field("bidirectional", &P::bidirectional)
        .Default(false)
        .Describe("Each layer also reads the sequence backwards; its output is both, side by side.");
    s.Field("mode", &P::mode)
        .Decides()
        .Enum({{"rnn_relu", static_cast<int>(RnnMode::kRelu)},
               {"rnn_tanh", static_cast<int>(RnnMode::kTanh)},
               {"lstm", static_cast<int>(RnnMode::kLstm)},
               {"gru", static_cast<int>(RnnMode::kGru)}})
        .Describe("The kind of cell.");
    s.Field("p", &P::p)
        .Default(0.0)
        .Check([](double v) { return v >= 0 && v < 1; }, "want 0 to below 1")
        .Describe("While training, the part of each layer's outputs, but the last's, that becomes 0.");
    s.Field("state_outputs", &P::state_outputs).Decides().Default(false).Describe("Show the last states as outputs.");
    s.Field("projection_size", &P::projection_size)
        .Default("None")
        .Check([](int64_t) { return false; }, "want None; projections are not offered")
        .Describe("Accepted for MXNet's sake; projections are not offered.");
    s.Field("lstm_state_clip_min", &P::lstm_state_clip_min)
        .Default("None")
        .Check([](double) { return false; }, "want None; clipped states are not offered")
        .Describe("Accepted for MXNet's sake; clipped states are not offered.");
    s.Field("lstm_state_clip_max", &P::lstm_state_clip_max)
        .Default("None")
        .Check([](double) { return false; }, "want None; clipped states are not offered")
        .Describe("Accepted for MXNet's sake; clipped states are not offered.");
    s.Field("lstm_state_clip_nan", &P::lstm_state_clip_nan)
        .Default(false)
        .Describe("Accepted for MXNet's sake, not used: states are not clipped.");
    s.Field("use_sequence_length", &P::use_sequence_length)
        .Decides()
        .Default(false)
        .Describe(
            "Sequences end where sequence_length says: outputs are 0 from there on, the last states are those "
            "before, and the reverse direction begins there.");
  }

  bool lstm() const { return mode == static_cast<int>(RnnMode::kLstm); }
};

// Inputs: data, parameters, state, then state_cell, then sequence_length; outputs: y, state, cell, and the reserve.
enum { kRnnData, kParameters, kState, kCell };

uint32_t LengthInput(const RNNParam& p) { return p.lstm() ? 4 : 3; }
uint32_t RnnNumInputs(const NodeAttrs& attrs) {
  const auto& p = attrs.param<RNNParam>();
  return LengthInput(p) + (p.use_sequence_length ? 1 : 0);
}
uint32_t VisibleOutputs(const NodeAttrs& attrs) {
  const auto& p = attrs.param<RNNParam>();
  return !p.state_outputs ? 1 : p.lstm() ? 3 : 2;
}
uint32_t RnnNumOutputs(const NodeAttrs& attrs) { return VisibleOutputs(attrs) + 1; }

RnnSize RnnSizeOf(const RNNParam& p, const Shape& x) {
  return {static_cast<RnnMode>(p.mode), x[0], x[1], x[2], p.state_size, p.num_layers, p.bidirectional ? 2 : 1, p.p};
}

// INVALID_ARGUMENT: the parameters or the reserve would have more elements than a tensor can.
absl::Status CheckSize(const RnnSize& s) {
  const double units = static_cast<double>(s.units) * 4 * static_cast<double>(s.layers * s.directions);
  const double weights = units * static_cast<double>(s.inputs(1) + s.units) + units * static_cast<double>(s.input + 2);
  const double kept = units * 2 * static_cast<double>(s.steps + 1) * static_cast<double>(s.batch);
  if (weights <= 0x1p48 && kept <= 0x1p48) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data of shape (", s.steps, ",", s.batch, ",", s.input, ") with state_size ",
                                                 s.units, " and num_layers ", s.layers, " need more than 2^48 elements"));
}

absl::StatusOr<bool> RnnInferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<RNNParam>();
  SHAPE_ASSIGN_CHECK(in, kRnnData, Shape::OfRank(3));
  const int64_t directions = p.bidirectional ? 2 : 1;
  SHAPE_ASSIGN_CHECK(out, 0, Shape({(*in)[kRnnData][0], (*in)[kRnnData][1], directions * p.state_size}));
  SHAPE_ASSIGN_CHECK(in, kRnnData, Shape({(*out)[0][0], (*out)[0][1], Shape::kUnknown}));
  Shape state = {p.num_layers * directions, (*in)[kRnnData][1], p.state_size};
  SHAPE_ASSIGN_CHECK(in, kState, state);
  state = (*in)[kState];
  SHAPE_ASSIGN_CHECK(in, kRnnData, Shape({Shape::kUnknown, state[1], Shape::kUnknown}));
  if (p.lstm()) SHAPE_ASSIGN_CHECK(in, kCell, state);
  if (p.use_sequence_length) SHAPE_ASSIGN_CHECK(in, LengthInput(p), Shape({state[1]}));
  for (uint32_t i = 1; i < VisibleOutputs(attrs); ++i) SHAPE_ASSIGN_CHECK(out, i, state);
  SHAPE_ASSIGN_CHECK(in, kParameters, Shape::OfRank(1));
  const Shape x = (*in)[kRnnData];
  if (x[2] >= 0) {
    const RnnSize size = RnnSizeOf(p, {std::max<int64_t>(x[0], 0), std::max<int64_t>(x[1], 0), x[2]});
    RETURN_IF_ERROR(CheckSize(size));
    SHAPE_ASSIGN_CHECK(in, kParameters, Shape({size.parameters()}));
    if (x.known()) SHAPE_ASSIGN_CHECK(out, VisibleOutputs(attrs), Shape({size.reserve()}));
  }
  return AllKnown(*in) && AllKnown(*out);
}

// All tensors have one floating-point type but the lengths, which may have any, and the reserve, which is float32 or
// float64.
absl::StatusOr<bool> RnnType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const auto& p = attrs.param<RNNParam>();
  TypeVector values(in->begin(), in->begin() + LengthInput(p));
  TypeVector results(out->begin(), out->end() - 1);
  RETURN_IF_ERROR(SameFloatType(attrs, &values, &results).status());
  std::copy(values.begin(), values.end(), in->begin());
  std::copy(results.begin(), results.end(), out->begin());
  const DType type = values[0];
  if (type == DType::kUnknown) return false;
  if (p.use_sequence_length && in->back() == DType::kUnknown) in->back() = type;
  TYPE_ASSIGN_CHECK(out, out->size() - 1, type == DType::kFloat64 ? type : DType::kFloat32);
  return true;
}

RnnInputs InputsOf(const RNNParam& p, Blobs in) {
  RnnInputs inputs = {in[kRnnData], in[kParameters], in[kState], {}, {}};
  if (p.lstm()) inputs.cell = in[kCell];
  if (p.use_sequence_length) inputs.length = in[LengthInput(p)];
  return inputs;
}

// PrepareProduct prepares a product of a layer whose tensors have this type: those of 16 bits are computed in float32.
absl::Status PrepareProduct(const OpContext& ctx, DType dtype, const GemmSize& size, OpReqType req) {
  return PrepareGemm(ctx, dtype == DType::kFloat64 ? dtype : DType::kFloat32, size, nullptr, req);
}
// A lone step's weights are not packed: UnitProduct.
bool PacksStates(const RnnSize& s) { return s.steps > 1; }

struct RNN {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<RNNParam>();
    const auto output = [&](size_t i) { return Target{out[i], req[i]}; };
    return RnnForward<D>(ctx, RnnSizeOf(p, in[kRnnData].shape), InputsOf(p, in), output(0), p.state_outputs ? output(1) : Target(),
                         p.state_outputs && p.lstm() ? output(2) : Target(), output(out.size() - 1));
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests, Blobs) {
    const RnnSize s = RnnSizeOf(attrs.param<RNNParam>(), in[kRnnData].shape);
    const DType dtype = in[kRnnData].dtype;
    // Constant weights are packed (UnitProduct). Weights of 16 bits are copied before, and the copy is no constant.
    if (SizeOf(dtype) > 2 && ctx.constants != nullptr && ctx.constants->Contains(in[kParameters].data)) return absl::OkStatus();
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      RETURN_IF_ERROR(PrepareProduct(ctx, dtype, s.GatesOfInput(layer), kWriteTo));
    }
    return PacksStates(s) ? absl::OkStatus()
                          : PrepareProduct(ctx, dtype, s.GatesOfState(), s.mode == RnnMode::kGru ? kWriteTo : kAddTo);
  }
};

// Inputs: RNN's inputs, the reserve, and the gradients of the visible outputs. Outputs: the gradients of all inputs but
// the lengths.
struct BackwardRNN {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<RNNParam>();
    const Blobs heads = in.subspan(RnnNumInputs(attrs) + 1);
    const auto output = [&](size_t i) { return Target{out[i], req[i]}; };
    return RnnBackward<D>(ctx, RnnSizeOf(p, in[kRnnData].shape), InputsOf(p, in), in[RnnNumInputs(attrs)], heads[0],
                          heads.size() > 1 ? heads[1] : TBlob(), heads.size() > 2 ? heads[2] : TBlob(), output(kRnnData),
                          output(kParameters), output(kState), p.lstm() ? output(kCell) : Target());
  }
  static absl::Status Prepare(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs) {
    const RnnSize s = RnnSizeOf(attrs.param<RNNParam>(), in[kRnnData].shape);
    const DType dtype = in[kRnnData].dtype;
    // Gradients of 16 bits are computed beside their tensors.
    const auto request = [&](size_t i) { return SizeOf(dtype) == 2 && req[i] != kNullOp ? kWriteTo : req[i]; };
    const auto prepare = [&](const GemmSize& size, OpReqType how) { return PrepareProduct(ctx, dtype, size, how); };
    if (!PacksStates(s)) RETURN_IF_ERROR(prepare(s.OfState(), kAddTo));
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      const OpReqType of_input = layer > 0 ? kWriteTo : request(kRnnData);
      RETURN_IF_ERROR(prepare(s.OfInput(layer), of_input));
      if (s.directions > 1 && of_input != kNullOp) RETURN_IF_ERROR(prepare(s.OfInput(layer), kAddTo));
      RETURN_IF_ERROR(prepare(s.OfInputWeights(layer), request(kParameters)));
      RETURN_IF_ERROR(prepare(s.OfStateWeights(), request(kParameters)));
    }
    return absl::OkStatus();
  }
};

Gradients RnnGradient(const NodePtr& node, const Gradients& dy) {
  const uint32_t visible = VisibleOutputs(node->attrs);
  std::vector<NodeEntry> inputs = node->inputs;
  inputs.push_back(Output(node, visible));
  inputs.insert(inputs.end(), dy.begin(), dy.begin() + visible);
  Gradients gradients = OutputsOf(Call("_backward_RNN", std::move(inputs), node->attrs.dict));
  gradients.resize(node->num_inputs());  // The lengths have none.
  return gradients;
}

GLUOND_REGISTER_OP(RNN)
    .describe(
        "Recurrent layers over a sequence. rnn: h' = f(W x + b_i + R h + b_h). lstm, gates i, f, g, o: c' = f c "
        "+ i g, h' = o tanh(c'). gru, gates r, z, n: h' = (1 - z) n + z h with n = tanh(W_n x + b_in + r (R_n h "
        "+ b_hn)). A second derivative is not offered.")
    .add_argument("data", "NDArray", "x: (steps, batch, input).")
    .add_argument("parameters", "NDArray",
                  "For each layer and direction W and R, flat; then, in the same order, b_i and b_h of each.")
    .add_argument("state", "NDArray", "The first h: (layers * directions, batch, state_size).")
    .add_argument("state_cell", "NDArray", "The first c, for lstm only.")
    .add_argument("sequence_length", "NDArray", "(batch), of any type; with use_sequence_length only.")
    .params<RNNParam>()
    .set_num_inputs(RnnNumInputs)
    .set_num_outputs(RnnNumOutputs)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", VisibleOutputs)
    .set_attr<FListInputNames>("FListInputNames",
                               [](const NodeAttrs& attrs) {
                                 const auto& p = attrs.param<RNNParam>();
                                 std::vector<std::string> names = {"data", "parameters", "state"};
                                 if (p.lstm()) names.push_back("state_cell");
                                 if (p.use_sequence_length) names.push_back("sequence_length");
                                 return names;
                               })
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs& attrs) {
                                  std::vector<std::string> names = {"output", "state_output", "statecell_output"};
                                  names.resize(VisibleOutputs(attrs));
                                  names.push_back("reserve");
                                  return names;
                                })
    .infer(RnnInferShape, RnnType)
    .set_attr<FResourceRequest>("FResourceRequest",
                                [](const NodeAttrs& attrs) {
                                  std::vector<ResourceRequest> requests = {ResourceRequest::kTempSpace};
                                  if (attrs.param<RNNParam>().p > 0) requests.push_back(ResourceRequest::kRandom);
                                  return requests;
                                })
    .set_attr<FGradient>("FGradient", RnnGradient)
    .compute<RNN>();

GLUOND_REGISTER_OP(_backward_RNN)
    .describe("The gradients of RNN's data, parameters and states.")
    .params<RNNParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return RnnNumInputs(attrs) + RnnNumOutputs(attrs); })
    .set_num_outputs([](const NodeAttrs& attrs) { return LengthInput(attrs.param<RNNParam>()); })
    .infer(ShapesOfInputs<0>, TypesOfInputs<0>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BackwardRNN>();

}  // namespace
}  // namespace gluond::ops
