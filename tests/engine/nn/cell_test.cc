// Cells, unrolled, against the layers that compute whole sequences, and against each other.

#include "engine/nn/cell.h"

#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

constexpr int64_t kBatch = 2, kSteps = 4, kInputs = 3;

class CellTest : public ModelTest {
 protected:
  // The output for noise (batch, steps, inputs), with noise as parameters, by their order.
  std::vector<float> Output(const BlockSpec& block, Mode mode = Mode::kPredict) {
    auto model = MakeModel(block, {{"data", {-1, kSteps, kInputs}}});
    EXPECT_OK(Initialize(*model));
    const NamedTensors x = {{"data", MakeNoise({kBatch, kSteps, kInputs}, 99)}};
    EXPECT_OK(Predict(*model, x));  // Infers shapes.
    NamedTensors values;
    for (const Parameter& p : model->parameters().List()) {
      names_.push_back(p.name);
      values.push_back({p.name, MakeNoise(p.shape, values.size())});
    }
    EXPECT_OK(Set(*model, values));
    const auto y = mode == Mode::kPredict ? Predict(*model, x) : Forward(*model, x, mode);
    EXPECT_OK(y.status());
    return Values((*y)[0].tensor);
  }

  std::vector<std::string> names_;  // The parameters' of all blocks so far.
};

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

BlockSpec CellOf(const char* type, AttrDict attrs = {}) {
  attrs["hidden_size"] = "5";
  return {type, "", std::move(attrs)};
}
BlockSpec Unrolled(BlockSpec cell) {
  cell.attrs["length"] = absl::StrCat(kSteps);
  return cell;
}
BlockSpec LayerOf(const char* type, AttrDict attrs = {}) {
  attrs["layout"] = "NTC";
  return CellOf(type, std::move(attrs));
}

TEST_F(CellTest, ComputesWhatItsLayerDoes) {
  ExpectNear(Output(Unrolled(CellOf("RNNCell"))), Output(LayerOf("RNN", {{"activation", "tanh"}})));
  ExpectNear(Output(Unrolled(CellOf("LSTMCell"))), Output(LayerOf("LSTM")));
  ExpectNear(Output(Unrolled(CellOf("GRUCell"))), Output(LayerOf("GRU")));
}

TEST_F(CellTest, ARowInBothDirectionsIsALayerOfLayers) {
  const BlockSpec both = {"BidirectionalCell", "", {}, {CellOf("LSTMCell"), CellOf("LSTMCell")}};
  const std::vector<float> of_cells = Output(Unrolled({"SequentialRNNCell", "", {}, {both, both}}));
  ExpectNear(of_cells, Output(LayerOf("LSTM", {{"num_layers", "2"}, {"bidirectional", "True"}})));
  EXPECT_EQ(names_[0], "0.l_cell.i2h_weight");
  EXPECT_EQ(names_[12], "1.r_cell.i2h_weight");
  EXPECT_EQ(names_[16], "l0_i2h_weight");
  EXPECT_EQ(names_[28], "r1_i2h_weight");
}

TEST_F(CellTest, CellsAroundOthersPassThemOnOutsideOfTraining) {
  const BlockSpec cell = CellOf("LSTMCell");
  const std::vector<float> alone = Output(Unrolled(cell));
  for (const BlockSpec& around :
       {BlockSpec{"ZoneoutCell", "", {{"zoneout_outputs", "0.3"}, {"zoneout_states", "0.4"}}, {cell}},
        BlockSpec{"VariationalDropoutCell", "", {{"drop_inputs", "0.3"}, {"drop_states", "0.4"}, {"drop_outputs", "0.5"}}, {cell}},
        BlockSpec{"SequentialRNNCell", "", {}, {{"DropoutCell", "", {{"rate", "0.5"}}}, cell}}}) {
    EXPECT_EQ(Output(Unrolled(around)), alone) << around.type;
  }
  EXPECT_EQ(names_[4], "base_cell.i2h_weight");
}

TEST_F(CellTest, ResidualAddsTheInput) {
  BlockSpec cell = {"GRUCell", "", {{"hidden_size", absl::StrCat(kInputs)}}};
  const std::vector<float> alone = Output(Unrolled(cell)), x = Values(MakeNoise({kBatch, kSteps, kInputs}, 99));
  const BlockSpec residual = {"ResidualCell", "", {}, {cell}};
  const std::vector<float> sum = Output(Unrolled(residual));
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], alone[i] + x[i]);
  // The same step by step, as a cell around it asks for it.
  EXPECT_EQ(Output(Unrolled({"ZoneoutCell", "", {}, {residual}})), sum);
}

TEST_F(CellTest, ZoneoutOfEverythingStaysAtTheFirstState) {
  const char* const all = "0.9999999";  // Dropout takes rates below 1.
  const BlockSpec zoneout = {"ZoneoutCell", "", {{"zoneout_outputs", all}}, {CellOf("GRUCell")}};
  EXPECT_EQ(Output(Unrolled(zoneout), Mode::kTrain), std::vector<float>(kBatch * kSteps * 5, 0.0f));
  // With the states kept, every step begins at zeros and gives the first step's output of its input.
  const BlockSpec states = {"ZoneoutCell", "", {{"zoneout_states", all}}, {CellOf("RNNCell")}};
  const std::vector<float> steps = Output(Unrolled(states), Mode::kTrain), first = Output(Unrolled(CellOf("RNNCell")));
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(steps[i], first[i]);
  EXPECT_NE(steps[5], first[5]);
}

TEST_F(CellTest, VariationalDropoutHasOneMaskForAllSteps) {
  const BlockSpec dropout = {"VariationalDropoutCell", "", {{"drop_inputs", "0.5"}}, {{"DropoutCell", "", {{"rate", "0"}}}}};
  const std::vector<float> y = Output(Unrolled(dropout), Mode::kTrain);
  const std::vector<float> x = Values(MakeNoise({kBatch, kSteps, kInputs}, 99));
  EXPECT_NE(y, x);
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t c = 0; c < kInputs; ++c) {
      const float mask = y[n * kSteps * kInputs + c] == 0 ? 0 : 2;
      for (int64_t t = 0; t < kSteps; ++t) {
        const size_t i = static_cast<size_t>((n * kSteps + t) * kInputs + c);
        EXPECT_EQ(y[i], mask * x[i]);
      }
    }
  }
}

TEST_F(CellTest, ACellsParametersAreTrained) {
  auto model = MakeModel(Unrolled(CellOf("LSTMCell")), {{"data", {-1, kSteps, kInputs}}});
  ASSERT_OK(Initialize(*model));
  ASSERT_OK(Forward(*model, {{"data", MakeNoise({kBatch, kSteps, kInputs}, 1)}}));
  const auto report = Backward(*model);
  ASSERT_OK(report.status());
  EXPECT_EQ(report->written.size(), 4u);
}

}  // namespace
}  // namespace gluond
