// Reports of programs: steps with their FLOP, bytes and places, and what each pass did, against numbers made by hand.

#include "engine/compile/program_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/gradient.h"

namespace gluond {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using ReportPlace = ProgramReport::Place;

NodeEntry Dense(const NodeEntry& x, const std::string& name, int units) {
  return MakeNode("FullyConnected", name, {x, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")},
                  {{"num_hidden", std::to_string(units)}});
}

ProgramReport Reported(std::vector<NodeEntry> outputs, Signatures known, bool is_train = false, absl::string_view left_out = "") {
  UnitOptions options = {.is_train = is_train};
  absl::flat_hash_set<std::string> constants;
  PostOrderVisit(outputs, [&](const NodePtr& node) {
    if (node->is_variable() && !known.contains(node->name())) constants.insert(node->name());
  });
  if (!is_train) options.constants = std::make_shared<const absl::flat_hash_set<std::string>>(std::move(constants));
  absl::StatusOr<ProgramReport> report = ReportProgram({std::move(outputs)}, known, options, *PassSet::Parse(left_out));
  EXPECT_EQ(report.status(), absl::OkStatus());
  return report.ok() ? *std::move(report) : ProgramReport();
}
Signatures Given(const Shape& shape) { return {{"x", {shape, DType::kFloat32}}}; }

double FlopOf(const NodeEntry& y, Signatures known) { return Reported({y}, std::move(known)).steps.front().flop; }

const PassReport& PassOf(const ProgramReport& report, absl::string_view name) {
  for (const PassReport& pass : report.passes) {
    if (pass.name == name) return pass;
  }
  ADD_FAILURE() << "no pass " << name;
  return report.passes.front();
}

// Two rows of 3 numbers, of which 5 and then 4 are made: 2 * 2 * 3 * 5 and 2 * 2 * 5 * 4 FLOP.
TEST(ProgramReportTest, TellsEachStepOfASmallNetwork) {
  const NodeEntry x = MakeVariable("x");
  const ProgramReport report = Reported({Dense(MakeNode("relu", "active", {Dense(x, "first", 5)}), "second", 4)}, Given({2, 3}));
  ASSERT_EQ(report.steps.size(), 3u);
  const ProgramReport::Step &first = report.steps[0], &active = report.steps[1], &second = report.steps[2];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.op, "FullyConnected");
  EXPECT_EQ(first.flop, 60);
  EXPECT_TRUE(first.has_product);
  EXPECT_EQ(first.bytes_read, 4 * (2 * 3 + 5 * 3 + 5));
  EXPECT_EQ(first.bytes_written, 4 * 2 * 5);
  ASSERT_EQ(first.inputs.size(), 3u);
  EXPECT_EQ(first.inputs[1].name, "first_weight");
  EXPECT_EQ(first.inputs[1].shape, Shape({5, 3}));
  EXPECT_EQ(first.inputs[1].place, ReportPlace::kCaller);
  EXPECT_EQ(first.outputs[0].place, ReportPlace::kArena);
  EXPECT_EQ(first.outputs[0].last_step, 1u) << "relu is the last to read it";
  EXPECT_EQ(active.flop, 10) << "a call without products counts its elements";
  EXPECT_FALSE(active.has_product);
  EXPECT_EQ(active.outputs[0].offset, first.outputs[0].offset) << "in place";
  EXPECT_EQ(second.flop, 80);
  EXPECT_EQ(second.outputs[0].place, ReportPlace::kCaller);
  EXPECT_EQ(report.flop, 150);
  EXPECT_EQ(report.bytes_read, 4 * (26 + 10 + (10 + 20 + 4)));
  EXPECT_EQ(report.bytes_written, 4 * (10 + 10 + 8));
  EXPECT_EQ(report.arena_bytes, 64) << "40 bytes, aligned";
  EXPECT_EQ(report.variable_bytes, 4 * (6 + 15 + 5 + 20 + 4));
  EXPECT_EQ(report.output_bytes, 32);
  EXPECT_EQ(report.constant_bytes, 0);
  EXPECT_EQ(report.peak_bytes, 64 + 200 + 32);
}

// The change of shape does not run: whoever reads its result needs the first call's.
TEST(ProgramReportTest, ATensorIsNeededByTheReadersOfItsOtherShapes) {
  const NodeEntry flat = MakeNode("Reshape", "flat", {Dense(MakeVariable("x"), "first", 6)}, {{"shape", "(1, 12)"}});
  const ProgramReport report = Reported({MakeNode("sin", "last", {Dense(flat, "second", 4)})}, Given({2, 3}));
  ASSERT_EQ(report.steps.size(), 3u);
  EXPECT_EQ(report.steps[0].outputs[0].last_step, 1u);
  EXPECT_EQ(report.steps[1].inputs[0].name, "flat");
  EXPECT_EQ(report.steps[1].inputs[0].offset, report.steps[0].outputs[0].offset);
}

TEST(ProgramReportTest, CountsTheFlopOfProducts) {
  const NodeEntry x = MakeVariable("x"), z = MakeVariable("z");
  const auto two = [](const Shape& a, const Shape& b) {
    return Signatures{{"x", {a, DType::kFloat32}}, {"z", {b, DType::kFloat32}}};
  };
  const AttrDict window = {{"kernel", "(3, 3)"}, {"num_filter", "8"}, {"num_group", "2"}, {"no_bias", "True"}};
  const NodeEntry w = MakeVariable("w");
  // 8 filters of 2 channels and 3 x 3, at 2 x 4 x 5 places.
  EXPECT_EQ(FlopOf(MakeNode("Convolution", "c", {x, w}, window), Given({2, 4, 6, 7})), 2.0 * 2 * 8 * 4 * 5 * 2 * 9);
  // Each of 2 x 4 x 6 x 7 elements is put to 4 filters of its group.
  EXPECT_EQ(FlopOf(MakeNode("Deconvolution", "d", {x, w}, window), Given({2, 4, 6, 7})), 2.0 * 2 * 4 * 6 * 7 * 4 * 9);
  EXPECT_EQ(FlopOf(MakeNode("dot", "p", {x, z}), two({3, 4}, {4, 5})), 2.0 * 3 * 4 * 5);
  EXPECT_EQ(FlopOf(MakeNode("batch_dot", "p", {x, z}, {{"transpose_b", "True"}}), two({7, 3, 4}, {7, 5, 4})), 2.0 * 7 * 3 * 4 * 5);
  EXPECT_EQ(FlopOf(MakeNode("batch_dot", "p", {x, z}), two({0, 3, 4}, {0, 4, 5})), 0);
  EXPECT_EQ(FlopOf(MakeNode("_linalg_gemm2", "p", {x, z}), two({3, 4}, {4, 5})), 2.0 * 3 * 4 * 5);
  // 5 places, 2 samples, 3 heads of 4: each head multiplies (5, 4) and (4, 5).
  const NodeEntry scores = MakeNode("_contrib_interleaved_matmul_selfatt_qk", "s", {x}, {{"heads", "3"}});
  EXPECT_EQ(FlopOf(scores, Given({5, 2, 36})), 2.0 * 6 * 5 * 5 * 4);
  EXPECT_EQ(
      FlopOf(MakeNode("_contrib_interleaved_matmul_selfatt_valatt", "v", {x, z}, {{"heads", "3"}}), two({5, 2, 36}, {6, 5, 5})),
      2.0 * 6 * 5 * 5 * 4);
}

TEST(ProgramReportTest, CountsTheFlopOfRecurrentLayers) {
  const auto flop = [](const char* mode, const char* layers, const char* bidirectional) {
    std::vector<NodeEntry> inputs = {MakeVariable("x"), MakeVariable("p"), MakeVariable("h")};
    if (std::string(mode) == "lstm") inputs.push_back(MakeVariable("c"));
    return FlopOf(MakeNode("RNN", "r", inputs,
                           {{"mode", mode}, {"state_size", "5"}, {"num_layers", layers}, {"bidirectional", bidirectional}}),
                  Given({7, 2, 3}));
  };
  // 7 steps of 2 rows; 5 units of 4, 3 or 1 gates; the first layer reads 3 numbers and 5 states, the second 5 and 5.
  EXPECT_EQ(flop("lstm", "1", "False"), 2.0 * 14 * 5 * 4 * (3 + 5));
  EXPECT_EQ(flop("gru", "2", "False"), 2.0 * 14 * 5 * 3 * (8 + 10));
  EXPECT_EQ(flop("rnn_tanh", "1", "True"), 2.0 * 14 * 5 * 2 * 8);
  EXPECT_EQ(flop("lstm", "2", "True"), 2.0 * 14 * 5 * 4 * 2 * (8 + 15));
}

// The data's gradient is nobody's: half of the first layer's backward products are left out.
TEST(ProgramReportTest, ASecondProductOfAGradientCountsWhereItIsWanted) {
  const NodeEntry x = MakeVariable("x"), y = Dense(Dense(x, "first", 5), "second", 4);
  std::vector<NodeEntry> wanted;
  PostOrderVisit({&y, 1}, [&](const NodePtr& node) {
    if (node->is_variable() && node->name() != "x") wanted.push_back({node, 0});
  });
  Gradients gradients = *BuildGradient({&y, 1}, wanted, {NodeEntry()});
  gradients.insert(gradients.begin(), y);
  const ProgramReport report = Reported(gradients, Given({2, 3}), /*is_train=*/true);
  double first = 0, second = 0;
  for (const ProgramReport::Step& step : report.steps) {
    if (step.op != "_backward_FullyConnected") continue;
    (step.inputs[2].name == "first_weight" ? first : second) = step.flop;
  }
  EXPECT_EQ(first, 60);
  EXPECT_EQ(second, 2 * 80);
}

NodeEntry NormOf(const NodeEntry& x) {
  return MakeNode("BatchNorm", "norm",
                  {x, MakeVariable("gamma"), MakeVariable("beta"), MakeVariable("moving_mean"), MakeVariable("moving_var")});
}
NodeEntry ConvolutionOf(const NodeEntry& x) {
  return MakeNode("Convolution", "conv", {x, MakeVariable("conv_weight"), MakeVariable("conv_bias")},
                  {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"pad", "(1, 1)"}});
}

// A value of 4 MiB from a parameter of 4 bytes.
TEST(ProgramReportTest, TellsWhatAPassLeavesUndone) {
  const Shape wide = {1024, 1024};
  const NodeEntry w = MakeNode("broadcast_to", "wide", {MakeVariable("w")}, {{"shape", "(1024, 1024)"}});
  const UnitOptions options = {.constants =
                                   std::make_shared<const absl::flat_hash_set<std::string>>(absl::flat_hash_set<std::string>{"w"})};
  const absl::StatusOr<ProgramReport> report =
      ReportProgram({{MakeNode("elemwise_add", "y", {MakeVariable("x"), w})}},
                    {{"x", {wide, DType::kFloat32}}, {"w", {{1, 1}, DType::kFloat32}}}, options, PassSet());
  ASSERT_EQ(report.status(), absl::OkStatus());
  EXPECT_EQ(report->constant_bytes, 0);
  EXPECT_THAT(PassOf(*report, "keep_constants").effect, HasSubstr("would take much more"));
}

TEST(ProgramReportTest, TellsWhatEachPassDid) {
  const NodeEntry y = NormOf(ConvolutionOf(MakeVariable("x")));
  const ProgramReport report = Reported({y}, Given({2, 16, 6, 6}), false, "-simplify,-block_channels");
  ASSERT_EQ(report.passes.size(), Passes().size());
  for (size_t i = 0; i < Passes().size(); ++i) EXPECT_EQ(report.passes[i].name, Passes()[i].name);
  const PassReport& fold = PassOf(report, "fold_affine");
  EXPECT_EQ(fold.turn, PassTurn::kRan);
  EXPECT_EQ(fold.calls_before, 2);
  EXPECT_GT(fold.calls_after, 2) << "calls of constants are new";
  EXPECT_EQ(fold.num_changes, static_cast<int64_t>(fold.changes.size()));
  const auto gone = std::find_if(fold.changes.begin(), fold.changes.end(), [](const auto& each) { return each.after.empty(); });
  ASSERT_NE(gone, fold.changes.end());
  EXPECT_EQ(gone->before, "BatchNorm");
  EXPECT_THAT(fold.effect, HasSubstr("gone"));
  EXPECT_EQ(PassOf(report, "simplify").turn, PassTurn::kLeftOut);
  EXPECT_THAT(PassOf(report, "validate").effect, IsEmpty());
  EXPECT_THAT(PassOf(report, "keep_constants").effect, HasSubstr("kept"));
  EXPECT_THAT(PassOf(report, "plan_memory").effect, HasSubstr("arena"));
  const auto constant = [](const ProgramReport::Step& step) { return step.computes_constants; };
  EXPECT_GT(std::count_if(report.steps.begin(), report.steps.end(), constant), 0);
  const ProgramReport::Step& last = report.steps.back();
  EXPECT_EQ(last.op, "Convolution");
  EXPECT_EQ(last.pass, "fold_affine");
  EXPECT_EQ(last.inputs[1].place, ReportPlace::kConstant);
  EXPECT_EQ(report.flop, last.flop) << "constants are computed once";
  EXPECT_EQ(report.constant_bytes, 4 * (16 * 16 * 9 + 16));

  const ProgramReport training = Reported({y}, Given({2, 16, 6, 6}), /*is_train=*/true);
  EXPECT_EQ(PassOf(training, "fold_affine").turn, PassTurn::kOfOtherPrograms);
  EXPECT_EQ(training.steps.back().pass, "");
}

TEST(ProgramReportTest, TellsChainsOfRows) {
  NodeEntry y = MakeVariable("x");
  for (int i = 0; i < 3; ++i) y = MakeNode("relu", "r" + std::to_string(i), {y}) * 2.0;
  const ProgramReport report = Reported({y}, Given({64, 32768}));
  ASSERT_EQ(report.chains.size(), 1u);
  EXPECT_EQ(report.chains[0].first, 0u);
  EXPECT_EQ(report.chains[0].last, report.steps.size());
  EXPECT_EQ(report.chains[0].rows, 64);
  EXPECT_GT(report.chains[0].chunks, 1);
  for (const ProgramReport::Step& step : report.steps) EXPECT_EQ(step.chain, 0);
}

TEST(ProgramReportTest, HugeProgramsTakeNoMemory) {
  const NodeEntry y = MakeNode("relu", "r", {MakeNode("relu", "s", {MakeVariable("x")}) * 2.0});
  const ProgramReport report = Reported({y}, Given({int64_t{1} << 20, int64_t{1} << 28}));
  EXPECT_EQ(report.arena_bytes, int64_t{1} << 50);
  const NodeEntry deep = [] {
    NodeEntry y = MakeVariable("x");
    for (int i = 0; i < 20000; ++i) y = MakeNode("sin", "s", {y});
    return y;
  }();
  EXPECT_EQ(Reported({deep}, Given({2})).steps.size(), 20000u);
  const absl::Status wrong = ReportProgram({{y}}, {}, {}, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(wrong)) << wrong;
}

}  // namespace
}  // namespace gluond
