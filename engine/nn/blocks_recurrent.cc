// RNN, LSTM and GRU: whole sequences by one operator, several layers, in one direction or both. The first states are
// zeros, the last ones are not seen.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

using Initializer = std::optional<std::string>;

enum SequenceLayout { kSequenceTNC, kSequenceNTC };

struct RecurrentFields {
  int64_t hidden_size, num_layers;
  int layout;
  double dropout;
  bool bidirectional;
  int64_t input_size;
  Initializer i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer;
  DType dtype;
};
template <class P>
void SizeFields(Schema<P>& s) {
  s.template Field<int64_t>("hidden_size", &P::hidden_size).Range(1, 1 << 20).Describe("Units of each layer and direction.");
  s.template Field<int64_t>("num_layers", &P::num_layers)
      .Default(int64_t{1})
      .Range(1, 1 << 10)
      .Describe("Layers, one on top of the other.");
}
template <class P>
void SequenceFields(Schema<P>& s) {
  s.template Field<int>("layout", &P::layout)
      .Enum({{"TNC", kSequenceTNC}, {"NTC", kSequenceNTC}})
      .Default("TNC")
      .Describe("Axes of input and output: T steps, N samples, C numbers.");
  s.template Field<double>("dropout", &P::dropout)
      .Default(0.0)
      .AtLeast(0)
      .Describe("Share of the elements between layers that training zeroes.");
  s.template Field<bool>("bidirectional", &P::bidirectional)
      .Default(false)
      .Describe("Layers read the sequence backwards, too; the output is both, side by side.");
  s.template Field<int64_t>("input_size", &P::input_size)
      .Default(int64_t{0})
      .AtLeast(0)
      .Describe("Numbers of a step; 0: from the first batch.");
  s.template Field<Initializer>("i2h_weight_initializer", &P::i2h_weight_initializer)
      .Default(std::nullopt)
      .Describe("As 'Xavier(magnitude=2)'; None: the model's.");
  s.template Field<Initializer>("h2h_weight_initializer", &P::h2h_weight_initializer)
      .Default(std::nullopt)
      .Describe("As i2h_weight_initializer.");
  s.template Field<Initializer>("i2h_bias_initializer", &P::i2h_bias_initializer)
      .Default("zeros")
      .Describe("As i2h_weight_initializer.");
  s.template Field<Initializer>("h2h_bias_initializer", &P::h2h_bias_initializer)
      .Default("zeros")
      .Describe("As i2h_weight_initializer.");
  s.template Field<DType>("dtype", &P::dtype).Default(DType::kFloat32).Describe("Of the parameters.");
}

enum Activation { kRelu, kTanh };

struct RnnLayerParam : Param<RnnLayerParam>, RecurrentFields {
  int activation;
  static void Fields(Schema<RnnLayerParam>& s) {
    SizeFields(s);
    s.Field("activation", &RnnLayerParam::activation)
        .Enum({{"relu", kRelu}, {"tanh", kTanh}})
        .Default("relu")
        .Describe("Of each step.");
    SequenceFields(s);
  }
};

struct LstmLayerParam : Param<LstmLayerParam>, RecurrentFields {
  std::optional<int64_t> projection_size;
  Initializer h2r_weight_initializer;
  std::optional<double> state_clip_min, state_clip_max;
  bool state_clip_nan;
  static void Fields(Schema<LstmLayerParam>& s) {
    using P = LstmLayerParam;
    SizeFields(s);
    SequenceFields(s);
    s.Field("projection_size", &P::projection_size)
        .Default(std::nullopt)
        .Check([](int64_t) { return false; }, "want None; projections are not offered, but LSTMPCell is")
        .Describe("Only None.");
    s.Field("h2r_weight_initializer", &P::h2r_weight_initializer).Default(std::nullopt).Describe("Not used.");
    s.Field("state_clip_min", &P::state_clip_min)
        .Default(std::nullopt)
        .Check([](double) { return false; }, "want None; clipped states are not offered")
        .Describe("Only None.");
    s.Field("state_clip_max", &P::state_clip_max)
        .Default(std::nullopt)
        .Check([](double) { return false; }, "want None; clipped states are not offered")
        .Describe("Only None.");
    s.Field("state_clip_nan", &P::state_clip_nan).Default(false).Describe("Not used: states are not clipped.");
  }
};

struct GruLayerParam : Param<GruLayerParam>, RecurrentFields {
  static void Fields(Schema<GruLayerParam>& s) {
    SizeFields(s);
    SequenceFields(s);
  }
};

// Zeros (layers, batch, size) for x (steps, batch, numbers): slices, as the size of the batch is not known yet.
NodeEntry ZeroState(Formula& f, const NodeEntry& x, int64_t layers, int64_t size) {
  NodeEntry column = x;
  for (const char* axis : {"0", "2"}) {
    column = f("slice_axis", {column}, {{"axis", axis}, {"begin", "0"}, {"end", "1"}});
  }
  column = f("Reshape", {f("zeros_like", {column})}, {{"shape", "(1, -1, 1)"}});
  return f("broadcast_axis", {column}, {{"axis", "(0, 2)"}, {"size", Text(std::vector<int64_t>{layers, size})}});
}

struct RecurrentMode {
  const char* name;
  int64_t gates, states;
};

// Parameters are those of Gluon: l0_i2h_weight, l0_h2h_weight, l0_i2h_bias, l0_h2h_bias, then r0_ for the way back,
// then l1_; the operator takes them in one vector, all weights before all biases.
absl::StatusOr<NodeEntry> Recurrent(const RecurrentFields& p, RecurrentMode mode, const BlockScope& scope, NodeEntry x) {
  Formula f = scope.NewFormula();
  if (p.layout == kSequenceNTC) x = f("SwapAxis", {x}, {{"dim1", "0"}, {"dim2", "1"}});
  const int64_t rows = mode.gates * p.hidden_size, directions = p.bidirectional ? 2 : 1;
  std::vector<NodeEntry> weights, biases;
  const auto add = [&](std::vector<NodeEntry>& to, const std::string& name, const Shape& shape, const Initializer& init) {
    const NodeEntry parameter = f.Take(LayerParameter(scope, name, shape, p.dtype, init));
    to.push_back(f("Reshape", {parameter}, {{"shape", "(-1,)"}}));
  };
  int64_t inputs = SizeOrUnknown(p.input_size);
  for (int64_t layer = 0; layer < p.num_layers && f.status().ok(); ++layer) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string place = absl::StrCat(direction == 0 ? "l" : "r", layer);
      add(weights, place + "_i2h_weight", {rows, inputs}, p.i2h_weight_initializer);
      add(weights, place + "_h2h_weight", {rows, p.hidden_size}, p.h2h_weight_initializer);
      add(biases, place + "_i2h_bias", {rows}, p.i2h_bias_initializer);
      add(biases, place + "_h2h_bias", {rows}, p.h2h_bias_initializer);
    }
    inputs = p.hidden_size * directions;
  }
  weights.insert(weights.end(), biases.begin(), biases.end());
  std::vector<NodeEntry> operands = {x, f("_rnn_param_concat", std::move(weights), {{"dim", "0"}})};
  for (int64_t i = 0; i < mode.states; ++i) {
    operands.push_back(ZeroState(f, x, p.num_layers * directions, p.hidden_size));
  }
  NodeEntry y = f("RNN", std::move(operands),
                  {{"state_size", Text(p.hidden_size)},
                   {"num_layers", Text(p.num_layers)},
                   {"mode", mode.name},
                   {"bidirectional", Text(p.bidirectional)},
                   {"p", Text(p.dropout)}});
  if (p.layout == kSequenceNTC) y = f("SwapAxis", {y}, {{"dim1", "0"}, {"dim2", "1"}});
  return f.Result(y);
}

}  // namespace

std::vector<BlockCatalog::Entry> RecurrentBlocks() {
  return {
      Layer<RnnLayerParam>("RNN", "h' = activation(i2h(x) + h2h(h)) over sequences; the outputs of the last layer.",
                           [](const RnnLayerParam& p, const BlockScope& scope, NodeEntry x) {
                             const char* mode = p.activation == kRelu ? "rnn_relu" : "rnn_tanh";
                             return Recurrent(p, {mode, 1, 1}, scope, std::move(x));
                           }),
      Layer<LstmLayerParam>("LSTM", "Long short-term memory over sequences; the outputs of the last layer.",
                            [](const LstmLayerParam& p, const BlockScope& scope, NodeEntry x) {
                              return Recurrent(p, {"lstm", 4, 2}, scope, std::move(x));
                            }),
      Layer<GruLayerParam>("GRU", "Gated recurrent units over sequences; the outputs of the last layer.",
                           [](const GruLayerParam& p, const BlockScope& scope, NodeEntry x) {
                             return Recurrent(p, {"gru", 3, 1}, scope, std::move(x));
                           }),
  };
}

}  // namespace gluond
