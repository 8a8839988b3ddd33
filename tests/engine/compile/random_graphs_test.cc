// Each optional pass against its absence, on graphs that nobody wrote: equal values, up to rounding. Each of them changes a
// good part of the graphs.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/compile/program_report.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond {
namespace {

// Draws a graph over images `x` of [rows, 16, 8, 8] and parameters.
class GraphMaker {
 public:
  // `odd`: with graphs that nobody trains.
  explicit GraphMaker(uint64_t seed, bool odd = false) : random_(seed), odd_(odd) {}

  std::vector<NodeEntry> Make() {
    images_ = {MakeVariable("x")};
    const int calls = 3 + Below(10);
    for (int i = 0; i < calls; ++i) images_.push_back(Image());
    std::vector<NodeEntry> outputs = {Head(images_.back())};
    if (Below(3) == 0) outputs.push_back(Any());
    if (Below(4) == 0) outputs.push_back(outputs[0]);
    return outputs;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::string Name(const char* kind) { return absl::StrCat(kind, next_++); }
  NodeEntry Any() { return images_[static_cast<size_t>(Below(static_cast<int>(images_.size())))]; }
  // Mostly the last one: graphs are deep.
  NodeEntry Recent() { return Below(4) == 0 ? Any() : images_.back(); }
  NodeEntry Channels(const std::string& name) { return MakeVariable(name, {{"__shape__", "(16,)"}}); }

  // A call that makes images of the same shape.
  NodeEntry Image() {
    switch (Below(11)) {
      case 0:
      case 1: {
        const std::string name = Name("conv");
        AttrDict dict = {{"kernel", Below(2) == 0 ? "(3, 3)" : "(1, 1)"}, {"num_filter", "16"}};
        dict["pad"] = dict["kernel"] == "(3, 3)" ? "(1, 1)" : "(0, 0)";
        if (Below(4) == 0) dict["num_group"] = "4";
        if (Below(3) == 0) {
          dict["no_bias"] = "True";
          return MakeNode("Convolution", name, {Recent(), MakeVariable(name + "_weight")}, dict);
        }
        return MakeNode("Convolution", name, {Recent(), MakeVariable(name + "_weight"), Bias(name)}, dict);
      }
      case 2:
      case 3: {
        const std::string name = Name("norm");
        return MakeNode(
            "BatchNorm", name,
            {Recent(), MakeVariable(name + "_gamma"), MakeVariable(name + "_beta"), Mean(name), MakeVariable(name + "_var")},
            {{"fix_gamma", Below(2) == 0 ? "True" : "False"}});
      }
      case 4: return MakeNode("Activation", Name("act"), {Recent()}, {{"act_type", Below(2) == 0 ? "relu" : "tanh"}});
      case 5: return Recent() + Any();
      case 6: return Recent() * Any();
      case 7:
        return MakeNode("Pooling", Name("pool"), {Recent()},
                        {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"pool_type", Below(2) == 0 ? "max" : "avg"}});
      case 8: {
        const NodeEntry scale = MakeNode("Reshape", Name("shape"), {Channels(Name("scale"))}, {{"shape", "(1, 16, 1, 1)"}});
        return MakeNode("broadcast_mul", Name("scaled"), {Recent(), Below(2) == 0 ? scale : scale * 0.5});
      }
      case 9: return Again(Recent());
      default: return MakeNode("sigmoid", Name("sigmoid"), {Recent()});
    }
  }

  // A second call of the same operator on the same inputs, beside the first one: an equal one, or one of another kind.
  NodeEntry Again(const NodeEntry& first) {
    const Node& node = *first.node;
    if (node.is_variable() || (!odd_ && !node.facts().mutated.empty())) return MakeNode("tanh", Name("tanh"), {first});
    AttrDict dict = node.attrs.dict;
    const auto make_other = [&](const char* key, const char* one, const char* other) {
      if (const auto kind = dict.find(key); kind != dict.end() && Below(2) == 0) kind->second = kind->second == one ? other : one;
    };
    make_other("act_type", "relu", "tanh");
    make_other("pool_type", "max", "avg");
    make_other("fix_gamma", "True", "False");
    return MakeNode(node.op()->name(), Name("again"), node.inputs, std::move(dict)) + first;
  }

  // A mean, or an expression of one, which the norm says that it writes.
  NodeEntry Mean(const std::string& name) {
    const NodeEntry mean = Channels(name + "_mean");
    return odd_ && Below(3) == 0 ? mean * 0.5 : mean;
  }
  // A bias, or an expression of one.
  NodeEntry Bias(const std::string& name) {
    const NodeEntry bias = Channels(name + "_bias");
    return Below(3) == 0 ? bias * 0.25 + Channels(name + "_more") : bias;
  }

  NodeEntry Head(const NodeEntry& image) {
    const std::string name = Name("dense");
    const NodeEntry y = MakeNode("FullyConnected", name, {image, MakeVariable(name + "_weight"), MakeVariable(name + "_bias")},
                                 {{"num_hidden", "10"}});
    switch (Below(3)) {
      case 0: return y;
      case 1: return MakeNode("softmax", Name("softmax"), {y});
      default:
        return MakeNode("BatchNorm", name + "_norm",
                        {y, MakeVariable(name + "_gamma"), MakeVariable(name + "_beta"), MakeVariable(name + "_mean"),
                         MakeVariable(name + "_norm_var")});
    }
  }

  std::mt19937_64 random_;
  const bool odd_;
  std::vector<NodeEntry> images_;
  int next_ = 0;
};

class RandomGraphsTest : public testing::Test {
 protected:
  using Names = absl::flat_hash_set<std::string>;

  // Values that depend on the name alone; variances are positive.
  Tensor ValueOf(const Executor::Variable& variable) {
    Tensor value = *Tensor::Empty(*allocator_, variable.shape, variable.dtype);
    std::mt19937_64 random(std::hash<std::string>()(variable.name));
    for (int64_t i = 0; i < value.Size(); ++i) {
      const float noise = static_cast<float>(random() % 2001) / 1000 - 1;
      value.data<float>()[i] = variable.name.ends_with("_var") ? 0.5f + std::abs(noise) : noise / 2;
    }
    return value;
  }

  static Signatures ImagesOf(int64_t rows) { return {{"x", {Shape{rows, 16, 8, 8}, DType::kFloat32}}}; }

  // Parameters of a prediction; null while training.
  static std::shared_ptr<const Names> ConstantsOf(const std::vector<NodeEntry>& outputs, bool is_train) {
    if (is_train) return nullptr;
    Names names;
    PostOrderVisit(outputs, [&](const NodePtr& node) {
      if (node->is_variable() && node->name() != "x") names.insert(node->name());
    });
    return std::make_shared<const Names>(std::move(names));
  }

  // The optional passes that run for such a graph. Counts those that change something.
  std::vector<std::string> PassesOf(const std::vector<NodeEntry>& outputs, int64_t rows, bool is_train) {
    const absl::StatusOr<ProgramReport> report =
        ReportProgram({outputs}, ImagesOf(rows), {.is_train = is_train, .constants = ConstantsOf(outputs, is_train)}, PassSet());
    EXPECT_EQ(report.status(), absl::OkStatus());
    std::vector<std::string> passes;
    for (const PassReport& pass : report->passes) {
      if (!pass.optional || pass.turn != PassTurn::kRan) continue;
      passes.push_back(pass.name);
      changed_[pass.name] += pass.effect.empty() ? 0 : 1;
    }
    return passes;
  }
  // A comparison that no graph makes would tell nothing.
  void ExpectThatEachChanges(int at_least) {
    for (const auto& [pass, graphs] : changed_) EXPECT_GE(graphs, at_least) << "graphs that " << pass << " changes";
  }

  // The outputs of the second of two runs; the third must not differ from it, nor the first.
  std::vector<std::vector<float>> Outputs(const std::vector<NodeEntry>& outputs, int64_t rows, bool is_train, PassSet left_out,
                                          int threads = 2) {
    const ExecutorOptions options = {.is_train = is_train, .constants = ConstantsOf(outputs, is_train), .left_out = left_out};
    auto executor = Executor::Compile({outputs}, ImagesOf(rows), options, *lanes_[static_cast<size_t>(threads - 1)], *allocator_);
    EXPECT_EQ(executor.status(), absl::OkStatus());
    std::vector<Tensor> inputs;
    for (const Executor::Variable& variable : (*executor)->inputs()) inputs.push_back(ValueOf(variable));
    const auto constants = std::make_shared<ConstantTensors>(allocator_);
    std::vector<std::vector<float>> last;
    for (int i = 0; i < 3; ++i) {
      constants->BeginRun();
      gluond::Run run = (*executor)->NewRun();
      for (size_t k = 0; k < inputs.size(); ++k) {
        const bool written = (*executor)->inputs()[k].mutated && is_train;
        run.inputs[k] = written ? ValueOf((*executor)->inputs()[k]) : inputs[k];
        if (!is_train && (*executor)->inputs()[k].name != "x") constants->Add(inputs[k]);
      }
      if (!is_train) run.constants = constants;
      std::vector<Tensor> results;
      EXPECT_EQ((*executor)->RunAndWait(std::move(run), &results), absl::OkStatus());
      std::vector<std::vector<float>> values;
      for (const Tensor& each : results) values.emplace_back(each.data<float>(), each.data<float>() + each.Size());
      EXPECT_TRUE(i == 0 || values == last) << "what is kept has the bits of what is computed";
      last = std::move(values);
    }
    return last;
  }

  // Relative to an output's largest number, or to `least`.
  static void ExpectNear(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want, double tolerance,
                         double least = 1e-3) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      ASSERT_EQ(got[k].size(), want[k].size());
      double size = least;
      for (const float value : want[k]) size = std::max(size, std::abs(static_cast<double>(value)));
      for (size_t i = 0; i < got[k].size(); ++i)
        ASSERT_NEAR(got[k][i], want[k][i], tolerance * size) << "output " << k << ", " << i;
    }
  }

  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", int64_t{1} << 30, "--none");
  const std::shared_ptr<DeviceAllocator> allocator_ = *DeviceAllocator::Create(Device(), budget_);
  // Teams of one, two and three threads.
  const std::vector<std::shared_ptr<Lane>> lanes_ = {LaneOf(1), LaneOf(2), LaneOf(3)};
  std::map<std::string, int> changed_;  // By pass: graphs.

 private:
  std::shared_ptr<Lane> LaneOf(int threads) { return *Lane::Create(Device(), {.threads = threads}, *allocator_); }
};

constexpr int kGraphs = 40;
// Chunks of rows come from the larger batches only.
constexpr int64_t kBatches[] = {1, 7, 64, 99};

TEST_F(RandomGraphsTest, PredictionsAreTheSameWithoutAPass) {
  for (int seed = 0; seed < kGraphs; ++seed) {
    const std::vector<NodeEntry> outputs = GraphMaker(static_cast<uint64_t>(seed), /*odd=*/true).Make();
    const int64_t rows = kBatches[seed % 4];
    const auto all = Outputs(outputs, rows, false, {});
    for (const int threads : {1, 3}) EXPECT_EQ(Outputs(outputs, rows, false, {}, threads), all) << "graph " << seed;
    std::string none;
    for (const std::string& pass : PassesOf(outputs, rows, false)) {
      SCOPED_TRACE(absl::StrCat("graph ", seed, " without ", pass));
      ExpectNear(Outputs(outputs, rows, false, *PassSet::Parse(absl::StrCat("-", pass))), all, 1e-4);
      absl::StrAppend(&none, "-", pass, ",");
    }
    SCOPED_TRACE(absl::StrCat("graph ", seed, " without any"));
    ExpectNear(Outputs(outputs, rows, false, *PassSet::Parse(none)), all, 1e-4);
    if (HasFailure()) return;
  }
  ExpectThatEachChanges(kGraphs / 8);
}

// The sum of a softmax, or of a norm, has no gradient: that of a bent one has.
TEST_F(RandomGraphsTest, GradientsAreTheSameWithoutAPass) {
  for (int seed = 0; seed < kGraphs; ++seed) {
    const std::vector<NodeEntry> ys = {MakeNode("tanh", "loss", {GraphMaker(static_cast<uint64_t>(seed)).Make()[0]})};
    std::vector<NodeEntry> xs;
    const absl::flat_hash_set<std::string> written = MutatedVariables(PostOrder(ys));
    PostOrderVisit(ys, [&](const NodePtr& node) {
      if (node->is_variable() && !written.contains(node->name())) xs.push_back({node, 0});
    });
    const absl::StatusOr<Gradients> gradients = BuildGradient(ys, xs, {NodeEntry()});
    ASSERT_EQ(gradients.status(), absl::OkStatus());
    std::vector<NodeEntry> outputs = ys;
    outputs.insert(outputs.end(), gradients->begin(), gradients->end());
    const auto all = Outputs(outputs, 3, true, {});
    for (const std::string& pass : PassesOf(outputs, 3, true)) {
      SCOPED_TRACE(absl::StrCat("graph ", seed, " without ", pass));
      ExpectNear(Outputs(outputs, 3, true, *PassSet::Parse(absl::StrCat("-", pass))), all, 1e-5, 1);
    }
    if (HasFailure()) return;
  }
  ExpectThatEachChanges(kGraphs / 8);
}

}  // namespace
}  // namespace gluond
