// TrainingService through a real stub: by hand, fused, and on datasets.

#include <atomic>
#include <thread>

#include "client/cpp/connect.h"
#include "engine/store/crc32c.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Stub = v1::TrainingService::Stub;
using grpc::StatusCode;

using TrainingServiceTest = ServiceTest;

TEST_F(TrainingServiceTest, StepsLearn) {
  DefineMlp("mlp");
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    const auto reply = Call(training_, &Stub::TrainStep, Batch("mlp", i));
    EXPECT_EQ(reply.report().step(), i + 1);
    EXPECT_EQ(reply.samples(), 6);
    EXPECT_EQ(reply.steps(), 1);
    (i == 0 ? first : last) = reply.loss();
  }
  EXPECT_LT(last, first / 4);
  const auto evaluation = Call(training_, &Stub::Evaluate, Json<v1::EvaluateRequest>([] {
                                 std::string text;
                                 auto request = Batch("mlp", 0);
                                 request.clear_call();  // An EvaluateRequest has none.
                                 google::protobuf::util::MessageToJsonString(request, &text);
                                 return text;
                               }()));
  EXPECT_EQ(evaluation.metrics().at("accuracy"), 1);
}

TEST_F(TrainingServiceTest, ByHandEqualsFused) {
  for (const char* name : {"hand", "fused"}) DefineMlp(name);
  EXPECT_EQ(Parameters("hand"), Parameters("fused"));
  // The loss's gradient is known in closed form: softmax minus one-hot.
  for (int i = 0; i < 3; ++i) {
    const auto batch = Batch("hand", i);
    auto forward = Json<v1::ForwardRequest>(R"({"model": "hand", "training": true})");
    (*forward.mutable_inputs())["data"] = batch.inputs().at("data");
    const auto outputs = Call(training_, &Stub::Forward, forward);
    EXPECT_EQ(outputs.recording(), static_cast<uint64_t>(i + 1));
    v1::BackwardRequest backward;
    backward.set_model("hand");
    backward.set_recording(outputs.recording());
    backward.add_gradients("1.bias");
    const v1::Tensor& y = outputs.outputs().at("output");
    v1::Tensor& dy = (*backward.mutable_head_gradients())["output"];
    *dy.mutable_shape() = y.shape();
    for (int row = 0; row < 6; ++row) {
      double sum = 0;
      for (int j = 0; j < 3; ++j) sum += std::exp(y.float_data(row * 3 + j));
      for (int j = 0; j < 3; ++j) {
        dy.add_float_data(
            static_cast<float>(std::exp(y.float_data(row * 3 + j)) / sum - (batch.inputs().at("label").int_data(row) == j)));
      }
    }
    EXPECT_EQ(Call(training_, &Stub::Backward, backward).gradients().at("1.bias").float_data_size(), 3);
    Call(training_, &Stub::Backward, backward, StatusCode::FAILED_PRECONDITION);
    Call(training_, &Stub::Step, R"({"model": "hand", "batch_size": 6})");
    Call(training_, &Stub::TrainStep, Batch("fused", i));
  }
  const auto hand = Parameters("hand"), fused = Parameters("fused");
  for (const auto& [name, bytes] : hand) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float a, b;
      std::memcpy(&a, &bytes[i], 4);
      std::memcpy(&b, &fused.at(name)[i], 4);
      EXPECT_NEAR(a, b, 1e-5) << name;
    }
  }
}

TEST_F(TrainingServiceTest, AStaleGradientIsRefusedUnlessIgnored) {
  DefineMlp("mlp");
  Call(training_, &Stub::Step, R"({"model": "mlp", "batch_size": 1})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("0.weight");
  const auto report = Call(training_, &Stub::Step, R"({"model": "mlp", "batch_size": 1, "ignore_stale_grad": true})");
  EXPECT_EQ(report.report().stale_parameters_size(), 4);
}

TEST_F(TrainingServiceTest, StepsOnADatasetEqualStepsOnItsRows) {
  UploadToy("toy");
  for (const char* name : {"a", "b", "c"}) DefineMlp(name);
  const auto whole = Call(training_, &Stub::TrainStep, R"({"model": "a", "batch_size": 8,
      "rows": {"dataset": "toy", "shuffle": true, "seed": "5", "epoch": "1"}})");
  EXPECT_EQ(whole.steps(), 4);
  EXPECT_EQ(whole.samples(), 30);
  EXPECT_EQ(whole.next_begin(), 30);
  int64_t begin = 0;
  while (begin < 30) {
    auto request = Json<v1::TrainStepRequest>(R"({"model": "b", "batch_size": 8, "steps": 1,
        "rows": {"dataset": "toy", "shuffle": true, "seed": "5", "epoch": "1"}})");
    request.mutable_rows()->set_begin(begin);
    begin = Call(training_, &Stub::TrainStep, request).next_begin();
  }
  EXPECT_EQ(Parameters("a"), Parameters("b"));
  const auto dropped = Call(training_, &Stub::TrainStep, R"({"model": "c", "batch_size": 8, "drop_last": true,
      "rows": {"dataset": "toy"}})");
  EXPECT_EQ(dropped.samples(), 24);
  const auto indices = Call(training_, &Stub::TrainStep, R"({"model": "c", "rows": {"dataset": "toy", "indices": [3, 1, 3]}})");
  EXPECT_EQ(indices.samples(), 3);
  EXPECT_EQ(Call(training_, &Stub::Evaluate, R"({"model": "a", "rows": {"dataset": "toy"}})").samples(), 30);
}

// The rows' numbers take memory, not their bytes.
TEST_F(TrainingServiceTest, RowsWithoutElementsTakeNoMoreThanThereIs) {
  StartServer({.max_tensor_bytes = 1 << 30});
  DefineMlp("mlp");
  Call(training_, &Stub::UploadDataset, R"({"dataset": "nothing", "commit": true, "columns": [
      {"name": "data", "shape": [268435456, 0], "dtype": "UINT8"}]})");
  for (const char* rows : {R"({"dataset": "nothing", "shuffle": true})", R"({"dataset": "nothing"})"}) {
    Call(training_, &Stub::TrainStep, absl::StrCat(R"({"model": "mlp", "batch_size": 8, "steps": 1, "rows": )", rows, "}"),
         StatusCode::RESOURCE_EXHAUSTED);
    ExpectMessage("2147483648 bytes wanted");
    EXPECT_EQ(log_.thread(), "worker") << "many rows are ordered by no gRPC thread";
  }
}

TEST_F(TrainingServiceTest, DatasetsTravelInChunks) {
  auto request = Json<v1::UploadDatasetRequest>(R"({"dataset": "bytes", "call": {"client_id": "ann"}, "columns": [
      {"name": "data", "shape": [6, 4], "dtype": "UINT8", "scale": 0.5}, {"name": "label", "shape": [6], "dtype": "UINT8"}]})");
  const std::string data(24, '\2'), label("\0\1\2\0\1\2", 6);
  request.mutable_columns(0)->set_crc32c(Crc32c(data));
  EXPECT_FALSE(Call(training_, &Stub::UploadDataset, request).committed());
  const auto send = [&](const std::string& column, const std::string& bytes, uint64_t offset, StatusCode expected) {
    auto chunk = Json<v1::UploadDatasetRequest>(R"({"dataset": "bytes", "call": {"client_id": "ann"}})");
    chunk.set_column(column);
    chunk.mutable_chunk()->set_offset(offset);
    chunk.mutable_chunk()->set_data(bytes);
    return Call(training_, &Stub::UploadDataset, chunk, expected);
  };
  send("data", data.substr(0, 10), 0, StatusCode::OK);
  send("data", data.substr(20), 20, StatusCode::FAILED_PRECONDITION);
  send("data", data, 8, StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(send("data", data.substr(8), 8, StatusCode::OK).received().at("data"), 24u);
  send("lable", label, 0, StatusCode::NOT_FOUND);
  const std::string commit = R"({"dataset": "bytes", "call": {"client_id": "ann"}, "commit": true})";
  Call(training_, &Stub::UploadDataset, commit, StatusCode::FAILED_PRECONDITION);
  Call(training_, &Stub::UploadDataset, R"({"dataset": "bytes", "call": {"client_id": "bob"}, "commit": true})",
       StatusCode::ALREADY_EXISTS);
  DefineMlp("mlp");
  const std::string step = R"({"model": "mlp", "batch_size": 6, "rows": {"dataset": "bytes"}})";
  Call(training_, &Stub::TrainStep, step, StatusCode::FAILED_PRECONDITION);
  send("label", label, 0, StatusCode::OK);
  EXPECT_TRUE(Call(training_, &Stub::UploadDataset, commit).committed());
  EXPECT_TRUE(Call(training_, &Stub::UploadDataset, commit).committed()) << "a repeated commit";
  Call(training_, &Stub::TrainStep, step);
  const auto list = Call(training_, &Stub::ListDatasets, "{}");
  ASSERT_EQ(list.datasets_size(), 1);
  EXPECT_EQ(list.datasets(0).bytes(), 30);
  EXPECT_EQ(list.datasets(0).columns(0).scale(), 0.5);
  Call(training_, &Stub::DeleteDataset, R"({"dataset": "bytes"})");
  Call(training_, &Stub::TrainStep, step, StatusCode::NOT_FOUND);
}

TEST_F(TrainingServiceTest, ADamagedColumnIsNotCommitted) {
  Call(training_, &Stub::UploadDataset, R"({"dataset": "d", "columns": [{"name": "x", "shape": [1], "crc32c": 1}]})");
  Call(training_, &Stub::UploadDataset, R"({"dataset": "d", "column": "x", "chunk": {"data": "AAAAAA=="}, "commit": true})",
       StatusCode::DATA_LOSS);
  EXPECT_EQ(ReasonOf(status_), "DAMAGED_ON_THE_WAY");
}

TEST_F(TrainingServiceTest, TheTrainerIsDescribedWithItsDefaults) {
  DefineMlp("mlp");
  const auto trainer = Call(training_, &Stub::GetTrainer, R"({"model": "mlp"})").trainer();
  EXPECT_EQ(trainer.loss().name(), "SoftmaxCrossEntropyLoss");
  EXPECT_EQ(trainer.optimizer().attributes().at("momentum").number_value(), 0.9);
  EXPECT_TRUE(trainer.optimizer().attributes().contains("wd"));
  EXPECT_EQ(trainer.learning_rate(), 0.1);
  Call(training_, &Stub::SetLearningRate, R"({"model": "mlp", "learning_rate": 0.25})");
  EXPECT_EQ(Call(training_, &Stub::GetTrainer, R"({"model": "mlp"})").trainer().learning_rate(), 0.25);
  Call(training_, &Stub::SetLearningRate, R"({"model": "mlp", "learning_rate": "NaN"})", StatusCode::INVALID_ARGUMENT);
  Call(training_, &Stub::SetLearningRate, R"({"model": "mlp", "learning_rate": -1})", StatusCode::INVALID_ARGUMENT);
}

TEST_F(TrainingServiceTest, TheNormIsReportedUnlessNobodyNeedsIt) {
  DefineMlp("mlp");
  const auto norm = [this](const char* options) {
    Call(training_, &Stub::CreateTrainer, absl::StrCat(R"({"model": "mlp", "replace": true, )", options, R"(,
        "loss": {"name": "SoftmaxCrossEntropyLoss"}})"));
    return Call(training_, &Stub::TrainStep, Batch("mlp", 0)).report().gradient_norm();
  };
  EXPECT_GT(norm(R"("skip_nonfinite": false)"), 0);
  EXPECT_GT(norm(R"("report_gradient_norm": false)"), 0) << "it tells whether the step is skipped";
  EXPECT_EQ(norm(R"("report_gradient_norm": false, "skip_nonfinite": false)"), 0);
}

TEST_F(TrainingServiceTest, OptimizerStateIsReadAndSet) {
  for (const char* name : {"a", "b"}) DefineMlp(name);
  for (int i = 0; i < 3; ++i) Call(training_, &Stub::TrainStep, Batch("a", i));
  const auto state = Call(training_, &Stub::GetOptimizerState, R"({"model": "a", "encoding": "RAW"})");
  EXPECT_EQ(state.step(), 3);
  EXPECT_EQ(state.states_size(), 4);
  v1::SetOptimizerStateRequest set;
  set.set_model("b");
  set.set_step(state.step());
  *set.mutable_states() = state.states();
  Call(training_, &Stub::SetOptimizerState, set);
  v1::SetParametersRequest values;
  values.set_model("b");
  *values.mutable_parameters() = Call(models_, &v1::ModelService::Stub::GetParameters, R"({"model": "a"})").parameters();
  Call(models_, &v1::ModelService::Stub::SetParameters, values);
  for (const char* name : {"a", "b"}) Call(training_, &Stub::TrainStep, Batch(name, 9));
  EXPECT_EQ(Parameters("a"), Parameters("b"));
}

// Another dataset under a name in use is not confused with the one that has the name.
TEST_F(TrainingServiceTest, ACommittedDatasetIsNoOther) {
  const auto client = client::Connect(channel_);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto upload = [&](float value, double scale) {
    return client->UploadDataset("x", {{"data", client::Tensor::Of<float>({6, 4}, std::vector<float>(24, value)), scale}});
  };
  ASSERT_TRUE(upload(1, 1).ok());
  EXPECT_TRUE(upload(1, 1).ok());
  EXPECT_EQ(upload(2, 1).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(upload(1, 3).code(), absl::StatusCode::kAlreadyExists);
  Call(training_, &Stub::UploadDataset,
       R"({"dataset": "q", "call": {"client_id": "z"}, "columns": [{"name": "data", "shape": [4, 2]}],
      "tensors": {"data": {"shape": [2, 4], "fill": {}}}, "commit": true})",
       StatusCode::INVALID_ARGUMENT);
  ExpectMessage("is declared as");
}

TEST_F(TrainingServiceTest, OfTwoClientsOneMakesADataset) {
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> committed = 0;
    std::vector<std::thread> clients;
    for (int c = 0; c < 2; ++c) {
      clients.emplace_back([&, c] {
        grpc::ClientContext context;
        v1::UploadDatasetResponse response;
        const auto request = Json<v1::UploadDatasetRequest>(
            absl::StrCat(R"({"dataset": "r)", round, R"(", "call": {"client_id": "c)", c, R"("}, "restart": true, "commit": true,
                "tensors": {"data": {"shape": [100000], "fill": {"constant": )",
                         c, "}}}}"));
        committed += training_->UploadDataset(&context, request, &response).ok() && response.committed();
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(committed, 1);
  }
}

TEST_F(TrainingServiceTest, AnErrorAfterAStepDoesNotHideTheStep) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "four", "graph": {"nodes": [
      {"name": "r", "op": "reshape", "inputs": ["data"], "attributes": {"shape": [4, 4]}},
      {"name": "fc", "op": "FullyConnected", "inputs": ["r"], "attributes": {"num_hidden": 3}}]},
      "variables": [{"name": "data", "shape": [-1, 4]}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "four"})");
  Call(training_, &Stub::CreateTrainer, R"({"model": "four", "loss": {"name": "SoftmaxCrossEntropyLoss"}})");
  Call(training_, &Stub::UploadDataset, R"({"dataset": "ten", "commit": true, "tensors": {
      "data": {"shape": [10, 4], "fill": {}}, "label": {"shape": [10], "dtype": "INT32", "fill": {}}}})");
  const std::string steps =
      R"({"model": "four", "rows": {"dataset": "ten"}, "batch_size": "4", "call": {"client_id": "ann", "sequence": "1"}})";
  for (const bool again : {false, true}) {  // The third batch has two rows, which the model refuses.
    const auto response = Call(training_, &Stub::TrainStep, steps);
    EXPECT_EQ(response.samples(), 8);
    EXPECT_EQ(response.replayed(), again);
    EXPECT_EQ(Call(training_, &Stub::GetTrainer, R"({"model": "four"})").trainer().step(), 2);
  }
  Call(training_, &Stub::TrainStep, R"({"model": "four", "rows": {"dataset": "ten", "begin": "8"}, "batch_size": "4",
                                        "call": {"client_id": "ann", "sequence": "2"}})",
       StatusCode::INVALID_ARGUMENT);
}

TEST_F(TrainingServiceTest, ABackwardThatWasTooLateCanBeCalledAgain) {
  DefineMlp("late");
  Call(training_, &Stub::UploadDataset, R"({"dataset": "many", "commit": true, "tensors": {
      "data": {"shape": [100000, 4], "fill": {}}, "label": {"shape": [100000], "dtype": "INT32", "fill": {}}}})");
  Call(training_, &Stub::Forward, R"({"model": "late", "training": true, "inputs": {"data": {"shape": [4, 4], "fill": {}}}})");
  std::thread evaluation(
      [this] { Call(training_, &Stub::Evaluate, R"({"model": "late", "rows": {"dataset": "many"}, "batch_size": "2"})"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  v1::BackwardResponse response;
  EXPECT_EQ(training_->Backward(&context, Json<v1::BackwardRequest>(R"({"model": "late"})"), &response).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  evaluation.join();
  Call(training_, &Stub::Backward, R"({"model": "late"})");
}

}  // namespace
}  // namespace gluond::server
