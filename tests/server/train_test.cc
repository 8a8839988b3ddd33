// Train: many steps as one call, with progress, ended by a call, by its stream or by its deadline.

#include <thread>

#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Stub = v1::TrainingService::Stub;
using grpc::StatusCode;
using v1::TrainProgress;

// More than any test waits for.
constexpr char kForEver[] = R"({"model": "mlp", "batch_size": 4, "rows": {"dataset": "zeros"}, "epochs": 1000000000,
                                "progress_every": "0.05s")";

class TrainTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    DefineMlp("mlp");
    UploadToy("toy");
    UploadZeros("zeros", 1000);
  }

  std::string ForEver(const std::string& more = "") { return kForEver + more + "}"; }
  int64_t Step(const std::string& model = "mlp") {
    return Call(training_, &Stub::GetTrainer, R"({"model": ")" + model + R"("})").trainer().step();
  }
  // The same steps one after the other, over one epoch's rows.
  v1::TrainStepResponse Epoch(const std::string& model, int epoch) {
    return Call(training_, &Stub::TrainStep,
                absl::StrCat(R"({"model": ")", model, R"(", "batch_size": 8,
        "rows": {"dataset": "toy", "shuffle": true, "seed": "5", "epoch": ")",
                             epoch, R"("}})"));
  }
};

TEST_F(TrainTest, EpochsEqualTheStepsOnTheirRows) {
  DefineMlp("steps");
  TrainCall train(training_, R"({"model": "mlp", "batch_size": 8, "epochs": 3,
      "rows": {"dataset": "toy", "shuffle": true, "seed": "5", "epoch": "1"}})");
  const std::vector<TrainProgress> messages = train.Rest();
  ASSERT_FALSE(messages.empty());
  std::vector<v1::EpochReport> ended;
  for (const TrainProgress& message : messages) {
    ended.insert(ended.end(), message.ended().begin(), message.ended().end());
    EXPECT_EQ(message.done(), &message == &messages.back());
  }
  ASSERT_EQ(ended.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const v1::TrainStepResponse steps = Epoch("steps", 1 + i);
    const v1::EpochReport& epoch = ended[static_cast<size_t>(i)];
    EXPECT_EQ(epoch.epoch(), static_cast<uint64_t>(1 + i));
    EXPECT_EQ(epoch.samples(), 30);
    EXPECT_NEAR(epoch.loss(), steps.loss(), 1e-9);
    EXPECT_NEAR(epoch.metrics().at("accuracy"), steps.metrics().at("accuracy"), 1e-9);
    EXPECT_FALSE(epoch.has_evaluation());
  }
  EXPECT_EQ(Parameters("mlp"), Parameters("steps"));
  const TrainProgress& last = messages.back();
  EXPECT_EQ(last.steps(), 12);
  EXPECT_EQ(last.total_steps(), 12);
  EXPECT_EQ(last.samples(), 90);
  EXPECT_EQ(last.report().step(), 12);
  EXPECT_EQ(last.report().learning_rate(), 0.1);
  EXPECT_EQ(last.epoch(), 3u);
  EXPECT_EQ(last.next().epoch(), 4u);
  EXPECT_EQ(last.next().begin(), 0);
  EXPECT_EQ(last.stop(), TrainProgress::NOT_STOPPED);
  EXPECT_FALSE(last.has_status());
  EXPECT_FALSE(last.cancelled() || last.replayed());
  EXPECT_EQ(last.error(), "");
  EXPECT_GT(last.timing().compute().nanos() + last.timing().compute().seconds(), 0);
}

TEST_F(TrainTest, AnEpochIsEvaluatedAtItsEnd) {
  TrainCall train(training_, R"({"model": "mlp", "batch_size": 8, "rows": {"dataset": "toy"}, "epochs": 2,
      "evaluate": {"dataset": "toy", "begin": "3"}, "evaluate_batch_size": 10})");
  const TrainProgress last = train.Last();
  ASSERT_GE(last.ended_size(), 1);
  const v1::EvaluateResponse& evaluation = last.ended(last.ended_size() - 1).evaluation();
  const auto now = Call(training_, &Stub::Evaluate, R"({"model": "mlp", "rows": {"dataset": "toy", "begin": "3"},
      "batch_size": 10})");
  EXPECT_EQ(evaluation.samples(), 27);
  EXPECT_EQ(evaluation.loss(), now.loss());
  EXPECT_EQ(evaluation.metrics().at("accuracy"), now.metrics().at("accuracy"));
}

TEST_F(TrainTest, GoesOnFromNext) {
  for (const char* drop_last : {"false", "true"}) {
    const std::string one = absl::StrCat("whole-", drop_last), other = absl::StrCat("parts-", drop_last);
    for (const std::string& name : {one, other}) DefineMlp(name);
    const auto request = [&](const std::string& model) {
      return Json<v1::TrainRequest>(
          absl::StrCat(R"({"model": ")", model, R"(", "batch_size": 8, "epochs": 3, "drop_last": )", drop_last,
                       R"(, "rows": {"dataset": "toy", "begin": "2", "end": "29", "shuffle": true, "seed": "5"}})"));
    };
    const TrainProgress whole = TrainCall(training_, request(one)).Last();
    int64_t steps = 0;
    for (v1::TrainRequest part = request(other); steps < whole.total_steps();) {
      part.set_steps(4);
      const TrainProgress last = TrainCall(training_, part).Last();
      ASSERT_GT(last.steps(), 0);
      steps += last.steps();
      *part.mutable_start_at() = last.next();
    }
    EXPECT_EQ(steps, std::string(drop_last) == "true" ? 9 : 12);
    EXPECT_EQ(steps, whole.steps());
    EXPECT_EQ(Parameters(one), Parameters(other));
  }
}

TEST_F(TrainTest, IndicesAreTakenInEachEpoch) {
  DefineMlp("steps");
  const std::string rows = R"("rows": {"dataset": "toy", "indices": [3, 1, 3, 7]})";
  const TrainProgress last = TrainCall(training_, R"({"model": "mlp", "epochs": 3, )" + rows + "}").Last();
  EXPECT_EQ(last.steps(), 3);
  EXPECT_EQ(last.samples(), 12);
  for (int i = 0; i < 3; ++i) Call(training_, &Stub::TrainStep, R"({"model": "steps", )" + rows + "}");
  EXPECT_EQ(Parameters("mlp"), Parameters("steps"));
}

TEST_F(TrainTest, OtherCallsComeBetweenAndAnyClientEndsIt) {
  TrainCall train(training_, ForEver());
  const auto first = train.Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_GT(first->steps(), 0);
  EXPECT_GT(first->total_steps(), first->steps());
  EXPECT_FALSE(first->done());
  Call(models_, &v1::ModelService::Stub::Predict, R"({"model": "mlp", "inputs": {"data": {"shape": [1, 4], "fill": {}}}})");
  Call(training_, &Stub::SetLearningRate, R"({"model": "mlp", "learning_rate": 0.25})");
  Parameters("mlp");
  TrainCall second(training_, ForEver());
  second.Rest(StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(second.status()), "TRAINING_UNDER_WAY");
  const auto later = train.Next();
  ASSERT_TRUE(later.has_value()) << "the second one's end is not the first one's";
  EXPECT_TRUE(Call(training_, &Stub::CancelTraining, R"({"model": "mlp"})").cancelled());
  const TrainProgress last = train.Last();
  EXPECT_TRUE(last.done() && last.cancelled());
  EXPECT_EQ(last.stop(), TrainProgress::BY_CALL);
  EXPECT_EQ(last.status().code(), StatusCode::CANCELLED);
  EXPECT_EQ(last.report().learning_rate(), 0.25);
  EXPECT_EQ(Step(), last.steps());
  EXPECT_FALSE(Call(training_, &Stub::CancelTraining, R"({"model": "mlp"})").cancelled());
  Call(training_, &Stub::CancelTraining, R"({"model": "nobody"})", StatusCode::NOT_FOUND);
  EXPECT_EQ(TrainCall(training_, ForEver(R"(, "steps": 3)")).Last().steps(), 3) << "a new one may begin";
}

TEST_F(TrainTest, AStreamThatBreaksEndsItAndTheNumberIsUsedUp) {
  DefineMlp("calm");
  const std::string numbered = ForEver(R"(, "call": {"client_id": "ann", "sequence": "1"})");
  {
    TrainCall train(training_, numbered);
    ASSERT_TRUE(train.Next().has_value());
    train.Cancel();
    train.Rest(StatusCode::CANCELLED);
  }
  const TrainProgress last = TrainCall(training_, numbered).Last();  // Waits for the end of the first.
  EXPECT_TRUE(last.replayed());
  EXPECT_TRUE(last.done() && last.cancelled());
  EXPECT_EQ(last.stop(), TrainProgress::CLIENT_GONE);
  EXPECT_EQ(Step(), last.steps());
  v1::TrainRequest rest = Json<v1::TrainRequest>(numbered);
  rest.mutable_call()->set_sequence(2);
  rest.set_steps(10);
  *rest.mutable_start_at() = last.next();
  EXPECT_FALSE(TrainCall(training_, rest).Last().replayed());
  EXPECT_EQ(Call(training_, &Stub::GetSequence, R"({"client_id": "ann", "model": "mlp"})").last(), 2u);
  v1::TrainRequest calm = Json<v1::TrainRequest>(ForEver());
  calm.set_model("calm");
  calm.set_steps(last.steps() + 10);
  TrainCall(training_, calm).Rest();
  EXPECT_EQ(Parameters("mlp"), Parameters("calm"));
}

TEST_F(TrainTest, ACallThatTookNoStepHasNotUsedItsNumberUp) {
  const std::string number = R"(, "call": {"client_id": "ann", "sequence": "1"})";
  TrainCall bad(training_, R"({"model": "mlp", "batch_size": 8, "rows": {"dataset": "toy", "indices": [99]})" + number + "}");
  bad.Rest(StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(TrainCall(training_, R"({"model": "mlp", "batch_size": 8, "rows": {"dataset": "toy"})" + number + "}").Last().steps(),
            4);
}

TEST_F(TrainTest, ADeletedModelEndsItWithAnError) {
  TrainCall train(training_, ForEver());
  ASSERT_TRUE(train.Next().has_value());
  Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "mlp"})");
  const TrainProgress last = train.Last();
  EXPECT_EQ(last.stop(), TrainProgress::BY_ERROR);
  EXPECT_FALSE(last.cancelled());
  EXPECT_NE(last.error().find("mlp"), std::string::npos) << last.error();
  EXPECT_EQ(last.status().code(), StatusCode::NOT_FOUND) << "the error is told as that of a call";
  EXPECT_EQ(last.status().message(), last.error());
}

// Epochs of one step each, of which each would have a message.
TEST_F(TrainTest, ASlowReaderGetsFewMessages) {
  TrainCall train(training_, R"({"model": "mlp", "rows": {"dataset": "toy", "indices": [1]}, "epochs": 1000000000})");
  while (Step() < 2000) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Call(training_, &Stub::CancelTraining, R"({"model": "mlp"})");
  const std::vector<TrainProgress> messages = train.Rest();
  EXPECT_LT(messages.size(), 1000u);
  EXPECT_EQ(messages.back().steps(), Step());
  for (const TrainProgress& message : messages) EXPECT_LE(message.ended_size(), 64);
}

TEST_F(TrainTest, BadRequestsAreRefusedByField) {
  const struct {
    const char* request;
    StatusCode code;
    const char* message;
  } kBad[] = {
      {R"("rows": {"dataset": "toy"})", StatusCode::INVALID_ARGUMENT, "batch_size"},
      {R"("rows": {"dataset": "toy"}, "batch_size": "-1")", StatusCode::INVALID_ARGUMENT, "batch_size is -1"},
      {R"("batch_size": 8)", StatusCode::INVALID_ARGUMENT, "`rows` is not there"},
      {R"("rows": {"dataset": "toi"}, "batch_size": 8)", StatusCode::NOT_FOUND, "toy"},
      {R"("rows": {"dataset": "toy", "begin": 30}, "batch_size": 8)", StatusCode::INVALID_ARGUMENT, "30"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 31, "drop_last": true)", StatusCode::INVALID_ARGUMENT, "drop_last"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "epochs": 0)", StatusCode::INVALID_ARGUMENT, "epochs is 0"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "epochs": "1000000001")", StatusCode::INVALID_ARGUMENT, "epochs"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "steps": 0)", StatusCode::INVALID_ARGUMENT, "steps is 0"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "start_at": {"epoch": 1})", StatusCode::INVALID_ARGUMENT, "start_at.epoch"},
      {R"("rows": {"dataset": "toy", "begin": 4}, "batch_size": 8, "start_at": {"begin": 3})", StatusCode::INVALID_ARGUMENT,
       "start_at.begin"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "progress_every": "0.049s")", StatusCode::INVALID_ARGUMENT,
       "progress_every"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "evaluate": {"dataset": "toy", "shuffle": true})",
       StatusCode::INVALID_ARGUMENT, "shuffle"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "evaluate": {"dataset": "no"})", StatusCode::NOT_FOUND, "'no'"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "evaluate": {"dataset": "toy"}, "evaluate_batch_size": -1)",
       StatusCode::INVALID_ARGUMENT, "batch_size"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "evaluate": {"dataset": "unlabelled"})", StatusCode::INVALID_ARGUMENT,
       "label"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "evaluate_batch_size": 5)", StatusCode::INVALID_ARGUMENT,
       "evaluate_batch_size"},
      {R"("rows": {"dataset": "toy"}, "batch_size": 8, "call": {"sequence": 1})", StatusCode::INVALID_ARGUMENT, "client_id"},
  };
  Call(training_, &Stub::UploadDataset, R"({"dataset": "unlabelled", "commit": true, "tensors": {
      "data": {"shape": [10, 4], "fill": {}}}})");
  for (const auto& bad : kBad) {
    TrainCall train(training_, std::string(R"({"model": "mlp", )") + bad.request + "}");
    EXPECT_TRUE(train.Rest(bad.code).empty()) << bad.request;
    EXPECT_NE(train.status().error_message().find(bad.message), std::string::npos) << train.status().error_message();
  }
  TrainCall(training_, R"({"model": "nobody", "batch_size": 8, "rows": {"dataset": "toy"}})").Rest(StatusCode::NOT_FOUND);
  EXPECT_EQ(Step(), 0);
}

}  // namespace
}  // namespace gluond::server
