// RNN against MXNet 1.9.1's in float64, and the layout of its parameters; _rnn_param_concat.

#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::rnn {
namespace {

// Multiples of 1/8, or of 1/16 with `half`: no two neighbours are equal, and each has few bits.
Numbers Varied(const Shape& shape, int step = 7, bool half = false) {
  Numbers n = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) n.values.push_back((i * step % 31 - 15) / (half ? 16.0 : 8.0));
  return n;
}

Numbers Parameters(int64_t n) { return Varied({n}, 11, true); }

AttrDict Attrs(const char* mode, const char* layers, AttrDict more = {}) {
  more.insert({{"mode", mode}, {"num_layers", layers}, {"state_size", "2"}});
  return more;
}
const AttrDict kStates = {{"state_outputs", "True"}};
const AttrDict kBothWays = {{"state_outputs", "True"}, {"bidirectional", "True"}};
const AttrDict kEnds = {{"state_outputs", "True"}, {"bidirectional", "True"}, {"use_sequence_length", "True"}};

OP_CASES(
    RNN,
    {
        OpCase{"Relu",
               "RNN",
               {Varied({2, 1, 2}), Parameters(12), Varied({1, 1, 2}, 5, true)},
               Attrs("rnn_relu", "1", kStates),
               {{{2, 1, 2}, {2.5859375, 0.88671875, 0.91772461, 0}}, {{1, 1, 2}, {0.91772461, 0}}}},
        OpCase{
            "TanhOfTwoLayersBothWays",
            "RNN",
            {Varied({3, 2, 2}), Parameters(56), Varied({4, 2, 2}, 5, true)},
            Attrs("rnn_tanh", "2", kBothWays),
            {{{3, 2, 4}, {0.12548606,  -0.98374842, -0.90755599, 0.84671124,  0.85054648,   -0.95943544, -0.97538785, 0.75755945,
                          -0.93777575, -0.58445271, -0.95501049, 0.20206422,  -0.080625276, -0.9592747,  -0.90703342, 0.58772626,
                          -0.94997524, -0.13073977, 0.11014429,  -0.18587511, 0.34715015,   -0.98874606, -0.85932284, 0.62102519}},
             {{4, 2, 2},
              {-0.0072019814, 0.97268681, 0.54880959, -0.69378023, -0.74846264, 0.68632257, -0.43276631, 0.94381433, -0.94997524,
               -0.13073977, 0.34715015, -0.98874606, -0.90755599, 0.84671124, -0.97538785, 0.75755945}}}}
            .Tolerance(2),
        OpCase{"Lstm",
               "RNN",
               {Varied({3, 2, 2}), Parameters(48), Varied({1, 2, 2}, 5, true), Varied({1, 2, 2}, 3)},
               Attrs("lstm", "1", kStates),
               {{{3, 2, 2},
                 {-0.37592562, -0.39763874, -0.24270369, 0.076869586, -0.059568076, -0.54684092, -0.13043556, 0.1917895, 0.03716484,
                  -0.68087845, -0.0086380557, 0.14432001}},
                {{1, 2, 2}, {0.03716484, -0.68087845, -0.0086380557, 0.14432001}},
                {{1, 2, 2}, {0.15505935, -0.88039962, -0.018338087, 0.29371749}}}},
        OpCase{"LstmOfTwoLayersBothWays",
               "RNN",
               {Varied({2, 2, 3}), Parameters(240), Varied({4, 2, 2}, 5, true), Varied({4, 2, 2}, 3)},
               Attrs("lstm", "2", kBothWays),
               {{{2, 2, 4},
                 {-0.067056619, 0.16357021, 0.12148111, -0.82822034, 0.18926916, -0.17695349, 0.17913319, -0.68574329, -0.45837635,
                  0.13428766, 0.089996963, -0.81551284, -0.46602556, -0.20660358, 0.080319559, -0.50877863}},
                {{4, 2, 2},
                 {0.23830324, -0.60509336, 0.30206766, -0.44366082, -0.032671363, 0.22249462, -0.1193453, 0.088869721, -0.45837635,
                  0.13428766, -0.46602556, -0.20660358, 0.12148111, -0.82822034, 0.17913319, -0.68574329}},
                {{4, 2, 2},
                 {0.58315397, -1.8686549, 0.75177474, -0.69440398, -0.43833013, 0.38489462, -0.17812469, 0.33644652, -0.57382505,
                  0.95937404, -0.59654028, -1.10075, 0.21418923, -1.7762259, 0.36563857, -1.0193464}}}},
        OpCase{"Gru",
               "RNN",
               {Varied({3, 2, 2}), Parameters(36), Varied({1, 2, 2}, 5, true)},
               Attrs("gru", "1", kStates),
               {{{3, 2, 2},
                 {-0.2158525, -0.66592676, -0.11389311, 0.044467869, 0.71518445, -0.77199803, -0.15778103, -0.02017966, 0.90697226,
                  -0.72981223, -0.22577534, -0.12811995}},
                {{1, 2, 2}, {0.90697226, -0.72981223, -0.22577534, -0.12811995}}}},
        OpCase{
            "GruOfTwoLayersBothWays",
            "RNN",
            {Varied({2, 1, 3}), Parameters(180), Varied({4, 1, 2}, 5, true)},
            Attrs("gru", "2", kBothWays),
            {{{2, 1, 4}, {0.42982831, 0.067286397, -0.91074165, -0.49903283, 0.018913786, -0.003171424, -0.77994536, -0.66070881}},
             {{4, 1, 2}, {-0.87953691, 0.75750019, -0.42986019, -0.6595163, 0.018913786, -0.003171424, -0.91074165, -0.49903283}}}},
        OpCase{"WithoutItsStates",
               "RNN",
               {Varied({2, 1, 2}), Parameters(12), Varied({1, 1, 2}, 5, true)},
               Attrs("rnn_relu", "1"),
               {{{2, 1, 2}, {2.5859375, 0.88671875, 0.91772461, 0}}}},
        OpCase{"ThreeLayersWithDropout",
               "RNN",
               {Varied({2, 2, 2}), Parameters(108), Varied({3, 2, 2}, 5, true)},
               Attrs("gru", "3", {{"p", "0.5"}})},
        OpCase{
            "DropsNothingWhenPredicting",
            "RNN",
            {Varied({2, 1, 3}), Parameters(180), Varied({4, 1, 2}, 5, true)},
            Attrs("gru", "2", {{"p", "0.5"}, {"bidirectional", "True"}}),
            {{{2, 1, 4}, {0.42982831, 0.067286397, -0.91074165, -0.49903283, 0.018913786, -0.003171424, -0.77994536, -0.66070881}}}}
            .Predicting(),
    });

// Each sequence gives the result that it would give alone, cut to its length.
OP_CASES(
    RNNOfLengths,
    {
        OpCase{"Lstm",
               "RNN",
               {Varied({3, 2, 2}), Parameters(96), Varied({2, 2, 2}, 5, true), Varied({2, 2, 2}, 3), {{2}, {3, 1}}},
               Attrs("lstm", "1", kEnds),
               {{{3, 2, 4},
                 {-0.68062517,
                  -0.064931349,
                  0.030629254,
                  -0.554903,
                  -0.46974749,
                  -0.045011597,
                  0.16664511,
                  -0.34817566,
                  -0.044136042,
                  -0.48802037,
                  -0.089752907,
                  0.1115193,
                  0,
                  0,
                  0,
                  0,
                  0.25886924,
                  -0.60294082,
                  -0.064621584,
                  0.11095623,
                  0,
                  0,
                  0,
                  0}},
                {{2, 2, 2}, {0.25886924, -0.60294082, -0.46974749, -0.045011597, 0.030629254, -0.554903, 0.16664511, -0.34817566}},
                {{2, 2, 2}, {0.50507005, -1.4463396, -0.75351474, -0.35633747, 0.17311822, -0.83745046, 0.36263929, -0.5553228}}}}
            .Indices({4}),
        OpCase{"Gru",
               "RNN",
               {Varied({3, 3, 1}), Parameters(60), Varied({2, 3, 2}, 5, true), {{3}, {2, 0, 3}}},
               Attrs("gru", "1", kEnds),
               {{{3, 3, 4},
                 {-0.8797086,  -0.62571685, 0.79997868, 0.59432295,  0, 0, 0, 0, 0.013767008, 0.53844503, 0.27008025, 0.73576871,
                  -0.88175916, -0.3579285,  0.85203217, -0.14467182, 0, 0, 0, 0, -0.31757178, 0.47815392, 0.34255482, 0.78050999,
                  0,           0,           0,          0,           0, 0, 0, 0, -0.4404007,  0.53434324, 0.42377194, 0.26282892}},
                {{2, 3, 2},
                 {-0.88175916, -0.3579285, -0.3125, 0, -0.4404007, 0.53434324, 0.79997868, 0.59432295, -0.375, -0.0625, 0.27008025,
                  0.73576871}}}}
            .Indices({3}),
        OpCase{"Tanh",
               "RNN",
               {Varied({3, 2, 1}), Parameters(20), Varied({2, 2, 2}, 5, true), {{2}, {2, 3}}},
               Attrs("rnn_tanh", "1", kEnds)}
            .Indices({3}),
    });

OP_CASES(RNNOfNothing, {
                           OpCase{"NoSteps",
                                  "RNN",
                                  {{{0, 1, 2}, {}}, Parameters(12), {{1, 1, 2}, {3, 4}}},
                                  Attrs("rnn_tanh", "1", kStates),
                                  {{{0, 1, 2}, {}}, {{1, 1, 2}, {3, 4}}}},
                           OpCase{"NoSequences",
                                  "RNN",
                                  {{{2, 0, 2}, {}}, Parameters(48), {{1, 0, 2}, {}}, {{1, 0, 2}, {}}},
                                  Attrs("lstm", "1"),
                                  {{{2, 0, 2}, {}}}},
                           OpCase{"NoInput",
                                  "RNN",
                                  {{{1, 1, 0}, {}}, {{8}, {0, 0, 0, 0, 1, 1, 1, -3}}, {{1, 1, 2}, {3, 4}}},
                                  Attrs("rnn_relu", "1"),
                                  {{{1, 1, 2}, {2, 0}}}}
                               .WithoutGradient(),
                       });

// Padding holds anything, also NaN: no gradient but its own sees it.
TEST(RNN, PaddingIsNotLookedAt) {
  for (const char* mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}) {
    AttrDict attrs = Attrs(mode, "2", kEnds);
    std::vector<NodeEntry> xs;
    for (int i = 0; i < (attrs["mode"] == "lstm" ? 5 : 4); ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
    const NodePtr node = *TryMakeNode("RNN", "y", xs, attrs);
    const int64_t gates = attrs["mode"] == "lstm" ? 4 : attrs["mode"] == "gru" ? 3 : 1;
    std::vector<std::vector<std::vector<double>>> gradients;
    for (const double padding : {0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Numbers data = Varied({3, 2, 1});
      data.values[2] = data.values[4] = data.values[5] = padding;  // Sequences of one step and of two.
      std::map<std::string, HostTensor> at = {
          {"x0", HostTensor::Of(data, DType::kFloat64)},
          {"x1", HostTensor::Of(Parameters(gates * 2 * (2 * (1 + 2) + 2 * (4 + 2) + 4 * 2)), DType::kFloat64)},
          {"x2", HostTensor::Of(Varied({4, 2, 2}, 5, true), DType::kFloat64)},
          {"x3", HostTensor::Of(Varied({4, 2, 2}, 3, true), DType::kFloat64)}};
      at[absl::StrCat("x", xs.size() - 1)] = HostTensor::Of({{2}, {1, 2}}, DType::kFloat32);
      const auto dx = OneByOne().Evaluate(*BuildGradient({Output(node)}, {xs[0], xs[1], xs[2]}, {NodeEntry()}), at);
      ASSERT_TRUE(dx.ok()) << mode << ": " << dx.status();
      gradients.emplace_back();
      for (const HostTensor& gradient : *dx) gradients.back().push_back(gradient.values());
      EXPECT_EQ(gradients.back(), gradients[0]) << mode << ", " << padding;
    }
  }
}

TEST(RNN, InfersTheParameters) {
  const Op* op = Op::Find("RNN");
  NodeAttrs attrs;
  attrs.dict = {{"state_size", "3"}, {"num_layers", "2"}, {"mode", "lstm"}, {"bidirectional", "True"}};
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  ShapeVector in = {{5, 7, 4}, {}, {}, {}}, out = {{}, {}};
  EXPECT_TRUE((*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).value());
  EXPECT_EQ(in[1], Shape({480}));  // As MXNet says.
  EXPECT_EQ(in[2], Shape({4, 7, 3}));
  EXPECT_EQ(in[3], Shape({4, 7, 3}));
  EXPECT_EQ(out[0], Shape({5, 7, 6}));
  EXPECT_EQ(op->input_names(attrs, 4), (std::vector<std::string>{"data", "parameters", "state", "state_cell"}));
  EXPECT_EQ(op->num_visible_outputs(attrs), 1);
}

TEST(RNN, RefusesWhatDoesNotFit) {
  const std::vector<Numbers> right = {Varied({2, 1, 2}), Parameters(12), Varied({1, 1, 2})};
  const auto error = [&](std::vector<Numbers> inputs, AttrDict attrs) {
    const absl::Status status = ErrorOf("RNN", inputs, attrs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  std::vector<Numbers> inputs = right;
  inputs[1] = Parameters(13);
  EXPECT_NE(error(inputs, Attrs("rnn_tanh", "1")).find("[13]"), std::string::npos);
  EXPECT_NE(error(right, Attrs("rnn_tanh", "1", {{"projection_size", "1"}})).find("projections"), std::string::npos);
  EXPECT_NE(error(right, Attrs("rnn_tanh", "1", {{"p", "1"}})).find("'p'"), std::string::npos);
  EXPECT_NE(error(right, Attrs("gru2", "1")).find("gru"), std::string::npos);
  inputs = right;
  inputs[0] = Varied({2, 2});
  error(inputs, Attrs("rnn_tanh", "1"));
}

// More elements than there can be are an error, not an overflow.
TEST(RNN, RefusesSizesThatNoTensorHas) {
  NodeAttrs attrs;
  attrs.dict = {{"state_size", "1048576"}, {"num_layers", "1024"}, {"mode", "lstm"}};
  const Op* op = Op::Find("RNN");
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  ShapeVector in = {{int64_t{1} << 20, 1, int64_t{1} << 20}, {}, {}, {}}, out = {{}, {}};
  EXPECT_FALSE((*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).ok());
}

OP_CASES(RnnParamConcat,
         {
             OpCase{"JoinsVectors", "_rnn_param_concat", {{{2}, {1, 2}}, {{1}, {3}}}, {{"dim", "0"}}, {{{3}, {1, 2, 3}}}}
                 .TwiceDifferentiable(),
         });

// Inputs of unknown size share equally the elements that the known ones leave.
TEST(RnnParamConcat, InfersUnknownSizes) {
  const Op* op = Op::Find("_rnn_param_concat");
  NodeAttrs attrs;
  attrs.dict = {{"num_args", "4"}, {"dim", "0"}};
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  const auto& infer = *op->GetAttr<FInferShape>("FInferShape");
  ShapeVector in = {{Shape::kUnknown}, {3}, {}, {4}}, out = {{17}};
  EXPECT_TRUE(infer(attrs, &in, &out).value());
  EXPECT_EQ(in[0], Shape({5}));
  EXPECT_EQ(in[2], Shape({5}));
  ShapeVector odd = {{Shape::kUnknown}, {3}, {}, {4}}, whole = {{18}};
  EXPECT_FALSE(infer(attrs, &odd, &whole).ok());
  ShapeVector known = {{1}, {3}, {2}, {4}}, unknown = {{}};
  EXPECT_TRUE(infer(attrs, &known, &unknown).value());
  EXPECT_EQ(unknown[0], Shape({10}));
}

}  // namespace
}  // namespace gluond::testing::rnn
