// Explain: the program of a model, of a training step and of a published version, and requests that are wrong.

#include "absl/strings/str_cat.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using Models = v1::ModelService::Stub;

constexpr int kDeepCalls = 4000;

class ExplainTest : public ServingTest {
 protected:
  v1::ExplainResponse Explain(const std::string& json, StatusCode expected = StatusCode::OK) {
    return Call(models_, &Models::Explain, json, expected);
  }
  template <class Change>
  void Restart(Change change) {
    DropStubs();
    Limits limits;
    change(&limits);
    StartServer(limits);
    MakeStubs();
  }
  void DefineDeep() {
    std::string nodes = R"({"name": "n0", "op": "relu", "inputs": ["data"]})";
    for (int i = 1; i < kDeepCalls; ++i)
      absl::StrAppend(&nodes, R"(, {"name": "n)", i, R"(", "op": "relu", "inputs": ["n)", i - 1, R"("]})");
    Call(models_, &Models::DefineModel, R"({"model": "deep", "graph": {"nodes": [)" + nodes + R"(]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})");
  }
  void DefineImages() {
    Call(models_, &Models::DefineModel, R"({"model": "images", "block": {"block": "HybridSequential", "children": [
        {"block": "Conv2D", "attributes": {"channels": 16, "kernel_size": [3, 3]}}, {"block": "BatchNorm"},
        {"block": "Conv2D", "attributes": {"channels": 16, "kernel_size": [3, 3]}}]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 3, -1, -1]}]})");
  }
};

TEST_F(ExplainTest, TellsTheProgramOfAModel) {
  const v1::ExplainResponse program = Explain(R"({"model": "mlp"})");
  EXPECT_EQ(program.name(), "mlp");
  EXPECT_EQ(program.version(), 0);
  EXPECT_EQ(program.device(), "cpu");
  ASSERT_EQ(program.inputs_size(), 1);
  EXPECT_EQ(program.inputs(0).name(), "data");
  EXPECT_THAT(program.inputs(0).shape(), ElementsAre(1, 4)) << "one row";
  ASSERT_EQ(program.steps_size(), 3);
  EXPECT_EQ(program.steps(0).op(), "FullyConnected");
  EXPECT_EQ(program.steps(0).flop(), 2 * 4 * 8);
  EXPECT_EQ(program.steps(2).flop(), 2 * 8 * 3);
  EXPECT_TRUE(program.steps(2).has_product());
  EXPECT_EQ(program.steps(0).bytes_read(), 4 * (4 + 32 + 8));
  EXPECT_EQ(program.steps(0).outputs(0).place(), v1::ProgramTensor::ARENA);
  EXPECT_EQ(program.steps(2).outputs(0).place(), v1::ProgramTensor::CALLER);
  EXPECT_FALSE(program.steps(0).has_chain());
  EXPECT_EQ(program.totals().flop(), 64 + 8 + 48);
  EXPECT_EQ(program.totals().variable_bytes(), 4 * (4 + 32 + 8 + 24 + 3));
  EXPECT_EQ(program.totals().peak_bytes(), program.totals().arena_bytes() + program.totals().variable_bytes() + 12);
  ASSERT_GT(program.passes_size(), 0);
  EXPECT_EQ(program.passes(0).name(), "validate");
  const v1::ExplainResponse many = Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": [32, 4]}]})");
  EXPECT_EQ(many.totals().flop(), 32 * program.totals().flop());
}

TEST_F(ExplainTest, TellsAStepOfTraining) {
  const v1::ExplainResponse step = Explain(
      R"({"model": "mlp", "mode": "TRAIN_STEP", "inputs": [{"name": "data", "shape": [6, 4]}, {"name": "label", "shape": [6]}]})");
  EXPECT_EQ(step.mode(), v1::ExplainRequest::TRAIN_STEP);
  EXPECT_EQ(step.inputs_size(), 2);
  double products = 0;
  for (const v1::ProgramStep& each : step.steps()) products += each.has_product() ? each.flop() : 0;
  // Forward, and the gradients of both weights and of what lies between.
  EXPECT_EQ(products, 6 * (2 * 64 + 3 * 48));
  EXPECT_EQ(step.steps(step.steps_size() - 1).op().substr(0, 7), "_multi_") << "the update comes last";
  Call(models_, &Models::DefineModel, R"({"model": "bare", "block": {"block": "Dense", "attributes": {"units": 3}}})");
  Explain(R"({"model": "bare", "mode": "TRAIN_STEP"})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("trainer");
}

TEST_F(ExplainTest, TellsWhatAPublishedVersionServes) {
  DefineImages();
  Call(models_, &Models::InitializeParameters, R"({"model": "images"})");
  Call(models_, &Models::Predict, R"({"model": "images", "inputs": {"data": {"shape": [1, 3, 8, 8], "fill": {"constant": 1}}}})");
  const std::string shape = R"("inputs": [{"name": "data", "shape": [2, 3, 8, 8]}]})";
  const v1::ExplainResponse model = Explain(R"({"model": "images", )" + shape);
  EXPECT_GT(model.totals().constant_bytes(), 0) << "BatchNorm is folded";
  Publish("", StatusCode::OK, "images");
  const v1::ExplainResponse version = Explain(R"({"served": "images", "version": "1", )" + shape);
  EXPECT_EQ(version.version(), 1);
  EXPECT_EQ(version.totals().constant_bytes(), 0) << "that has been done when it was published";
  EXPECT_LT(version.steps_size(), model.steps_size());
  const auto pass_of = [&version](absl::string_view name, bool once) {
    for (const v1::ProgramPass& pass : version.passes()) {
      if (pass.name() == name && pass.once() == once) return pass;
    }
    ADD_FAILURE() << "no pass " << name;
    return v1::ProgramPass();
  };
  EXPECT_TRUE(version.passes(0).once()) << "what publishing has done comes first";
  const v1::ProgramPass folded = pass_of("fold_affine", true), kept = pass_of("keep_constants", true);
  EXPECT_THAT(folded.effect(), HasSubstr("1 calls gone"));
  EXPECT_GT(kept.calls_before(), kept.calls_after());
  EXPECT_THAT(kept.effect(), HasSubstr("values that follow from parameters became parameters"));
  EXPECT_EQ(pass_of("fold_affine", false).effect(), "") << "there is nothing left";
  EXPECT_EQ(pass_of("validate", false).calls_before(), kept.calls_after());
  EXPECT_EQ(pass_of("validate", true).calls_before(), 3) << "the model's own graph";
  int made_by_passes = 0;
  for (const v1::ProgramStep& step : version.steps()) made_by_passes += step.made_by().empty() ? 0 : 1;
  EXPECT_GT(made_by_passes, 0);
  EXPECT_EQ(Explain(R"({"served": "images", )" + shape).version(), 1);
  Explain(R"({"served": "images", "version": "2"})", StatusCode::NOT_FOUND);
  Explain(R"({"served": "images", "mode": "TRAIN_STEP"})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("only predicts");
}

TEST_F(ExplainTest, WrongRequestsAreToldWhatToDo) {
  Explain(R"({"model": "mpl"})", StatusCode::NOT_FOUND);
  ExpectMessage("mlp");
  Explain("{}", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("one of them");
  Explain(R"({"model": "mlp", "served": "mlp"})", StatusCode::INVALID_ARGUMENT);
  Explain(R"({"model": "mlp", "version": "1"})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("`served`");
  Explain(R"({"model": "mlp", "mode": 7})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("TRAIN_STEP");
  Explain(R"({"model": "mlp", "inputs": [{"name": "dat", "shape": [1, 4]}]})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("did you mean 'data'");
  Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": [1, 5]}]})", StatusCode::INVALID_ARGUMENT);
  ExpectMessage("expected [?,4]");
  Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": [-1, 4]}]})", StatusCode::INVALID_ARGUMENT);
  Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": [1, 4]}, {"name": "data", "shape": [1, 4]}]})",
          StatusCode::INVALID_ARGUMENT);
  ExpectMessage("two shapes");
  DefineImages();
  Explain(R"({"model": "images"})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("open are: data [1,3,?,?]");
}

TEST_F(ExplainTest, HugeShapesTakeNoMemory) {
  const auto bytes = [this] { return Call(models_, &Models::GetModel, R"({"model": "mlp"})").model().tensor_bytes(); };
  const int64_t before = bytes();
  const v1::ExplainResponse huge = Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": ["17592186044416", 4]}]})");
  EXPECT_GE(huge.totals().arena_bytes(), int64_t{1} << 49);
  EXPECT_EQ(bytes(), before);
  Explain(R"({"model": "mlp", "inputs": [{"name": "data", "shape": ["281474976710656", 4]}]})", StatusCode::INVALID_ARGUMENT);
}

// A message holds the sums of any program, and as many steps as there is room for.
TEST_F(ExplainTest, AProgramThatIsTooLargeForAMessageIsToldInPart) {
  DefineDeep();
  const v1::ExplainResponse whole = Explain(R"({"model": "deep"})");
  EXPECT_EQ(whole.steps_size(), kDeepCalls);
  EXPECT_EQ(whole.steps(1).inputs_size(), 1);
  const auto size = static_cast<int64_t>(whole.ByteSizeLong());
  for (const int64_t most : {size - 1, size / 2}) {
    Restart([most](Limits* limits) { limits->max_message_bytes = most; });
    DefineDeep();
    const v1::ExplainResponse part = Explain(R"({"model": "deep"})");
    EXPECT_LE(static_cast<int64_t>(part.ByteSizeLong()), most);
    EXPECT_EQ(part.totals().flop(), whole.totals().flop());
    EXPECT_EQ(part.passes_size(), whole.passes_size());
    EXPECT_EQ(part.steps(1).inputs_size(), 0);
    EXPECT_EQ(part.steps(1).outputs_size(), 1);
    EXPECT_EQ(part.steps_size() == kDeepCalls, most == size - 1);
    EXPECT_GT(part.steps_size(), kDeepCalls / 4);
  }
}

// A chain of so many calls takes more to look at than the server has.
TEST_F(ExplainTest, AProgramThatIsTooMuchToLookAtIsRefused) {
  Restart([](Limits* limits) { limits->max_memory_bytes = 24 << 20; });
  DefineMlp("mlp");
  DefineDeep();
  Explain(R"({"model": "deep"})", StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_memory_bytes");
  EXPECT_EQ(Explain(R"({"model": "mlp"})").steps_size(), 3);
  Call(models_, &Models::Predict, R"({"model": "deep", "inputs": {"data": {"shape": [1, 4], "fill": {"constant": 1}}}})");
}

}  // namespace
}  // namespace gluond::server
