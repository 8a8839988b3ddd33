#include "engine/train/trainer.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "engine/nn/node_spec.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

// y = x w', loss (y - label)^2 / 2, w = {{1, 1}}.
class LinearTrainerTest : public TrainerTest {
 protected:
  LinearTrainerTest() : model_(MakeModel({"Dense", "", {{"units", "1"}, {"use_bias", "0"}}}, {{"data", {-1, 2}}})) {
    EXPECT_OK(Set(*model_, {{"weight", Make<float>({1, 2}, {1, 1})}}));
  }
  static TrainerOptions Options() {
    return {.loss = {"L2Loss", {}}, .optimizer = {"sgd", {{"learning_rate", "0.1"}}}, .metrics = {{"loss", {}}}};
  }
  NamedTensors Batch(float label = 0) {
    return {{"data", Make<float>({2, 2}, {1, 2, 3, 4})}, {"label", Make<float>({2}, {label, label})}};
  }
  std::vector<float> Weight() { return Values((*Get(*model_))[0].tensor); }

  const std::shared_ptr<Model> model_;
};

TEST_F(LinearTrainerTest, StepsByTheMeanGradient) {
  auto trainer = MakeTrainer(model_, Options());
  const auto report = TrainStep(*trainer, Batch());
  ASSERT_OK(report.status());
  // y = {3, 7}; dw = y' x / 2 = {12, 17}.
  EXPECT_EQ(report->step, 1);
  EXPECT_EQ(report->samples, 2);
  EXPECT_NEAR(report->loss, (4.5 + 24.5) / 2, 1e-5);
  EXPECT_NEAR(report->metrics[0].value, report->loss, 1e-6);
  EXPECT_NEAR(report->gradient_norm, std::sqrt(12.0 * 12 + 17 * 17), 1e-4);
  EXPECT_EQ(report->learning_rate, 0.1);
  EXPECT_FALSE(report->nonfinite);
  EXPECT_TRUE(report->stale.empty());
  EXPECT_NEAR(Weight()[0], 1 - 1.2, 1e-6);
  EXPECT_NEAR(Weight()[1], 1 - 1.7, 1e-6);
  const Trainer::Progress progress = trainer->progress();
  EXPECT_EQ(progress.steps, 1);
  EXPECT_EQ(progress.samples, 2);
  EXPECT_EQ(progress.loss, report->loss);
  EXPECT_EQ(progress.gradient_norm, report->gradient_norm);
}

TEST_F(LinearTrainerTest, TheBatchSizeCanBeGiven) {
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(TrainStep(*trainer, Batch(), {.batch_size = 4}).status());
  EXPECT_NEAR(Weight()[0], 1 - 0.6, 1e-6);
}

TEST_F(LinearTrainerTest, SampleWeightsMayCome) {
  auto trainer = MakeTrainer(model_, Options());
  NamedTensors batch = Batch();
  batch.push_back({"sample_weight", Make<float>({2, 1}, {1, 0})});
  const auto report = TrainStep(*trainer, batch);
  ASSERT_OK(report.status());
  EXPECT_NEAR(report->loss, 4.5 / 2, 1e-5);
  EXPECT_NEAR(Weight()[0], 1 - 0.15, 1e-6);
  ASSERT_OK(TrainStep(*trainer, Batch()).status());
}

TEST_F(LinearTrainerTest, ForwardBackwardStepIsTheSame) {
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(Forward(*model_, {{"data", Make<float>({2, 2}, {1, 2, 3, 4})}}).status());
  ASSERT_OK(Backward(*model_, {{"output", Make<float>({2, 1}, {3, 7})}}).status());
  const auto report = Step(*trainer, 2);
  ASSERT_OK(report.status());
  EXPECT_NEAR(Weight()[0], 1 - 1.2, 1e-6);
  // A second step has nothing new to go by.
  const auto stale = Step(*trainer, 2);
  EXPECT_EQ(stale.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(stale.status().message().find("weight"), absl::string_view::npos);
  const auto ignored = Step(*trainer, 2, /*ignore_stale_grad=*/true);
  ASSERT_OK(ignored.status());
  EXPECT_EQ(ignored->stale, std::vector<std::string>{"weight"});
  EXPECT_NEAR(Weight()[0], 1 - 1.2, 1e-6);
}

TEST_F(LinearTrainerTest, SkipsWhatIsNotFinite) {
  TrainerOptions options = Options();
  options.skip_nonfinite = true;
  auto trainer = MakeTrainer(model_, options);
  const auto report = TrainStep(*trainer, Batch(std::numeric_limits<float>::quiet_NaN()));
  ASSERT_OK(report.status());
  EXPECT_TRUE(report->nonfinite);
  EXPECT_EQ(report->skipped, 1);
  EXPECT_EQ(report->step, 0);
  EXPECT_EQ(Weight(), (std::vector<float>{1, 1}));
  EXPECT_FALSE(TrainStep(*trainer, Batch())->nonfinite);
}

TEST_F(LinearTrainerTest, SaysWhatIsNotFinite) {
  auto trainer = MakeTrainer(model_, Options());
  EXPECT_TRUE(TrainStep(*trainer, Batch(std::numeric_limits<float>::infinity()))->nonfinite);
  EXPECT_FALSE(std::isfinite(Weight()[0]));
}

TEST_F(LinearTrainerTest, RefusesABatchOfNoRows) {
  auto trainer = MakeTrainer(model_, Options());
  const auto report = TrainStep(*trainer, {{"data", Make<float>({0, 2}, {})}, {"label", Make<float>({0}, {})}});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Weight(), (std::vector<float>{1, 1}));
}

TEST_F(LinearTrainerTest, AfterWhatIsNotFiniteSumsBeginAnew) {
  TrainerOptions options = Options();
  options.skip_nonfinite = true;
  auto trainer = MakeTrainer(model_, options);
  ASSERT_OK(Await<absl::Status>([&](auto done) { model_->Configure("weight", {GradReq::kAdd, {}, {}}, done); }));
  EXPECT_EQ(TrainStep(*trainer, Batch(std::numeric_limits<float>::infinity()))->skipped, 1);
  const auto report = TrainStep(*trainer, Batch());
  EXPECT_EQ(report->skipped, 0);
  EXPECT_NEAR(Weight()[0], 1 - 1.2, 1e-6);
}

TEST_F(LinearTrainerTest, AGradientThatNothingWroteIsStale) {
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(Forward(*model_, {{"data", Make<float>({1, 2}, {1, 1})}}).status());
  ASSERT_OK(Backward(*model_).status());
  for (const GradReq req : {GradReq::kNull, GradReq::kWrite}) {
    ASSERT_OK(Await<absl::Status>([&](auto done) { model_->Configure("weight", {req, {}, {}}, done); }));
  }
  EXPECT_EQ(Step(*trainer, 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LinearTrainerTest, ANormBeyondAllNumbersIsSkippedAndNotScaledToNothing) {
  TrainerOptions options = Options();
  options.clip_global_norm = 1;
  auto trainer = MakeTrainer(model_, options);
  const auto report = TrainStep(*trainer, {{"data", Make<float>({1, 2}, {1e10f, 1e10f})}, {"label", Make<float>({1}, {0})}});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->skipped, 1);
  EXPECT_EQ(report->step, 0);
}

TEST_F(LinearTrainerTest, ClipsTheGlobalNorm) {
  TrainerOptions options = Options();
  options.clip_global_norm = 1;
  auto trainer = MakeTrainer(model_, options);
  const auto report = TrainStep(*trainer, Batch());
  ASSERT_OK(report.status());
  const double norm = std::sqrt(12.0 * 12 + 17 * 17);
  EXPECT_NEAR(report->gradient_norm, norm, 1e-4);
  EXPECT_NEAR(Weight()[0], 1 - 0.1 * 12 / norm, 1e-6);
}

TEST_F(LinearTrainerTest, LeavesOutTheNormThatNobodyAsksFor) {
  TrainerOptions options = Options();
  options.report_norm = false;
  const double label = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TrainStep(*MakeTrainer(model_, options), Batch())->gradient_norm, 0);
  EXPECT_NEAR(Weight()[0], 1 - 1.2, 1e-6);
  EXPECT_TRUE(TrainStep(*MakeTrainer(model_, options), Batch(label))->nonfinite) << "the loss tells";
  options.skip_nonfinite = true;
  ASSERT_OK(Set(*model_, {{"weight", Make<float>({1, 2}, {1, 1})}}));
  EXPECT_GT(TrainStep(*MakeTrainer(model_, options), Batch())->gradient_norm, 0);
}

TEST_F(LinearTrainerTest, MultipliersAreTheParameters) {
  ASSERT_OK(Await<absl::Status>([&](auto done) { model_->Configure("weight", {{}, 0.5, {}}, done); }));
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(TrainStep(*trainer, Batch()).status());
  EXPECT_NEAR(Weight()[0], 1 - 0.6, 1e-6);
}

TEST_F(LinearTrainerTest, ALearningRateIsSetByHandOrBySchedule) {
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(trainer->SetLearningRate(0.2));
  EXPECT_EQ(TrainStep(*trainer, Batch())->learning_rate, 0.2);
  EXPECT_EQ(trainer->SetLearningRate(-1).code(), absl::StatusCode::kInvalidArgument);

  TrainerOptions options = Options();
  options.lr_schedule = {"factor", {{"step", "1"}, {"factor", "0.5"}}};
  auto scheduled = MakeTrainer(model_, options);
  EXPECT_EQ(scheduled->SetLearningRate(0.2).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TrainStep(*scheduled, Batch())->learning_rate, 0.1);
  EXPECT_EQ(scheduled->learning_rate(), 0.05);
  EXPECT_EQ(TrainStep(*scheduled, Batch())->learning_rate, 0.05);
}

TEST_F(LinearTrainerTest, RefusesWrongBatches) {
  auto trainer = MakeTrainer(model_, Options());
  const Tensor x = Make<float>({2, 2}, {1, 2, 3, 4});
  const auto code = [&](NamedTensors batch) { return TrainStep(*trainer, batch).status().code(); };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", x}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", x}, {"labels", x}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"data", x}, {"label", Make<float>({3}, {1, 2, 3})}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TrainStep(*trainer, Batch(), {.batch_size = -1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Weight(), (std::vector<float>{1, 1}));
  EXPECT_EQ(trainer->step(), 0);
}

TEST_F(LinearTrainerTest, TellsMistakesAtCreation) {
  const auto code = [&](auto change) {
    TrainerOptions options = Options();
    change(options);
    return Trainer::Create(model_, options).status().code();
  };
  EXPECT_EQ(code([](auto& o) { o.loss.type = "L3Loss"; }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto& o) { o.optimizer.type = "sdg"; }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto& o) { o.optimizer.attrs["momentun"] = "1"; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.lr_schedule.type = "cos"; }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto& o) { o.metrics = {{"f7", {}}}; }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto& o) { o.prediction = "logits"; }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto& o) { o.clip_global_norm = -1; }), absl::StatusCode::kInvalidArgument);
}

TEST_F(LinearTrainerTest, ACancelledStepChangesNothing) {
  auto trainer = MakeTrainer(model_, Options());
  auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const auto report = Await<absl::StatusOr<StepReport>>([&](auto done) { trainer->TrainStep(Batch(), {}, cancellation, done); });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Weight(), (std::vector<float>{1, 1}));
  EXPECT_OK(TrainStep(*trainer, Batch()).status());
}

// Who cancels after the last step comes too late: a step that was taken is not reported as cancelled.
TEST_F(LinearTrainerTest, AStepThatWasTakenIsNotCancelled) {
  auto trainer = MakeTrainer(model_, Options());
  ASSERT_OK(TrainStep(*trainer, Batch()).status());  // Its graph is compiled, beside the lane.
  auto cancellation = std::make_shared<Cancellation>();
  std::promise<void> gate;
  std::promise<absl::Status> answer;
  std::promise<void> cancelled;
  lane_->Post([&gate] { gate.get_future().wait(); });  // The lane finds all that follows in its queue.
  trainer->TrainStep(Batch(), {}, cancellation, [&](auto report) { answer.set_value(report.status()); });
  lane_->Post([&] {
    cancellation->Cancel();
    cancelled.set_value();
  });
  gate.set_value();
  EXPECT_OK(answer.get_future().get());
  cancelled.get_future().wait();
  EXPECT_EQ(trainer->step(), 2);
}

// y = w x and z = v x are stepped by turns, with momentum: who rests keeps value and state, and counts in no norm.
TEST_F(TrainerTest, AStepThatUpdatesNothingCountsAndLeavesEverything) {
  auto model = MakeModel(Mlp(8, 3), {{"data", {-1, 4}}});
  ASSERT_OK(Initialize(*model, {{"Xavier", {}}}));
  auto trainer = MakeTrainer(model, {});
  const NamedTensors batch = {{"data", MakeNoise({6, 4}, 3)}, {"label", Make<float>({6}, {0, 1, 2, 0, 1, 2})}};
  ASSERT_OK(TrainStep(*trainer, batch).status());
  for (const Parameter& p : model->parameters().List()) {
    ASSERT_OK(Await<absl::Status>([&](auto done) { model->Configure(p.name, {GradReq::kNull, {}, {}}, done); }));
  }
  const NamedTensors before = *Get(*model);
  const absl::StatusOr<StepReport> report = TrainStep(*trainer, batch);
  ASSERT_OK(report.status());
  EXPECT_EQ(report->step, 2);
  EXPECT_EQ(report->gradient_norm, 0);
  EXPECT_GT(report->loss, 0);
  EXPECT_OK(Step(*trainer, 6, /*ignore_stale_grad=*/true).status());
  const NamedTensors after = *Get(*model);
  for (size_t i = 0; i < after.size(); ++i) {
    const bool is_running = after[i].name.find("running") != std::string::npos;
    EXPECT_EQ(Bytes(after[i].tensor) == Bytes(before[i].tensor), !is_running) << after[i].name;
  }
}

TEST_F(TrainerTest, NamesThatBeginAsTheStepsOwnVariablesAreOthers) {
  const absl::StatusOr<ModelDefinition> definition =
      ExpandNodes({{"FullyConnected", "__x", {{"data"}}, {{"num_hidden", "2"}}}}, {{"data", {-1, 2}}}, {{"__x"}});
  ASSERT_OK(definition.status());
  auto model = *Model::Create(*definition, Options());
  ASSERT_OK(Initialize(*model, {{"Xavier", {}}}));
  auto trainer = MakeTrainer(model, {.optimizer = {"adam", {}}});
  const NamedTensors batch = {{"data", MakeNoise({6, 2}, 3)}, {"label", Make<float>({6}, {0, 1, 1, 0, 1, 0})}};
  const double first = TrainStep(*trainer, batch)->loss;
  for (int i = 0; i < 20; ++i) ASSERT_OK(TrainStep(*trainer, batch).status());
  EXPECT_LT(TrainStep(*trainer, batch)->loss, first);
}

TEST_F(TrainerTest, ParametersStepAndRestByTurns) {
  const NodeEntry data = MakeVariable("data");
  const auto dense = [&data](const char* weight) {
    return MakeNode("FullyConnected", weight, {data, MakeVariable(weight)}, {{"num_hidden", "1"}, {"no_bias", "True"}});
  };
  ModelDefinition definition = {{{"data", {-1, 1}}}, {dense("w"), dense("v")}, {"y", "z"}, {}};
  for (const char* name : {"w", "v"}) {
    Parameter& parameter = definition.parameters.emplace_back();
    parameter.name = name;
    parameter.shape = {1, 1};
  }
  const auto model = *Model::Create(std::move(definition), Options());
  const Tensor one = Make<float>({1, 1}, {1}), two = Make<float>({1, 1}, {2});
  ASSERT_OK(Set(*model, {{"w", one}, {"v", one}}));
  auto trainer = MakeTrainer(
      model, {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "0.1"}, {"momentum", "0.5"}}}, .skip_nonfinite = true});
  const auto by_hand = [&](const char* output, float head) {
    EXPECT_OK(Forward(*model, {{"data", two}}));
    EXPECT_OK(Backward(*model, {{output, Make<float>({1, 1}, {head})}}));
    return *Step(*trainer, 1, /*ignore_stale_grad=*/true);
  };
  const auto expect = [&](const StepReport& report, const char* stale, double w, double v) {
    EXPECT_EQ(report.stale, std::vector<std::string>{stale});
    EXPECT_EQ(report.gradient_norm, 2);
    const NamedTensors values = *Get(*model, {"w", "v"});
    EXPECT_NEAR(values[0].tensor.data<float>()[0], w, 1e-6);
    EXPECT_NEAR(values[1].tensor.data<float>()[0], v, 1e-6);
  };
  expect(by_hand("y", 1), "v", 0.8, 1);
  using Snapshot = absl::StatusOr<std::pair<ModelState, TrainerState>>;
  EXPECT_EQ(Await<Snapshot>([&](auto done) { trainer->Snapshot(done); })->second.states.size(), 1u);
  expect(by_hand("z", 1), "w", 0.8, 0.8);
  expect(by_hand("y", 1), "v", 0.5, 0.8);
  EXPECT_EQ(by_hand("z", std::numeric_limits<float>::quiet_NaN()).skipped, 1);  // v's gradient stays NaN.
  expect(*TrainStep(*trainer, {{"data", two}}), "v", 0.15, 0.8);
  // One without a gradient is out of the graph until it has one again.
  for (const GradReq req : {GradReq::kNull, GradReq::kWrite}) {
    ASSERT_OK(Await<absl::Status>([&](auto done) { model->Configure("w", {req, {}, {}}, done); }));
    EXPECT_EQ(by_hand("z", 1).gradient_norm, 2);
  }
  expect(by_hand("y", 1), "v", -0.225, 0.8 - 0.3 - 0.35);
}

TEST_F(TrainerTest, EachSetOfParametersIsCompiledOnce) {
  constexpr int kOutputs = 4;
  const NodeEntry data = MakeVariable("data");
  ModelDefinition definition = {{{"data", {-1, 1}}}, {}, {}, {}};
  NamedTensors ones;
  for (int i = 0; i < kOutputs; ++i) {
    Parameter& parameter = definition.parameters.emplace_back();
    parameter.name = absl::StrCat("w", i);
    parameter.shape = {1, 1};
    definition.outputs.push_back(MakeNode("FullyConnected", parameter.name, {data, MakeVariable(parameter.name)},
                                          {{"num_hidden", "1"}, {"no_bias", "True"}}));
    definition.output_names.push_back(absl::StrCat("y", i));
    ones.push_back({parameter.name, Make<float>({1, 1}, {1})});
  }
  const auto model = *Model::Create(std::move(definition), Options());
  ASSERT_OK(Set(*model, ones));
  auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "0.1"}}}});
  int64_t compiled = 0;
  for (int round = 0; round < 2; ++round) {
    for (int set = 1; set < 1 << kOutputs; ++set) {
      NamedTensors heads;
      for (int i = 0; i < kOutputs; ++i) {
        if ((set >> i & 1) != 0) heads.push_back({absl::StrCat("y", i), Make<float>({1, 1}, {1})});
      }
      ASSERT_OK(Forward(*model, {{"data", Make<float>({1, 1}, {1})}}));
      ASSERT_OK(Backward(*model, heads));
      ASSERT_OK(Step(*trainer, 1, /*ignore_stale_grad=*/true));
    }
    if (round == 0) compiled = model->runs().num_compiled();
  }
  EXPECT_GE(compiled, 2 * ((1 << kOutputs) - 1)) << "gradients and updates";
  EXPECT_EQ(model->runs().num_compiled(), compiled);
  const NamedTensors values = *Get(*model);
  for (const NamedTensor& value : values) EXPECT_NEAR(value.tensor.data<float>()[0], 1 - 0.1 * (1 << kOutputs), 1e-5);
}

// A model is served while it is trained: a prediction waits for one step, not for all steps of a call.
TEST_F(TrainerTest, PredictsBetweenTwoStepsOfACall) {
  auto model = MakeModel(Mlp(32, 10), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model));
  auto trainer = MakeTrainer(model, {});
  std::vector<std::string> order;  // Written on the lane alone.
  std::promise<void> trained, predicted, read;
  trainer->TrainSteps({.dataset = MakeImages(64, 1), .batch_size = 32, .steps = 50}, nullptr, [&](auto report) {
    EXPECT_OK(report.status());
    order.push_back("trained");
    trained.set_value();
  });
  model->Predict({{"data", MakeNoise({1, 1, 28, 28}, 1)}}, {}, nullptr, [&](auto outputs) {
    EXPECT_OK(outputs.status());
    order.push_back("predicted");
    predicted.set_value();
  });
  model->GetParameters({}, [&](auto values) {
    EXPECT_OK(values.status());
    order.push_back("read");
    read.set_value();
  });
  for (auto* promise : {&trained, &predicted, &read}) promise->get_future().wait();
  EXPECT_EQ(order, (std::vector<std::string>{"predicted", "trained", "read"}));
  EXPECT_EQ(trainer->step(), 50);
}

// Clients that predict again as soon as they have an answer do not stop the training.
TEST_F(TrainerTest, TrainsThoughOthersPredictAllTheTime) {
  auto model = MakeModel(Mlp(32, 10), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model));
  auto trainer = MakeTrainer(model, {});
  std::atomic<bool> stop = false;
  std::atomic<int> running = 2;
  std::promise<void> trained;
  const Tensor x = MakeNoise({1, 1, 28, 28}, 1);
  std::function<void()> predict = [&] {
    model->Predict({{"data", x}}, {}, nullptr, [&](const auto&) { stop ? void(--running) : predict(); });
  };
  trainer->TrainSteps({.dataset = MakeImages(64, 1), .batch_size = 32, .steps = 20}, nullptr, [&](auto report) {
    EXPECT_OK(report.status());
    trained.set_value();
  });
  for (int i = 0; i < 2; ++i) predict();
  EXPECT_EQ(trained.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  stop = true;
  while (running > 0 || trainer->step() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Rows of a dataset, batch by batch, give the bits that the same batches give when they are sent.
TEST_F(TrainerTest, RowsOfADatasetAreTheSameAsBatchesSent) {
  auto images = MakeImages(40, 1);
  const auto make = [&] {
    auto model = MakeModel(Mlp(8, 10, 0.2), {{"data", {-1, 1, 28, 28}}});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    return MakeTrainer(model, {.optimizer = {"adam", {}}});
  };
  auto drawn = make(), sent = make();
  const DatasetPosition start = {77, 0, 0};
  ASSERT_OK(TrainSteps(*drawn, {.dataset = images, .batch_size = 10, .steps = 6, .from = start}).status());
  for (int i = 0; i < 6; ++i) {
    const auto rows = *images->Rows({77, static_cast<uint64_t>(i / 4), i % 4 * 10, 10, true});
    Tensor x = *Tensor::Empty(*memory_, {10, 1, 28, 28}, DType::kFloat32);
    Tensor y = *Tensor::Empty(*memory_, {10}, DType::kFloat32);
    const absl::Span<const int64_t> numbers(rows.data<int64_t>(), 10);
    ASSERT_OK(images->Gather(0, numbers, x));
    ASSERT_OK(images->Gather(1, numbers, y));
    ASSERT_OK(TrainStep(*sent, {{"data", x}, {"label", y}}).status());
  }
  auto want = *Get(*sent->model()), have = *Get(*drawn->model());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(Bytes(want[i].tensor), Bytes(have[i].tensor)) << want[i].name;
}

TEST_F(TrainerTest, ReportsOfPartsJoinToThatOfTheWhole) {
  const auto dataset = MakeImages(64, 1);
  TrainerOptions options;
  options.metrics = {{"accuracy", {}}, {"perplexity", {}}, {"pcc", {}}};
  const auto report = [&](std::vector<int64_t> parts) {
    auto model = MakeModel(Mlp(8, 10), {{"data", {-1, 1, 28, 28}}});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    auto trainer = MakeTrainer(model, options);
    StepReport total;
    for (const int64_t steps : parts) {
      const auto next = TrainSteps(*trainer, {.dataset = dataset, .batch_size = 10, .steps = steps, .keep_last = true});
      EXPECT_OK(next.status());
      trainer->Join(*next, &total);
    }
    return total;
  };
  const StepReport whole = report({7}), parts = report({2, 4, 1});
  EXPECT_EQ(parts.samples, 64);
  EXPECT_EQ(parts.step, whole.step);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-9);
  ASSERT_EQ(parts.metrics.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(parts.metrics[i].value, whole.metrics[i].value, 1e-9) << whole.metrics[i].name;
}

TEST_F(TrainerTest, GivenRowsAreTaken) {
  const auto Rows = [this](const std::vector<int64_t>& numbers) {
    Tensor rows = *Tensor::Empty(*memory_, {static_cast<int64_t>(numbers.size())}, DType::kInt64);
    std::copy(numbers.begin(), numbers.end(), rows.data<int64_t>());
    return rows;
  };
  auto images = MakeImages(40, 1);
  auto model = MakeModel(Mlp(8, 10), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model));
  auto trainer = MakeTrainer(model, {});
  auto report = TrainSteps(*trainer, {.dataset = images, .batch_size = 3, .steps = 9, .rows = Rows({5, 6, 7, 8, 9})});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->samples, 5);
  EXPECT_EQ(report->step, 2);
  EXPECT_EQ(TrainSteps(*trainer, {.dataset = images, .batch_size = 3, .rows = Rows({40})}).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(TrainSteps(*trainer, {.dataset = images, .batch_size = 41}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Evaluate(*trainer, images, 8, 30, 11).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Evaluate(*trainer, images, 8, 30, 10)->samples, 10);
}

// Nothing is allocated for tensors once the first epochs have run, whose orders are kept.
TEST_F(TrainerTest, ASteadyLoopAllocatesNoTensors) {
  auto images = MakeImages(64, 1);
  auto model = MakeModel(LeNet(4, 6, 8), {{"data", {-1, 1, 28, 28}}});
  ASSERT_OK(Initialize(*model, {{"Xavier", {}}}));
  auto trainer = MakeTrainer(model, {.optimizer = {"sgd", {{"momentum", "0.9"}}}, .metrics = {{"accuracy", {}}}});
  ASSERT_OK(TrainSteps(*trainer, {.dataset = images, .batch_size = 16, .steps = 18}).status());
  const int64_t used = budget_->used();
  ASSERT_OK(TrainSteps(*trainer, {.dataset = images, .batch_size = 16, .steps = 10}).status());
  EXPECT_EQ(budget_->used(), used);
}

}  // namespace
}  // namespace gluond
