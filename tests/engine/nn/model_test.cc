#include "engine/nn/model.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/nn/node_spec.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

// y = x w' + b with w = {{1, 2}, {3, 4}}, b = {10, 20}.
class LinearModelTest : public ModelTest {
 protected:
  LinearModelTest() : model_(MakeModel({"Dense", "", {{"units", "2"}}}, {{"data", {-1, 2}}})) {
    EXPECT_OK(Set(*model_, {{"weight", Make<float>({2, 2}, {1, 2, 3, 4})}, {"bias", Make<float>({2}, {10, 20})}}));
  }
  const std::shared_ptr<Model> model_;
};

TEST_F(LinearModelTest, PredictsBatchesOfAnySize) {
  EXPECT_EQ(model_->outputs()[0].signature.shape, Shape({-1, 2}));
  auto y = Predict(*model_, {{"data", Make<float>({1, 2}, {1, 1})}});
  ASSERT_OK(y.status());
  EXPECT_EQ((*y)[0].name, "output");
  EXPECT_EQ(Values((*y)[0].tensor), (std::vector<float>{13, 27}));
  auto z = Predict(*model_, {{"data", Make<float>({2, 2}, {1, 0, 0, 1})}});
  ASSERT_OK(z.status());
  EXPECT_EQ(Values((*z)[0].tensor), (std::vector<float>{11, 23, 12, 24}));
  EXPECT_EQ(Values((*y)[0].tensor), (std::vector<float>{13, 27})) << "the first answer is the caller's";
}

TEST_F(LinearModelTest, ConvertsInputs) {
  auto y = Predict(*model_, {{"data", Make<uint8_t>({1, 2}, {255, 0})}});
  ASSERT_OK(y.status());
  EXPECT_EQ(Values((*y)[0].tensor), (std::vector<float>{265, 785}));
}

TEST_F(LinearModelTest, GoesBackFromHeadGradients) {
  ASSERT_OK(Forward(*model_, {{"data", Make<float>({2, 2}, {1, 2, 3, 4})}}).status());
  const auto report = Backward(*model_, {{"output", Make<float>({2, 2}, {1, 0, 0, 2})}});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->written, (std::vector<std::string>{"weight", "bias"}));
  auto grads = *Gradients(*model_);
  EXPECT_EQ(Values(grads[0].tensor), (std::vector<float>{1, 2, 6, 8}));  // dy' x.
  EXPECT_EQ(Values(grads[1].tensor), (std::vector<float>{1, 2}));
}

TEST_F(LinearModelTest, ABackwardNeedsAForwardOfItsOwn) {
  EXPECT_EQ(Backward(*model_).status().code(), absl::StatusCode::kFailedPrecondition);
  const Tensor x = Make<float>({1, 2}, {1, 1});
  ASSERT_OK(Forward(*model_, {{"data", x}}, Mode::kPredict).status());
  EXPECT_EQ(Backward(*model_).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Forward(*model_, {{"data", x}}).status());
  ASSERT_OK(Backward(*model_).status());
  EXPECT_EQ(Backward(*model_).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Forward(*model_, {{"data", x}}).status());
  ASSERT_OK(Set(*model_, {{"bias", Make<float>({2}, {0, 0})}}));
  EXPECT_EQ(Backward(*model_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LinearModelTest, HonoursGradReq) {
  const auto configure = [&](const char* name, GradReq req) {
    return Await<absl::Status>([&](auto done) { model_->Configure(name, {req, {}, {}}, done); });
  };
  ASSERT_OK(configure("weight", GradReq::kNull));
  ASSERT_OK(configure("bias", GradReq::kAdd));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Forward(*model_, {{"data", Make<float>({2, 2}, {1, 2, 3, 4})}}).status());
    EXPECT_EQ(Backward(*model_)->written, std::vector<std::string>{"bias"});
  }
  EXPECT_EQ(Values((*Gradients(*model_, {"bias"}))[0].tensor), (std::vector<float>{6, 6}));
  EXPECT_EQ(Gradients(*model_, {"weight"}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Await<absl::Status>([&](auto done) { model_->ZeroGradients(done); }));
  EXPECT_EQ(Values((*Gradients(*model_, {"bias"}))[0].tensor), (std::vector<float>{0, 0}));
}

TEST_F(LinearModelTest, SetsAllOrNothing) {
  const absl::Status status =
      Set(*model_, {{"bias", Make<float>({2}, {0, 0})}, {"weight", Make<float>({2, 3}, {0, 0, 0, 0, 0, 0})}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'weight' is float32[2,2], got float32[2,3]"), absl::string_view::npos) << status;
  EXPECT_EQ(Values((*Get(*model_, {"bias"}))[0].tensor), (std::vector<float>{10, 20}));
  EXPECT_EQ(Set(*model_, {{"bais", Make<float>({2}, {0, 0})}}).code(), absl::StatusCode::kNotFound);
}

TEST_F(LinearModelTest, AConditionIsAskedWhenTheTurnComes) {
  std::atomic<int> changes = 0;
  std::promise<absl::Status> second;
  const auto only_first = [&] { return changes == 0 ? absl::OkStatus() : absl::AbortedError("changed"); };
  {
    const ScopedCondition condition(only_first);
    model_->SetParameters({{"weight", Make<float>({2, 2}, {5, 6, 7, 8})}}, [&](const absl::Status& status) {
      EXPECT_OK(status);
      ++changes;
    });
    model_->SetParameters({{"weight", Make<float>({2, 2}, {0, 0, 0, 0})}},
                          [&](const absl::Status& status) { second.set_value(status); });
  }
  EXPECT_EQ(second.get_future().get(), absl::AbortedError("changed"));
  EXPECT_EQ(Values((*Get(*model_, {"weight"}))[0].tensor), (std::vector<float>{5, 6, 7, 8})) << "it asks outside of the scope";
}

TEST_F(LinearModelTest, RefusesWrongInputs) {
  const Tensor x = Make<float>({1, 2}, {1, 1});
  const auto code = [&](NamedTensors inputs) { return Predict(*model_, inputs).status().code(); };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"date", x}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", x}, {"data", x}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", Make<float>({2}, {1, 1})}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", Make<float>({1, 3}, {1, 1, 1})}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Predict(*model_, {{"data", x}}, {"outptu"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_OK(Predict(*model_, {{"data", x}}).status());
}

TEST_F(ModelTest, DeferredParametersGetTheirShapeFromTheFirstBatch) {
  auto model = MakeModel({"Dense", "", {{"units", "2"}}}, {{"data", Shape()}});
  EXPECT_FALSE(model->parameters().Get("weight")->shape.known());
  const Tensor x = Make<float>({1, 3}, {1, 1, 1});
  EXPECT_EQ(Predict(*model, {{"data", x}}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Initialize(*model, {{"One", {}}}));
  auto y = Predict(*model, {{"data", x}});
  ASSERT_OK(y.status());
  EXPECT_EQ(Values((*y)[0].tensor), (std::vector<float>{3, 3}));
  EXPECT_EQ(model->parameters().Get("weight")->shape, Shape({2, 3}));
  EXPECT_EQ(Predict(*model, {{"data", Make<float>({1, 4}, {1, 1, 1, 1})}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelTest, InitializationDependsOnSeedAndNameAlone) {
  const BlockSpec net = {"HybridSequential", "", {}, {{"Dense", "a", {{"units", "4"}}}, {"Dense", "b", {{"units", "4"}}}}};
  const auto values = [&](uint64_t seed, const char* name) {
    auto model = MakeModel(net, {{"data", {-1, 4}}}, seed);
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    return Values((*Get(*model, {name}))[0].tensor);
  };
  EXPECT_EQ(values(1, "a.weight"), values(1, "a.weight"));
  EXPECT_NE(values(1, "a.weight"), values(2, "a.weight"));
  EXPECT_NE(values(1, "a.weight"), values(1, "b.weight"));
  EXPECT_EQ(values(1, "a.bias"), std::vector<float>(4, 0));
}

// Dropout and running means: the recomputed forward pass draws the same masks and updates no mean again.
TEST_F(ModelTest, BackwardSeesWhatForwardSaw) {
  auto model =
      MakeModel({"HybridSequential",
                 "",
                 {},
                 {{"BatchNorm"}, {"Dropout", "", {{"rate", "0.5"}}}, {"Dense", "", {{"units", "1"}, {"use_bias", "False"}}}}},
                {{"data", {-1, 16}}});
  ASSERT_OK(Initialize(*model, {{"One", {}}}));
  const Tensor x = MakeNoise({8, 16}, 3);
  for (int i = 0; i < 3; ++i) {
    auto y = Forward(*model, {{"data", x}});
    ASSERT_OK(y.status());
    const auto means = Values((*Get(*model, {"0.running_mean"}))[0].tensor);
    ASSERT_OK(Backward(*model).status());
    EXPECT_EQ(Values((*Get(*model, {"0.running_mean"}))[0].tensor), means);
    // With weights of one, the sum of the outputs is the sum of the weight's gradient.
    double sum_y = 0, sum_dw = 0;
    for (float v : Values((*y)[0].tensor)) sum_y += v;
    for (float v : Values((*Gradients(*model, {"2.weight"}))[0].tensor)) sum_dw += v;
    EXPECT_NEAR(sum_y, sum_dw, 1e-3);
    EXPECT_GT(std::abs(sum_y), 1e-2);
  }
}

// A gradient may be nearer to the variables than the output is: the masks are the forward pass's all the same.
TEST_F(ModelTest, BackwardSeesTheMasksOfEveryBranch) {
  // y = 27 a(x) + W b(x) with W = 1; dW = dy' b(x).
  auto definition = ExpandNodes({{"Dropout", "a", {{"data"}}, {{"p", "0.5"}}},
                                 {"_mul_scalar", "a1", {{"a"}}, {{"scalar", "3"}}},
                                 {"_mul_scalar", "a2", {{"a1"}}, {{"scalar", "3"}}},
                                 {"_mul_scalar", "a3", {{"a2"}}, {{"scalar", "3"}}},
                                 {"Dropout", "b", {{"data"}}, {{"p", "0.5"}}},
                                 {"FullyConnected", "fc", {{"b"}}, {{"num_hidden", "8"}, {"no_bias", "True"}}},
                                 {"elemwise_add", "y", {{"a3"}, {"fc"}}}},
                                {{"data", {-1, 8}}}, {{"y"}});
  ASSERT_OK(definition.status());
  auto model = *Model::Create(*definition, Options());
  std::vector<float> one(64, 0.f);
  for (size_t i = 0; i < 8; ++i) one[i * 9] = 1;
  ASSERT_OK(Set(*model, {{"fc_weight", Make<float>({8, 8}, one)}}));
  const Tensor ones = Make<float>({1, 8}, std::vector<float>(8, 1.f));
  for (int pass = 0; pass < 3; ++pass) {
    const auto y = Forward(*model, {{"data", ones}});
    ASSERT_OK(y.status());
    std::vector<float> b;
    for (const float v : Values((*y)[0].tensor)) b.push_back(std::fmod(v, 27.0f));  // v = 54 a + 2 b, a and b 0 or 1.
    ASSERT_OK(Backward(*model, {{"y", ones}}).status());
    const std::vector<float> dw = Values((*Gradients(*model))[0].tensor);
    EXPECT_EQ(std::vector<float>(dw.begin(), dw.begin() + 8), b) << "pass " << pass;
  }
}

TEST_F(ModelTest, AnInputThatAnOperatorWritesIsRefused) {
  auto definition =
      ExpandNodes({{"BatchNorm", "bn", {{"data"}, {"gamma"}, {"beta"}, {"mean"}, {"var"}}}, {"", "gamma"}, {"", "beta"}},
                  {{"data", {-1, 2}}, {"mean", {2}}, {"var", {2}}}, {{"bn"}});
  ASSERT_OK(definition.status());
  const absl::Status status = Model::Create(*definition, Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'mean'"), absl::string_view::npos) << status;
}

TEST_F(ModelTest, ASnapshotKnowsWhatWaitsForItsShape) {
  auto model = MakeModel({"Dense", "", {{"units", "1"}}}, {{"data", {-1, -1}}});
  ASSERT_OK(Initialize(*model, {{"Normal", {}}}));
  const auto state = Await<absl::StatusOr<ModelState>>([&](auto done) { model->Snapshot(done); });
  ASSERT_OK(state.status());
  auto again = *Model::Create(state->definition, Options());
  ASSERT_OK(Await<absl::Status>([&](auto done) { again->Restore(*state, done); }));
  const Tensor x = Make<float>({1, 3}, {1, 2, 3});
  const auto y = Predict(*model, {{"data", x}}), z = Predict(*again, {{"data", x}});
  ASSERT_OK(y.status());
  ASSERT_OK(z.status());
  EXPECT_EQ(Bytes((*y)[0].tensor), Bytes((*z)[0].tensor));
}

TEST_F(ModelTest, ARestoreWhoseTrainerFailsChangesNothing) {
  auto model = MakeModel({"Dense", "", {{"units", "2"}}}, {{"data", {-1, 3}}});
  ASSERT_OK(Initialize(*model));
  const auto state = Await<absl::StatusOr<ModelState>>([&](auto done) { model->Snapshot(done); });
  ASSERT_OK(state.status());
  ASSERT_OK(Initialize(*model, {{"One", {}}, /*force_reinit=*/true}));
  const auto before = Get(*model);
  ASSERT_OK(before.status());
  const absl::Status status = Await<absl::Status>(
      [&](auto done) { model->Restore(*state, done, [] { return absl::ResourceExhaustedError("no memory for the trainer"); }); });
  EXPECT_EQ(status.message(), "no memory for the trainer");
  const auto after = Get(*model);
  ASSERT_OK(after.status());
  for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ(Bytes((*before)[i].tensor), Bytes((*after)[i].tensor));
  ASSERT_OK(Await<absl::Status>([&](auto done) { model->Restore(*state, done, [] { return absl::OkStatus(); }); }));
  EXPECT_NE(Bytes((*Get(*model))[0].tensor), Bytes((*before)[0].tensor));
}

TEST_F(ModelTest, PredictionsChangeNoTraining) {
  const auto run = [&](bool predict) {
    auto model = MakeModel({"Dropout", "", {{"rate", "0.5"}}}, {{"data", {-1, 64}}});
    if (predict) {
      EXPECT_OK(Predict(*model, {{"data", MakeNoise({2, 64}, 1)}}).status());
      EXPECT_FALSE(Forward(*model, {}).ok());
    }
    return Bytes((*Forward(*model, {{"data", MakeNoise({2, 64}, 1)}}))[0].tensor);
  };
  EXPECT_EQ(run(false), run(true));
}

TEST_F(ModelTest, SeveralOutputsByName) {
  auto definition = ExpandNodes({{"relu", "a", {{"data"}}}, {"negative", "b", {{"data"}}}}, {{"data", {-1}}}, {});
  ASSERT_OK(definition.status());
  auto model = *Model::Create(*definition, Options());
  auto both = Predict(*model, {{"data", Make<float>({2}, {1, -1})}});
  ASSERT_OK(both.status());
  ASSERT_EQ(both->size(), 2u);
  auto b = Predict(*model, {{"data", Make<float>({2}, {1, -1})}}, {"b"});
  ASSERT_OK(b.status());
  ASSERT_EQ(b->size(), 1u);
  EXPECT_EQ(Values((*b)[0].tensor), (std::vector<float>{-1, 1}));
}

TEST_F(LinearModelTest, WhatAPredictionGaveStaysAsItIs) {
  const auto predict = [&](float v) { return (*Predict(*model_, {{"data", Make<float>({1, 2}, {v, v})}}))[0].tensor; };
  const Tensor one = predict(1);
  const std::vector<float> values = Values(one);
  const Tensor two = predict(2);
  EXPECT_NE(Values(two), values);
  EXPECT_EQ(Values(one), values);
}

TEST_F(LinearModelTest, ManyClientsAtOnce) {
  // Writers set weight and bias together; a reader never sees half of that.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto v = static_cast<float>(t + 1);
        EXPECT_OK(Set(*model_, {{"weight", Make<float>({2, 2}, {v, v, v, v})}, {"bias", Make<float>({2}, {v, v})}}));
        const auto y = Predict(*model_, {{"data", Make<float>({1, 2}, {1, 1})}});
        ASSERT_OK(y.status());
        const float got = (*y)[0].tensor.data<float>()[0];
        EXPECT_EQ(got, 3 * std::round(got / 3));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LinearModelTest, ACancelledCallSaysSo) {
  auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const auto y = Await<absl::StatusOr<NamedTensors>>([&](auto done) {
    model_->Predict({{"data", Make<float>({1, 2}, {1, 1})}}, {}, cancellation, done);
  });
  EXPECT_EQ(y.status().code(), absl::StatusCode::kCancelled);
  EXPECT_OK(Predict(*model_, {{"data", Make<float>({1, 2}, {1, 1})}}).status());
}

// Called when a call of t_differentiated is differentiated. May be null.
std::function<void()> gradient_hook;

GLUOND_REGISTER_OP(t_differentiated)
    .describe("x; tells when it is differentiated.")
    .add_argument("data", "NDArray", "x.")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const std::vector<NodeEntry>& dy) -> absl::StatusOr<std::vector<NodeEntry>> {
                           if (gradient_hook) gradient_hook();
                           return dy;
                         })
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType>, absl::Span<const TBlob> out) {
      std::copy_n(in[0].dptr<float>(), in[0].Size(), out[0].dptr<float>());
      return absl::OkStatus();
    });

TEST_F(ModelTest, AGradientIsMadeBesideTheLaneAndMayBeGivenUp) {
  const auto definition =
      ExpandNodes({{"FullyConnected", "fc", {{"data"}}, {{"num_hidden", "2"}}}, {"t_differentiated", "y", {{"fc"}}}},
                  {{"data", {-1, 3}, DType::kFloat32}}, {});
  ASSERT_OK(definition.status());
  const std::shared_ptr<Model> model = *Model::Create(*definition, Options());
  ASSERT_OK(Initialize(*model));
  ASSERT_OK(Forward(*model, {{"data", MakeNoise({4, 3}, 1)}}).status());
  const auto cancellation = std::make_shared<Cancellation>();
  int made = 0;
  gradient_hook = [&] {
    ++made;
    EXPECT_FALSE(lane_->IsCurrent());
    cancellation->Cancel();
  };
  EXPECT_EQ(Backward(*model, {}, {}, cancellation).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(made, 1);
  EXPECT_OK(Backward(*model).status()) << "the forward pass is remembered still";
  gradient_hook = nullptr;
}

}  // namespace
}  // namespace gluond
