// Models outlive the server: a new one begins with those of its store, and with their clients' sequence numbers. A server
// of this fixture that is destroyed without Drain saves nothing at its end, as one that is killed.

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gluond/v1/serving.grpc.pb.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Training = v1::TrainingService::Stub;
using Models = v1::ModelService::Stub;
using grpc::StatusCode;

class LiveModelsTest : public ServiceTest {
 protected:
  void SetUp() override {}
  void Configure(ServerOptions* options) override { options->checkpoint_every = schedule_; }
  void Start(const CheckpointSchedule& schedule) {
    schedule_ = schedule;
    StartServer({});
  }

  v1::GetSequenceResponse Sequence(const std::string& model = "mlp") {
    return Call(training_, &Training::GetSequence, R"({"client_id": "ann", "model": ")" + model + R"("})");
  }
  void AwaitDurable(uint64_t number) {
    while (Sequence().durable() < number) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  bool IsStored(const std::string& model) const { return std::filesystem::exists(store_ + "/.live/" + model + "/CURRENT"); }
  // From here on the store cannot touch the model: a folder stands where its lock would be a file.
  std::string LockOf(const std::string& model) const { return store_ + "/.live/.lock-" + model; }
  void Lock(const std::string& model) const {
    std::filesystem::remove(LockOf(model));
    std::filesystem::create_directory(LockOf(model));
  }
  void AwaitStored(const std::string& model) const {
    while (!IsStored(model)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  int64_t Step() { return Call(training_, &Training::GetTrainer, R"({"model": "mlp"})").trainer().step(); }
  void Train(int from, int to) {
    for (int i = from; i <= to; ++i) {
      Call(training_, &Training::TrainStep, Batch("mlp", i, "ann", static_cast<uint64_t>(i)));
    }
  }

  CheckpointSchedule schedule_;
};

TEST_F(LiveModelsTest, ATrainingGoesOnInTheNextServer) {
  Start({.steps = 1});
  DefineMlp("mlp");
  Train(1, 4);
  AwaitDurable(4);
  const auto before = Parameters("mlp");
  const auto described = Call(models_, &Models::GetModel, R"({"model": "mlp"})").model();
  Start({.steps = 1});
  EXPECT_EQ(Parameters("mlp"), before);
  EXPECT_EQ(Step(), 4);
  const auto now = Call(models_, &Models::GetModel, R"({"model": "mlp"})").model();
  EXPECT_EQ(now.version(), described.version());
  EXPECT_EQ(now.device(), "cpu");
  EXPECT_EQ(Sequence().last(), 4u);
  EXPECT_EQ(Sequence().step(), 4);
  Call(training_, &Training::TrainStep, Batch("mlp", 4, "ann", 4), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status_), "ANSWER_FORGOTTEN") << status_.error_message();
  Train(5, 8);
  DefineMlp("calm");
  for (int i = 1; i <= 8; ++i) Call(training_, &Training::TrainStep, Batch("calm", i));
  EXPECT_EQ(Parameters("mlp"), Parameters("calm"));
}

TEST_F(LiveModelsTest, RepliesTellWhatACrashCannotTakeBack) {
  Start({.steps = 1});
  DefineMlp("mlp");
  EXPECT_TRUE(Call(training_, &Training::TrainStep, Batch("mlp", 1, "ann", 1)).has_durable_sequence());
  AwaitDurable(1);
  const auto second = Call(training_, &Training::TrainStep, Batch("mlp", 2, "ann", 2));
  EXPECT_EQ(second.durable_sequence(), 1u);
  EXPECT_FALSE(Call(training_, &Training::TrainStep, Batch("mlp", 3)).has_durable_sequence()) << "it has no number";
  Start({});
  EXPECT_FALSE(Call(training_, &Training::TrainStep, Batch("mlp", 3, "ann", Sequence().last() + 1)).has_durable_sequence());
}

// Gradients are in no live checkpoint: the calls that make them are durable once a step has taken them.
TEST_F(LiveModelsTest, CallsByHandAreDurableWithTheirStep) {
  Start({.steps = 1});
  DefineMlp("mlp");
  Train(1, 1);
  AwaitDurable(1);
  const auto numbered = [](int number, const std::string& more) {
    return absl::StrCat(R"({"model": "mlp", )", more, R"("call": {"client_id": "ann", "sequence": ")", number, R"("}})");
  };
  auto forward = Json<v1::ForwardRequest>(numbered(2, R"("training": true, )"));
  *forward.mutable_inputs() = Batch("mlp", 1).inputs();
  forward.mutable_inputs()->erase("label");
  Call(training_, &Training::Forward, forward);
  Call(training_, &Training::Backward, numbered(3, ""));
  // Bob's call is durable only together with a checkpoint that has these numbers.
  Call(training_, &Training::SetLearningRate,
       R"({"model": "mlp", "learning_rate": 0.1, "call": {"client_id": "bob", "sequence": "1"}})");
  const auto bob = [this] { return Call(training_, &Training::GetSequence, R"({"client_id": "bob", "model": "mlp"})").durable(); };
  while (bob() < 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Sequence().durable(), 1u);
  EXPECT_EQ(Sequence().last(), 3u);
  Call(training_, &Training::Step, numbered(4, R"("batch_size": 4, )"));
  AwaitDurable(4);
  const auto before = Parameters("mlp");
  Start({.steps = 1});
  EXPECT_EQ(Parameters("mlp"), before);
  EXPECT_EQ(Sequence().last(), 4u);
}

// Whatever a numbered call does, its number is saved.
TEST_F(LiveModelsTest, ACallThatChangesNoValueIsDurableToo) {
  Start({.steps = 1});
  DefineMlp("mlp");
  Train(1, 1);
  AwaitDurable(1);
  Call(training_, &Training::ZeroGradients, R"({"model": "mlp", "call": {"client_id": "ann", "sequence": "2"}})");
  AwaitDurable(2);
  Start({.steps = 1});
  EXPECT_EQ(Sequence().last(), 2u);
}

TEST_F(LiveModelsTest, AClientThatIsAheadIsTold) {
  Start({.steps = 1000});
  DefineMlp("mlp");
  AwaitStored("mlp");
  Train(1, 5);
  Start({.steps = 1000});
  Call(training_, &Training::TrainStep, Batch("mlp", 6, "ann", 6), StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status_), "REWOUND") << status_.error_message();
  const int last = static_cast<int>(Sequence().last());  // The first save ends at some moment of the training.
  Train(last + 1, last + 2);
  Call(training_, &Training::TrainStep, Batch("mlp", last + 4, "ann", static_cast<uint64_t>(last + 4)),
       StatusCode::FAILED_PRECONDITION);
  ExpectMessage(absl::StrCat("send ", last + 3, " next"));
}

// A crash takes back the number of a call that has published, and not the version: the client sends the call again as told.
TEST_F(LiveModelsTest, APublishThatIsSentAgainAfterACrashIsOneVersion) {
  using Serving = v1::ServingService::Stub;
  const auto publish = [this](uint64_t number) {
    const std::unique_ptr<Serving> serving = v1::ServingService::NewStub(channel_);
    return Call(serving, &Serving::PublishModel,
                absl::StrCat(R"({"model": "mlp", "labels": ["stable"], "call": {
        "client_id": "ann", "sequence": )",
                             number, "}}"))
        .version()
        .version();
  };
  Start({.steps = 1000});
  DefineMlp("mlp");
  AwaitStored("mlp");
  const auto live = (*CheckpointStore::Open(LocalFileSystem(), store_))->OpenApart(".live");
  while (!live->List()->at(0).has_trainer) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Train(1, 2);
  EXPECT_EQ(publish(3), 1);
  Start({.steps = 1000});
  Call(training_, &Training::TrainStep, Batch("mlp", 4, "ann", 4), StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status_), "REWOUND") << status_.error_message();
  Train(1, 2);
  EXPECT_EQ(publish(3), 1);
  Train(4, 4);
  EXPECT_EQ(publish(5), 2) << "another call";
  const std::unique_ptr<Serving> serving = v1::ServingService::NewStub(channel_);
  EXPECT_EQ(Call(serving, &Serving::ListVersions, "{}").versions_size(), 2);
}

TEST_F(LiveModelsTest, ADrainSavesWhatHasChanged) {
  Start({});
  DefineMlp("mlp");
  Train(1, 3);
  EXPECT_FALSE(IsStored("mlp"));
  const auto before = Parameters("mlp");
  EXPECT_EQ(server_->Drain(std::chrono::seconds(20)), 0);
  EXPECT_TRUE(IsStored("mlp"));
  Start({});
  EXPECT_EQ(Parameters("mlp"), before);
  Train(4, 4);
  EXPECT_EQ(Step(), 4);
}

TEST_F(LiveModelsTest, ATrainStopsForADrainAndItsStepsAreSaved) {
  Start({});
  DefineMlp("mlp");
  UploadZeros("zeros", 1000);
  v1::TrainProgress last;
  {
    TrainCall train(training_, R"({"model": "mlp", "batch_size": 4, "rows": {"dataset": "zeros"},
        "epochs": 1000000000, "progress_every": "0.05s", "call": {"client_id": "ann", "sequence": "1"}})");
    ASSERT_TRUE(train.Next().has_value());
    std::thread drain([this] { EXPECT_EQ(server_->Drain(std::chrono::seconds(60)), 0); });
    last = train.Last();
    drain.join();
  }
  EXPECT_EQ(last.stop(), v1::TrainProgress::SERVER_STOPS);
  EXPECT_TRUE(last.done() && last.cancelled());
  Start({});
  EXPECT_EQ(Step(), last.steps());
  EXPECT_EQ(Sequence().last(), 1u);
}

// A live checkpoint between two steps of a Train has the steps so far, and the next server takes the call for applied.
TEST_F(LiveModelsTest, ALongTrainIsSavedMeanwhile) {
  Start({.steps = 1});
  DefineMlp("mlp");
  UploadZeros("zeros", 1000);
  const std::string request = R"({"model": "mlp", "batch_size": 4, "rows": {"dataset": "zeros"},
      "epochs": 1000000000, "progress_every": "0.05s", "call": {"client_id": "ann", "sequence": "1"}})";
  {
    TrainCall train(training_, request);
    ASSERT_TRUE(train.Next().has_value());
    AwaitDurable(1);
    ASSERT_TRUE(train.Next().has_value()) << "it goes on";
    EXPECT_EQ(Sequence().last(), 0u);
    std::thread rest([&train] {
      while (train.Next().has_value()) {
      }
    });
    StopServer();
    rest.join();
  }
  Start({.steps = 1});
  EXPECT_EQ(Sequence().last(), 1u);
  const int64_t step = Step();
  EXPECT_GE(step, 1);
  TrainCall again(training_, request);
  again.Rest(StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(again.status()), "ANSWER_FORGOTTEN");
  DefineMlp("calm");
  TrainCall calm(training_, absl::StrCat(R"({"model": "calm", "batch_size": 4, "rows": {"dataset": "zeros"},
      "epochs": 1000000000, "steps": )",
                                         step, "}"));
  calm.Rest();
  EXPECT_EQ(Parameters("mlp"), Parameters("calm"));
}

// A client that has had a Train's last message, and of whose steps a crash has taken the last ones, is told so at his next call.
TEST_F(LiveModelsTest, AClientHearsThatACrashTookTheLastStepsOfATrainThatHadEnded) {
  Start({.steps = 1});
  DefineMlp("mlp");
  UploadZeros("zeros", 1000);
  {
    TrainCall train(training_, R"({"model": "mlp", "batch_size": 4, "rows": {"dataset": "zeros"}, "epochs": 1000000000,
        "progress_every": "0.05s", "call": {"client_id": "ann", "sequence": "1"}})");
    AwaitDurable(1);  // A part of it.
    Lock("mlp");
    ASSERT_TRUE(train.Next().has_value());
    Call(training_, &Training::CancelTraining, R"({"model": "mlp"})");
    EXPECT_TRUE(train.Last().done());
    EXPECT_EQ(Sequence().last(), 1u);
    EXPECT_EQ(Sequence().durable(), 0u) << "its end is in memory alone";
  }
  StopServer();
  std::filesystem::remove_all(LockOf("mlp"));
  Start({.steps = 1});
  const v1::TrainStepRequest next = Batch("mlp", 1, "ann", 2);
  Call(training_, &Training::TrainStep, next, StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status_), "REWOUND");
  ExpectMessage("a crash has left the first steps alone: 1, the last applied");
  EXPECT_TRUE(Sequence().in_part());
  Call(training_, &Training::TrainStep, next);
  EXPECT_FALSE(Sequence().in_part());
}

TEST_F(LiveModelsTest, ADeletedModelStaysDeleted) {
  Start({.steps = 1});
  DefineMlp("mlp");
  AwaitStored("mlp");
  Call(models_, &Models::DeleteModel, R"({"model": "mlp"})");
  EXPECT_FALSE(IsStored("mlp"));
  Start({.steps = 1});
  Call(models_, &Models::GetModel, R"({"model": "mlp"})", StatusCode::NOT_FOUND);
}

// A deletion may come at any moment of a save, and the save's own wait for the deletion among them.
TEST_F(LiveModelsTest, ModelsComeAndGoWhileTheyAreSaved) {
  Start({.steps = 1});
  uint64_t number = 0;
  for (int i = 0; i < 20; ++i) {
    DefineMlp("mlp");
    for (int step = 0; step < i % 4; ++step) Call(training_, &Training::TrainStep, Batch("mlp", step, "ann", ++number));
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
    v1::DeleteModelRequest request;
    request.set_model("mlp");
    request.mutable_call()->set_client_id("ann");
    request.mutable_call()->set_sequence(++number);
    Call(models_, &Models::DeleteModel, request);
    EXPECT_FALSE(IsStored("mlp"));
  }
}

TEST_F(LiveModelsTest, ADamagedModelIsLoggedAndStaysOnTheDisk) {
  Start({.steps = 1});
  DefineMlp("bad");
  DefineMlp("mlp");
  Train(1, 1);
  AwaitStored("bad");
  AwaitDurable(1);
  StopServer();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store_ + "/.live/bad")) {
    if (entry.path().filename() == "parameters.safetensors") std::ofstream(entry.path(), std::ios::app) << "x";
  }
  log_.Take();
  Start({.steps = 1});
  EXPECT_EQ(Step(), 1);
  Call(models_, &Models::GetModel, R"({"model": "bad"})", StatusCode::NOT_FOUND);
  EXPECT_TRUE(IsStored("bad"));
  std::string logged;
  for (const std::string& line : log_.Take()) logged += line;
  EXPECT_NE(logged.find("model 'bad' was not loaded and stays on the disk: checkpoint 'bad': "), std::string::npos) << logged;
  // Another model of its name takes its place, and not its files.
  const std::string aside = store_ + "/.live/.bad.1";
  DefineMlp("bad");
  while (!std::filesystem::exists(aside) || !IsStored("bad")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Call(models_, &Models::DeleteModel, R"({"model": "bad"})");
  Start({.steps = 1});
  Call(models_, &Models::GetModel, R"({"model": "bad"})", StatusCode::NOT_FOUND);
  EXPECT_TRUE(std::filesystem::exists(aside + "/CURRENT"));
}

TEST_F(LiveModelsTest, ADeletionThatFailsDeletesNothing) {
  Start({.steps = 1});
  DefineMlp("mlp");
  Train(1, 1);
  AwaitDurable(1);
  Lock("mlp");
  Call(models_, &Models::DeleteModel, R"({"model": "mlp"})", StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Step(), 1);
  std::filesystem::remove(LockOf("mlp"));
  Call(models_, &Models::DeleteModel, R"({"model": "mlp"})");
  Call(models_, &Models::GetModel, R"({"model": "mlp"})", StatusCode::NOT_FOUND);
  EXPECT_FALSE(IsStored("mlp"));
}

TEST_F(LiveModelsTest, ADrainTellsOnceWhatItCouldNotSave) {
  Start({});
  DefineMlp("mlp");
  DefineMlp("good");
  Lock("mlp");
  log_.Take();
  EXPECT_EQ(server_->Drain(std::chrono::seconds(20)), 0);
  EXPECT_EQ(server_->unsaved(), 1);
  EXPECT_TRUE(IsStored("good"));
  int64_t lines = 0;
  for (const std::string& line : log_.Take()) lines += line.find("model 'mlp' was not saved") != std::string::npos;
  EXPECT_EQ(lines, 1);
}

TEST_F(LiveModelsTest, LiveCheckpointsAreNoUsersCheckpoints) {
  Start({.steps = 1});
  DefineMlp("mlp");
  AwaitStored("mlp");
  EXPECT_EQ(Call(models_, &Models::ListCheckpoints, "{}").checkpoints_size(), 0);
  Call(models_, &Models::DeleteCheckpoint, R"({"checkpoint": "mlp"})", StatusCode::NOT_FOUND);
  Call(models_, &Models::LoadCheckpoint, R"({"checkpoint": ".live"})", StatusCode::INVALID_ARGUMENT);
}

TEST_F(LiveModelsTest, AModelsLifeIsKept) {
  Start({.steps = 1});
  Call(models_, &Models::DefineModel,
       R"({"model": "brief", "ttl": "2s", "block": {"block": "Dense", "attributes": {"units": 1}}})");
  AwaitStored("brief");
  Start({.steps = 1});
  Call(models_, &Models::GetModel, R"({"model": "brief"})");
  const auto since = std::chrono::steady_clock::now();
  while (IsStored("brief") && std::chrono::steady_clock::now() - since < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(IsStored("brief"));
}

TEST_F(LiveModelsTest, AScheduleNeedsAStore) {
  ServerOptions options;
  options.devices = "cpu";
  options.checkpoint_every = {.steps = 1};
  const absl::Status status = Server::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("--store_dir"), std::string::npos) << status;
}

}  // namespace
}  // namespace gluond::server
