// The list of passes: what each mode and device gets, and what may be left out.

#include "engine/compile/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/op.h"
#include "engine/core/op_facts.h"

namespace gluond {
namespace {

using testing::HasSubstr;

TEST(PassSetTest, NamesOptionalPasses) {
  EXPECT_EQ(*PassSet::Parse(""), PassSet());
  const PassSet two = *PassSet::Parse("-simplify, -row_chains");
  for (const Pass& pass : Passes())
    EXPECT_EQ(two.Contains(pass.name), pass.name == "simplify" || pass.name == "row_chains") << pass.name;
  for (const char* wrong : {"simplify", "-simplifY", "-plan_memory", "-", "-row_chains,fold_affine"}) {
    const absl::Status status = PassSet::Parse(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("-keep_constants")) << "what there is";
  }
}

const Shape kImages = {2, 16, 6, 6};

NodeEntry PassConvolve(const NodeEntry& x, const std::string& name) {
  return MakeNode("Convolution", name, {x, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")},
                  {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"pad", "(1, 1)"}});
}
NodeEntry PassNorm(const NodeEntry& x) {
  return MakeNode("BatchNorm", "norm",
                  {x, MakeVariable("gamma"), MakeVariable("beta"), MakeVariable("moving_mean"), MakeVariable("moving_var")});
}

class PipelineTest : public testing::Test {
 protected:
  using Names = absl::flat_hash_set<std::string>;

  Unit Made(const NodeEntry& y, UnitOptions options, absl::string_view left_out = "", Stage last = Stage::kPlan) {
    Names constants;
    PostOrderVisit({&y, 1}, [&](const NodePtr& node) {
      if (node->is_variable() && node->name() != "x") constants.insert(node->name());
    });
    if (!options.is_train) options.constants = std::make_shared<const Names>(std::move(constants));
    Unit unit({{y}}, {{"x", {kImages, DType::kFloat32}}}, options);
    EXPECT_EQ(RunPasses(last, *PassSet::Parse(left_out), &unit), absl::OkStatus());
    return unit;
  }

  static int Count(const Unit& unit, absl::string_view op) {
    int count = 0;
    PostOrderVisit(unit.graph().outputs,
                   [&](const NodePtr& node) { count += !node->is_variable() && node->op()->name() == op ? 1 : 0; });
    return count;
  }

  const NodeEntry x_ = MakeVariable("x");
  const NodeEntry y_ = PassConvolve(PassNorm(PassConvolve(x_, "a")), "b");
};

TEST_F(PipelineTest, PredictionsAreRewrittenAndTrainingIsNot) {
  EXPECT_EQ(Count(Made(y_, {}), "BatchNorm"), 0);
  EXPECT_EQ(Count(Made(y_, {}), "_blocked_Convolution"), 2);
  EXPECT_GT(Made(y_, {}).num_constants(), 0u);
  const Unit training = Made(y_, {.is_train = true});
  EXPECT_EQ(Count(training, "BatchNorm"), 1);
  EXPECT_EQ(Count(training, "_blocked_Convolution"), 0);
  EXPECT_EQ(training.num_constants(), 0u);
}

TEST_F(PipelineTest, EachOptionalPassMayBeLeftOut) {
  EXPECT_EQ(Count(Made(y_, {}, "-fold_affine"), "BatchNorm"), 0) << "blocks of channels take it, too";
  EXPECT_EQ(Count(Made(y_, {}, "-fold_affine,-block_channels"), "BatchNorm"), 1);
  EXPECT_EQ(Count(Made(y_, {}, "-block_channels"), "_blocked_Convolution"), 0);
  EXPECT_EQ(Made(y_, {}, "-keep_constants").num_constants(), 0u);
  const NodeEntry twice = MakeNode("relu", "r", {x_}) + MakeNode("relu", "s", {x_});
  EXPECT_EQ(Count(Made(twice, {}), "relu"), 1);
  EXPECT_EQ(Count(Made(twice, {}, "-simplify"), "relu"), 2);
}

TEST_F(PipelineTest, OnlyTheFirstStageRunsWhereShapesAreOpen) {
  Unit unit = Made(y_, {.open_shapes = true}, "", Stage::kRewrite);
  EXPECT_EQ(Count(unit, "BatchNorm"), 0);
  EXPECT_EQ(unit.num_constants(), 0u);
  EXPECT_EQ(unit.plan.arena_bytes, 0);
}

TEST_F(PipelineTest, WeightsOf16BitsAreFoldedWhereSomebodyLooksAtTheValues) {
  const auto constants = std::make_shared<const Names>(Names{"a_weight", "a_bias", "gamma", "beta", "moving_mean", "moving_var"});
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
    for (const bool checks : {false, true}) {
      Unit unit({{PassNorm(PassConvolve(x_, "a"))}}, {{"x", {kImages, dtype}}}, {.checks_values = checks, .constants = constants});
      EXPECT_EQ(RunPasses(Stage::kRewrite, {}, &unit), absl::OkStatus());
      EXPECT_EQ(Count(unit, "BatchNorm"), checks || dtype == DType::kFloat32 ? 0 : 1) << Name(dtype);
    }
  }
}

TEST_F(PipelineTest, AWrongGraphIsToldByWhicheverPassFindsIt) {
  const NodeEntry wrong = PassNorm(PassConvolve(MakeNode("Reshape", "r", {x_}, {{"shape", "(7, -1)"}}), "a"));
  Unit unit({{wrong}}, {{"x", {kImages, DType::kFloat32}}}, {.constants = std::make_shared<const Names>(Names{"gamma"})});
  const absl::Status status = RunPasses(Stage::kPlan, {}, &unit);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// The streams of the calls of Dropout and the like, by the calls' names.
std::vector<std::pair<std::string, uint32_t>> Streams(const Unit& unit) {
  std::vector<std::pair<std::string, uint32_t>> streams;
  PostOrderVisit(unit.graph().outputs, [&](const NodePtr& node) {
    if (node->facts().random) streams.emplace_back(node->name(), node->attrs.random_stream);
  });
  return streams;
}

TEST_F(PipelineTest, NoPassChangesAStreamOfRandomNumbers) {
  const auto drop = [](const NodeEntry& x, const std::string& name) { return MakeNode("Dropout", name, {x}); };
  const NodeEntry a = MakeNode("relu", "r", {x_}), b = MakeNode("relu", "s", {x_});  // Simplify makes one of them.
  const NodeEntry y = drop(drop(a, "first"), "second") + drop(b, "third");
  const auto want = testing::ElementsAre(testing::Pair("first", 0), testing::Pair("second", 1), testing::Pair("third", 2));
  EXPECT_THAT(Streams(Made(y, {.is_train = true})), want);
  EXPECT_THAT(Streams(Made(y, {.is_train = true}, "-simplify")), want);
  PostOrderVisit({&y, 1}, [](const NodePtr& node) { EXPECT_EQ(node->attrs.random_stream, 0u) << "graphs share their nodes"; });
}

// A prediction passes through as many nodes as there are, each a number of times that does not grow with the graph.
TEST_F(PipelineTest, DeepAndWideGraphsAreCompiled) {
  NodeEntry deep = x_;
  for (int i = 0; i < 100000; ++i) deep = MakeNode("relu", "r", {deep});
  EXPECT_EQ(Count(Made(deep, {}), "relu"), 100000);
  NodeEntry wide = MakeNode("_zeros", "z", {}, {{"shape", "(2, 16, 6, 6)"}});
  for (int i = 0; i < 20000; ++i) wide = wide + (i % 2 == 0 ? x_ : MakeNode("_mul_scalar", "m", {wide}, {{"scalar", "2"}}));
  EXPECT_GT(Made(wide, {}).plan.arena_bytes, 0);
}

}  // namespace
}  // namespace gluond
