// Models with operators that another client computes: a client that knows only the operators' names defines, trains,
// evaluates, saves and loads them, while the computing client comes, goes, and fails.

#include <chrono>
#include <thread>

#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

class CustomModelTest : public CustomTest {
 protected:
  void Configure(ServerOptions* options) override {
    CustomTest::Configure(options);
    options->checkpoint_every = schedule_;
  }

  // Answers of one kind are held back until released.
  struct Gate {
    std::mutex mu;
    std::condition_variable opened;
    bool closed = false;

    void Pass() {
      std::unique_lock lock(mu);
      opened.wait(lock, [this] { return !closed; });
    }
    void Set(bool is_closed) {
      std::lock_guard lock(mu);
      closed = is_closed;
      opened.notify_all();
    }
  };

  void ExpectNear(const std::string& model, const std::string& other) {
    const auto one = Parameters(model), two = Parameters(other);
    ASSERT_EQ(one.size(), two.size());
    for (const auto& [name, bytes] : one) {
      v1::Tensor a, b;
      a.set_raw(bytes);
      b.set_raw(two.at(name));
      const std::vector<float> x = Floats(a), y = Floats(b);
      ASSERT_EQ(x.size(), y.size());
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << name << "[" << i << "]";
    }
  }

  CheckpointSchedule schedule_;
};

TEST_F(CustomModelTest, TrainsLikeTheServersOwnOperator) {
  Provider provider(address(), {"square"});
  DefineTrained("custom");
  Define(Network("own", R"("op": "square")"));
  Initialize("own");
  CreateTrainer("own");
  for (int i = 0; i < 20; ++i) {
    const double loss = Step("custom", i).loss();
    EXPECT_NEAR(loss, Step("own", i).loss(), 1e-4) << i;
  }
  ExpectNear("custom", "own");
  // One message for each pass of each step, and one question for each signature: at definition, and for the batch.
  EXPECT_EQ(provider.Passes(), (std::pair<size_t, size_t>(20, 20)));
  EXPECT_EQ(provider.Count(&v1::Callback::has_infer_shape), 2u);
  EXPECT_EQ(provider.Count(&v1::Callback::has_infer_type), 1u);
}

TEST_F(CustomModelTest, EveryCallOfAModelWorks) {
  Provider provider(address(), {"square"});
  DefineTrained("m");
  const auto described = Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": "m"})");
  EXPECT_EQ(described.model().outputs(0).shape(1), 3);
  Step("m", 0);
  const auto predicted = Call(models_, &v1::ModelService::Stub::Predict, Data("m"));
  EXPECT_EQ(predicted.outputs().at("fc2").shape(0), 2);
  v1::EvaluateRequest evaluate;
  evaluate.set_model("m");
  *evaluate.mutable_inputs() = Batch("m", 1).inputs();
  EXPECT_EQ(Call(training_, &v1::TrainingService::Stub::Evaluate, evaluate).samples(), 6);
  v1::ForwardRequest forward = Json<v1::ForwardRequest>(Data("m"));
  forward.set_training(true);
  const auto output = Call(training_, &v1::TrainingService::Stub::Forward, forward);
  const auto& a = output.outputs().at("fc2").float_data();
  const auto& b = predicted.outputs().at("fc2").float_data();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  const auto gradients =
      Call(training_, &v1::TrainingService::Stub::Backward, R"({"model": "m", "gradients": ["fc1_weight"], "encoding": "RAW"})");
  EXPECT_EQ(gradients.gradients().at("fc1_weight").raw().size(), 8u * 4u * sizeof(float));
  Call(training_, &v1::TrainingService::Stub::Step, R"({"model": "m", "batch_size": 2})");
}

TEST_F(CustomModelTest, ABlockMayBeACustomOperator) {
  Provider provider(address(), {"square", "counted"});
  Define(R"({"model": "m", "seed": "1", "block": {"block": "HybridSequential", "children": [
      {"block": "Dense", "attributes": {"units": 8}},
      {"block": "Lambda", "attributes": {"function": "Custom", "op_type": "square"}},
      {"block": "Lambda", "attributes": {"function": "Custom"},
       "custom": {"op_type": "counted", "arguments": ["data"], "auxiliary": ["count"], "shared": true}},
      {"block": "Dense", "attributes": {"units": 3}}]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "m", "initializer": {"name": "zero"}})");
  CreateTrainer("m");
  Step("m", 0);
  const auto response = Call(models_, &v1::ModelService::Stub::GetParameters, R"({"model": "m", "names": ["2.count"]})");
  EXPECT_EQ(response.parameters().at("2.count").float_data(0), 11);
}

TEST_F(CustomModelTest, AuxiliaryStatesAreWhatBothPassesMakeOfThem) {
  Provider provider(address(), {"counted"});
  Define(CountedNetwork("m"));
  Initialize("m");
  CreateTrainer("m");
  const auto count = [&] {
    const auto response = Call(models_, &v1::ModelService::Stub::GetParameters, R"({"model": "m", "names": ["mid_count"]})");
    return response.parameters().at("mid_count").float_data(0);
  };
  Step("m", 0);
  EXPECT_EQ(count(), 11);
  // Forward and Backward by hand: the second forward pass that Backward makes does not count.
  v1::ForwardRequest forward = Json<v1::ForwardRequest>(Data("m"));
  forward.set_training(true);
  Call(training_, &v1::TrainingService::Stub::Forward, forward);
  EXPECT_EQ(count(), 12);
  Call(training_, &v1::TrainingService::Stub::Backward, R"({"model": "m"})");
  EXPECT_EQ(count(), 22);
}

TEST_F(CustomModelTest, WithoutAProviderItSaysWhatIsMissing) {
  Define(Network("early"), StatusCode::UNAVAILABLE);
  ExpectMessage("custom operator 'square': no client that computes it is connected");
  {
    Provider provider(address(), {"square"});
    DefineTrained("m");
    Step("m", 0);
  }
  const auto before = Parameters("m");
  Step("m", 1, StatusCode::UNAVAILABLE);
  ExpectMessage("'square'");
  Call(models_, &v1::ModelService::Stub::Predict, Data("m"), StatusCode::UNAVAILABLE);
  ExpectMessage("'square'");
  EXPECT_EQ(Parameters("m"), before);
  Provider again(address(), {"square"});
  Step("m", 1);
  EXPECT_NE(Parameters("m"), before);
}

TEST_F(CustomModelTest, ACheckpointKeepsTheOperatorAndItsStates) {
  auto provider = std::make_unique<Provider>(address(), std::vector<std::string>{"counted"});
  Define(CountedNetwork("m"));
  Initialize("m");
  CreateTrainer("m");
  for (int i = 0; i < 3; ++i) Step("m", i);
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "m", "checkpoint": "c"})");
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, R"({"checkpoint": "c", "model": "copy"})");
  for (int i = 3; i < 6; ++i) {
    Step("m", i);
    Step("copy", i);
  }
  EXPECT_EQ(Parameters("m"), Parameters("copy"));
  EXPECT_EQ(Parameters("m").count("mid_count"), 1u);
  provider.reset();
  const auto request = Json<v1::LoadCheckpointRequest>(R"({"checkpoint": "c", "model": "copy"})");
  grpc::Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {  // The server may hear late of the provider's end.
    Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "copy"})");
    grpc::ClientContext context;
    v1::LoadCheckpointResponse response;
    status = models_->LoadCheckpoint(&context, request, &response);
  }
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, request, StatusCode::UNAVAILABLE);
  ExpectMessage("'counted'");
}

TEST_F(CustomModelTest, AProviderKilledInTheMiddleFailsThatStepOnly) {
  DefineMlp("alone");
  for (int i = 0; i < 20; ++i) Step("alone", i);
  for (const auto counts : {&v1::Callback::has_forward, &v1::Callback::has_backward}) {
    // The step as it is without an accident.
    auto whole = std::make_unique<Provider>(address(), std::vector<std::string>{"square"});
    DefineTrained("expected");
    DefineTrained("m");
    for (int i = 0; i < 3; ++i) Step("expected", i);
    for (int i = 0; i < 2; ++i) Step("m", i);
    const auto before = Parameters("m");
    whole.reset();
    {
      Provider silent(address(), {"square"}, [counts](const v1::Callback& callback) {
        return (callback.*counts)() ? v1::CallbackResult() : RightAnswer(callback);
      });
      const auto step = StartStep("m", 2);
      silent.WaitFor(1, counts);
      // Others are not held up.
      DefineMlp("victim");
      for (int i = 0; i < 20; ++i) Step("victim", i);
      EXPECT_EQ(Parameters("victim"), Parameters("alone"));
      Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "victim"})");
      silent.stream().Cancel();
      EXPECT_EQ(step->Wait().error_code(), StatusCode::UNAVAILABLE) << step->status.error_message();
      EXPECT_NE(step->status.error_message().find("of custom operator 'square': the client that computes it has gone"),
                std::string::npos)
          << step->status.error_message();
    }
    EXPECT_EQ(Parameters("m"), before);
    Provider again(address(), {"square"});
    Step("m", 2);
    EXPECT_EQ(Parameters("m"), Parameters("expected"));
  }
}

TEST_F(CustomModelTest, QuestionsHoldUpNoThread) {
  Gate gate;
  gate.Set(true);
  Provider provider(address(), {"square"}, [&](const v1::Callback& callback) {
    if (callback.has_infer_shape()) gate.Pass();
    return RightAnswer(callback);
  });
  // More definitions at once than the server has threads for such work: all wait for one answer.
  std::vector<std::unique_ptr<Started>> definitions;
  for (int i = 0; i < 12; ++i) {
    definitions.push_back(std::make_unique<Started>([this, i] {
      grpc::ClientContext context;
      v1::DefineModelResponse response;
      return models_->DefineModel(&context, Json<v1::DefineModelRequest>(Network("m" + std::to_string(i))), &response);
    }));
  }
  provider.WaitFor(1, &v1::Callback::has_infer_shape);
  DefineMlp("other");
  for (int i = 0; i < 20; ++i) Step("other", i);
  gate.Set(false);
  for (const auto& definition : definitions) EXPECT_TRUE(definition->Wait().ok()) << definition->status.error_message();
  EXPECT_EQ(provider.Count(&v1::Callback::has_infer_shape), 1u);

  // The lane asks, too: for a batch of another shape in TrainStep, Evaluate, Predict and Forward.
  DefineTrained("m0");
  Initialize("m1");
  gate.Set(true);
  const auto step = StartStep("m0", 0);
  const auto forward = std::make_unique<Started>([this] {
    grpc::ClientContext context;
    v1::ForwardResponse response;
    v1::ForwardRequest request = Json<v1::ForwardRequest>(Data("m1"));
    request.set_training(true);
    return training_->Forward(&context, request, &response);
  });
  for (int i = 0; i < 20; ++i) Step("other", i);
  gate.Set(false);
  EXPECT_TRUE(step->Wait().ok()) << step->status.error_message();
  EXPECT_TRUE(forward->Wait().ok()) << forward->status.error_message();
}

TEST_F(CustomModelTest, ACallThatIsCancelledDoesNotWaitForTheAnswer) {
  Gate gate;
  Provider provider(address(), {"square"}, [&](const v1::Callback& callback) {
    gate.Pass();
    return RightAnswer(callback);
  });
  DefineTrained("m");
  gate.Set(true);
  // A step waits neither for shapes nor in an operator. The next call runs on the model's strand: the step has left it.
  EXPECT_EQ(StartStep("m", 0, seconds(1))->Wait().error_code(), StatusCode::DEADLINE_EXCEEDED);
  const auto before = Parameters("m");
  gate.Set(false);
  Step("m", 0);
  gate.Set(true);
  EXPECT_NE(Parameters("m"), before);
  const auto after = Parameters("m");
  EXPECT_EQ(StartStep("m", 1, seconds(1))->Wait().error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Parameters("m"), after);
  gate.Set(false);
  Step("m", 1);
  EXPECT_NE(Parameters("m"), after);
}

TEST_F(CustomModelTest, ARuleThatNeedsMoreThanIsKnownIsAskedAgainWhenItIs) {
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    v1::CallbackResult result = RightAnswer(callback);
    if (!callback.has_infer_shape() || callback.infer_shape().arguments(0).shape(0) >= 0) return result;
    result.mutable_failure()->set_type("ValueError");
    result.mutable_failure()->set_message("negative batch");
    return result;
  });
  DefineTrained("m");
  Step("m", 0);
  EXPECT_EQ(provider.Count(&v1::Callback::has_infer_shape), 2u);
}

TEST_F(CustomModelTest, TwoModelsAndTwoProvidersDoNotMixUp) {
  Gate gate;
  std::mutex mu;
  std::vector<v1::Callback> held;
  Provider first(address(), {"square"}, [&](const v1::Callback& callback) {
    if (!callback.has_forward()) return RightAnswer(callback);
    std::lock_guard lock(mu);
    held.push_back(callback);
    return v1::CallbackResult();
  });
  Provider second(address(), {"counted"});
  for (const char* name : {"a", "b"}) DefineTrained(name);
  Define(CountedNetwork("c"));
  Initialize("c");
  CreateTrainer("c");
  const auto a = StartStep("a", 0), b = StartStep("b", 1);
  first.WaitFor(2, &v1::Callback::has_forward);  // Two calls under way,
  for (int i = 0; i < 5; ++i) Step("c", i);      // and others go on.
  {
    std::lock_guard lock(mu);  // Answered in another order.
    first.stream().Answer(RightAnswer(held[1]));
    first.stream().Answer(RightAnswer(held[0]));
  }
  EXPECT_TRUE(a->Wait().ok()) << a->status.error_message();
  EXPECT_TRUE(b->Wait().ok()) << b->status.error_message();

  Define(Network("own", R"("op": "square")"));
  Initialize("own");
  CreateTrainer("own");
  Step("own", 0);
  ExpectNear("a", "own");
}

TEST_F(CustomModelTest, StepsTellWhereTheTimeWent) {
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    v1::CallbackResult result = RightAnswer(callback);
    if (callback.has_forward() || callback.has_backward()) {
      std::this_thread::sleep_for(milliseconds(50));  // 20 of them in the function, 30 before it.
      result.set_seconds(0.02);
    }
    return result;
  });
  const auto ms = [](const google::protobuf::Duration& duration) {
    return static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() * 1e-6;
  };
  const auto expect = [&](const v1::Timing& timing, int calls) {
    EXPECT_EQ(timing.callbacks(), calls);
    EXPECT_NEAR(ms(timing.callback()), 20 * calls, 1e-3);
    EXPECT_GE(ms(timing.callback_wait()), 29 * calls);
    EXPECT_GE(ms(timing.compute()), ms(timing.callback()) + ms(timing.callback_wait()));
  };
  DefineTrained("m");
  expect(Step("m", 0).timing(), 2);
  expect(Step("m", 1).timing(), 2);  // Each step's own.
  v1::ForwardRequest forward = Json<v1::ForwardRequest>(Data("m"));
  expect(Call(training_, &v1::TrainingService::Stub::Forward, forward).timing(), 1);
  forward.set_training(true);
  expect(Call(training_, &v1::TrainingService::Stub::Forward, forward).timing(), 1);
  expect(Call(training_, &v1::TrainingService::Stub::Backward, R"({"model": "m"})").timing(), 2);
  const auto update = Call(training_, &v1::TrainingService::Stub::Step, R"({"model": "m", "batch_size": 2})");
  EXPECT_EQ(update.timing().callbacks(), 0);
  DefineMlp("mlp");
  EXPECT_FALSE(Step("mlp", 0).timing().has_callback());
}

TEST_F(CustomModelTest, ACallbackHasItsTime) {
  Limits limits;
  limits.callback_seconds = 1;
  StartServer(limits);
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    return callback.has_backward() ? v1::CallbackResult() : RightAnswer(callback);
  });
  EXPECT_EQ(provider.opened().callback().seconds(), 1);
  DefineTrained("m");
  const auto before = Parameters("m");
  Step("m", 0, StatusCode::DEADLINE_EXCEEDED);
  ExpectMessage("backward of custom operator 'square': its client has not answered within the 1 s of --callback_seconds");
  for (const v1::Callback& callback : provider.Seen()) {
    const double left = static_cast<double>(callback.deadline().seconds()) + callback.deadline().nanos() * 1e-9;
    EXPECT_GT(left, 0) << callback.ShortDebugString();
    EXPECT_LE(left, 1) << callback.ShortDebugString();
  }
  EXPECT_EQ(Parameters("m"), before);
  EXPECT_FALSE(provider.ended());
}

TEST_F(CustomModelTest, AClientsErrorIsToldWithItsTraceback) {
  Provider provider(address(), {"square"}, [](const v1::Callback& callback) {
    v1::CallbackResult result = RightAnswer(callback);
    if (!callback.has_forward()) return result;
    result.mutable_failure()->set_type("ZeroDivisionError");
    result.mutable_failure()->set_message("division by zero");
    result.mutable_failure()->set_traceback("Traceback (most recent call last):\n  File \"mine.py\", line 7\n");
    return result;
  });
  DefineTrained("m");
  Step("m", 0, StatusCode::FAILED_PRECONDITION);
  ExpectMessage("forward of custom operator 'square' failed in its client: ZeroDivisionError: division by zero");
  google::rpc::Status details;
  google::rpc::DebugInfo debug;
  ASSERT_TRUE(details.ParseFromString(status_.error_details()));
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_EQ(ReasonOf(status_), "OPERATOR_FAILED");
  ASSERT_TRUE(details.details(1).UnpackTo(&debug));
  EXPECT_NE(debug.detail().find("File \"mine.py\", line 7"), std::string::npos) << debug.detail();
}

TEST_F(CustomModelTest, TheNextServerHasItBeforeItsClientIsBack) {
  schedule_ = {.steps = 1};
  StartServer({});
  const auto train = [this](const std::string& model, int from, int to) {
    for (int i = from; i < to; ++i) {
      Call(training_, &v1::TrainingService::Stub::TrainStep, Batch(model, i, "ann", static_cast<uint64_t>(i + 1)));
    }
  };
  const auto durable = [this] {
    return Call(training_, &v1::TrainingService::Stub::GetSequence, R"({"client_id": "ann", "model": "m"})").durable();
  };
  std::map<std::string, std::string> before, calm;
  {
    Provider provider(address(), {"counted"});
    for (const char* model : {"m", "calm"}) {
      Define(CountedNetwork(model));
      Initialize(model);
      CreateTrainer(model);
      train(model, 0, 3);
    }
    while (durable() < 3) std::this_thread::sleep_for(milliseconds(5));
    before = Parameters("m");
    train("calm", 3, 6);
    calm = Parameters("calm");
  }
  StartServer({});
  EXPECT_EQ(Parameters("m"), before);
  Step("m", 3, StatusCode::UNAVAILABLE);
  ExpectMessage("counted");
  Call(models_, &v1::ModelService::Stub::GetModel, R"({"model": "m"})");
  Provider provider(address(), {"counted"});
  train("m", 3, 6);
  EXPECT_EQ(Parameters("m"), calm);
}

}  // namespace
}  // namespace gluond::server
