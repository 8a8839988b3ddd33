// ModelService through a real stub: a model's life, its values, and its checkpoints.

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/store/crc32c.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Stub = v1::ModelService::Stub;
using grpc::StatusCode;

class ModelServiceTest : public ServiceTest {
 protected:
  v1::UploadParameterRequest Chunk(const std::string& bytes, uint64_t offset) {
    auto request = Json<v1::UploadParameterRequest>(
        R"({"model": "mlp", "parameter": "0.weight", "shape": [8, 4], "call": {"client_id": "ann"}})");
    request.mutable_chunk()->set_offset(offset);
    request.mutable_chunk()->set_data(bytes);
    request.mutable_chunk()->set_crc32c(Crc32c(bytes));
    return request;
  }
};

TEST_F(ModelServiceTest, DefinesFromATreeOfBlocks) {
  DefineMlp("mlp");
  const auto model = Call(models_, &Stub::GetModel, R"({"model": "mlp", "graph": true})").model();
  EXPECT_EQ(model.device(), "cpu");
  ASSERT_EQ(model.parameters_size(), 4);
  EXPECT_EQ(model.parameters(0).name(), "0.weight");
  EXPECT_EQ(model.parameters(0).shape(1), 4);
  EXPECT_TRUE(model.parameters(0).initialized());
  EXPECT_EQ(model.parameter_elements(), 8 * 4 + 8 + 3 * 8 + 3);
  EXPECT_EQ(model.inputs(0).name(), "data");
  EXPECT_EQ(model.outputs(0).shape(1), 3);
  EXPECT_GT(model.graph().nodes_size(), 1);
  EXPECT_TRUE(model.has_trainer());
}

TEST_F(ModelServiceTest, DefinesFromNodesInAnyOrder) {
  const auto model = Call(models_, &Stub::DefineModel, R"({"model": "net", "graph": {"nodes": [
      {"name": "out", "op": "FullyConnected", "inputs": ["act"], "attributes": {"num_hidden": 3}},
      {"name": "act", "op": "Activation", "inputs": ["fc1"], "attributes": {"act_type": "relu"}},
      {"name": "fc1", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 8}}],
      "outputs": ["out", "act"]}, "variables": [{"name": "data", "shape": [-1, 4]},
      {"name": "fc1_weight", "lr_mult": 0.5, "initializer": {"name": "one"}}]})")
                         .model();
  EXPECT_EQ(model.outputs(0).name(), "out");
  EXPECT_EQ(model.outputs(1).name(), "act");
  EXPECT_EQ(model.inputs_size(), 1);
  Call(models_, &Stub::InitializeParameters, R"({"model": "net"})");
  const auto weight = Call(models_, &Stub::GetParameters, R"({"model": "net", "names": ["fc1_weight"]})");
  EXPECT_EQ(weight.parameters().at("fc1_weight").float_data(31), 1);
}

TEST_F(ModelServiceTest, PredictsWithValuesThatWereSet) {
  Call(models_, &Stub::DefineModel, R"({"model": "line", "graph": {"nodes": [
      {"name": "y", "op": "FullyConnected", "inputs": ["x"], "attributes": {"num_hidden": 1}}]},
      "variables": [{"name": "x", "shape": [-1, 2]}]})");
  Call(models_, &Stub::Predict, R"({"model": "line", "inputs": {"x": {"shape": [1, 2], "float_data": [1, 2]}}})",
       StatusCode::FAILED_PRECONDITION);
  Call(models_, &Stub::SetParameters, R"({"model": "line", "parameters": {
      "y_weight": {"shape": [1, 2], "float_data": [3, 4]}, "y_bias": {"shape": [1], "float_data": [5]}}})");
  const auto y =
      Call(models_, &Stub::Predict, R"({"model": "line", "inputs": {"x": {"shape": [2, 2], "float_data": [1, 2, 0, 1]}}})");
  EXPECT_EQ(y.outputs().at("y").float_data(0), 16);
  EXPECT_EQ(y.outputs().at("y").float_data(1), 9);
  EXPECT_EQ(y.version(), 1u);
}

// A reply's bytes lie in the model's memory until they are sent.
TEST_F(ModelServiceTest, EachOfManyClientsGetsItsOwnPrediction) {
  Call(models_, &Stub::DefineModel, R"({"model": "twice", "graph": {"nodes": [
      {"name": "y", "op": "_mul_scalar", "inputs": ["x"], "attributes": {"scalar": 2}}]},
      "variables": [{"name": "x", "shape": [-1]}]})");
  std::vector<std::thread> clients;
  for (int t = 1; t <= 4; ++t) {
    clients.emplace_back([this, t] {
      v1::PredictRequest request;
      request.set_model("twice");
      request.set_encoding(v1::Tensor::RAW);
      v1::Tensor& x = (*request.mutable_inputs())["x"];
      x.add_shape(50'000);
      const std::vector<float> values(50'000, static_cast<float>(t));
      x.set_raw(values.data(), values.size() * sizeof(float));
      const std::vector<float> twice(50'000, static_cast<float>(2 * t));
      for (int i = 0; i < 50; ++i) {
        v1::PredictResponse response;
        grpc::ClientContext context;
        const grpc::Status status = models_->Predict(&context, request, &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        const std::string& raw = response.outputs().at("y").raw();
        ASSERT_EQ(raw.size(), twice.size() * sizeof(float));
        EXPECT_EQ(std::memcmp(raw.data(), twice.data(), raw.size()), 0) << "client " << t << ", call " << i;
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(ModelServiceTest, OfManySavesWithoutOverwriteOneIsDone) {
  DefineMlp("mlp");
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> saved = 0;
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&] {
        grpc::ClientContext context;
        v1::SaveCheckpointResponse response;
        v1::SaveCheckpointRequest request;
        request.set_model("mlp");
        request.set_checkpoint(absl::StrCat("c", round));
        saved += models_->SaveCheckpoint(&context, request, &response).ok();
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(saved, 1);
  }
}

// Parameters without memory are not initialized, whatever the second try says.
TEST_F(ModelServiceTest, WithoutMemoryNothingIsInitialized) {
  for (int kib = 1100; kib < 5000; kib += 200) {
    SCOPED_TRACE(kib);
    Limits limits;
    limits.max_model_bytes = kib << 10;
    StartServer(limits);
    Call(models_, &Stub::DefineModel, R"({"model": "g", "block": {"block": "Dense", "attributes": {"units": 262144,
        "use_bias": false}}, "variables": [{"name": "data", "shape": [-1, 1]}]})");
    for (int i = 0; i < 2; ++i) {
      grpc::ClientContext context;
      v1::InitializeParametersResponse response;
      const grpc::Status status = models_->InitializeParameters(
          &context, Json<v1::InitializeParametersRequest>(R"({"model": "g", "initializer": {"name": "One"}})"), &response);
      grpc::ClientContext get_context;
      v1::GetParametersResponse values;
      const grpc::Status got = models_->GetParameters(
          &get_context, Json<v1::GetParametersRequest>(R"({"model": "g", "encoding": "STATISTICS"})"), &values);
      if (status.ok() && got.ok()) {
        EXPECT_EQ(values.parameters().begin()->second.statistics().max(), 1);
      } else if (!status.ok()) {
        EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
        EXPECT_EQ(values.parameters_size(), 0);
      }
    }
  }
}

TEST_F(ModelServiceTest, AModelLivesUntilItIsDeletedOrReplaced) {
  DefineMlp("mlp");
  Call(models_, &Stub::DefineModel, R"({"model": "mlp", "block": {"block": "Flatten"}})", StatusCode::ALREADY_EXISTS);
  Call(models_, &Stub::DefineModel, R"({"model": "mlp", "block": {"block": "Flatten"}, "replace": true})");
  EXPECT_EQ(Call(models_, &Stub::ListModels, "{}").models_size(), 1);
  Call(models_, &Stub::DeleteModel, R"({"model": "mlp"})");
  Call(models_, &Stub::GetModel, R"({"model": "mlp"})", StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(models_, &Stub::ListModels, "{}").models_size(), 0);
}

TEST_F(ModelServiceTest, ModelsAreListedByPages) {
  for (const char* name : {"c", "a", "b"}) {
    Call(models_, &Stub::DefineModel, absl::StrCat(R"({"model": ")", name, R"(", "block": {"block": "Flatten"}})"));
  }
  const auto first = Call(models_, &Stub::ListModels, R"({"page_size": 2})");
  ASSERT_EQ(first.models_size(), 2);
  EXPECT_EQ(first.models(1).name(), "b");
  const auto second =
      Call(models_, &Stub::ListModels, absl::StrCat(R"({"page_size": 2, "page_token": ")", first.next_page_token(), R"("})"));
  ASSERT_EQ(second.models_size(), 1);
  EXPECT_EQ(second.models(0).name(), "c");
  EXPECT_EQ(second.next_page_token(), "");
  Call(models_, &Stub::ListModels, R"({"page_token": "b"})", StatusCode::INVALID_ARGUMENT);
}

TEST_F(ModelServiceTest, DeletedModelsGiveTheirMemoryBack) {
  const int64_t before = server_->devices().tensor_bytes();
  DefineMlp("mlp");
  EXPECT_GT(server_->devices().tensor_bytes(), before);
  Call(models_, &Stub::DeleteModel, R"({"model": "mlp"})");
  for (int i = 0; i < 100 && server_->devices().tensor_bytes() > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(server_->devices().tensor_bytes(), before);
}

TEST_F(ModelServiceTest, AModelWithATtlExpires) {
  Call(models_, &Stub::DefineModel, R"({"model": "mlp", "block": {"block": "Flatten"}, "ttl": "0.1s"})");
  for (int i = 0; i < 200 && Call(models_, &Stub::ListModels, "{}").models_size() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(Call(models_, &Stub::ListModels, "{}").models_size(), 0);
}

TEST_F(ModelServiceTest, UploadsAreCountedWhoeverSendsThem) {
  Limits limits;
  limits.max_uploads = 3;
  StartServer(limits);
  DefineMlp("mlp");
  const std::string bytes(8 * 4 * 4, '\0');
  auto chunk = Chunk(bytes, 0);
  for (const char* client : {"a", "b", "ann"}) {
    chunk.mutable_call()->set_client_id(client);
    Call(models_, &Stub::UploadParameter, chunk);
  }
  chunk.mutable_call()->set_client_id("d");
  Call(models_, &Stub::UploadParameter, chunk, StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_uploads");
  Call(models_, &Stub::UploadParameter, Chunk(bytes, 0));  // It is one of the three.
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "uploaded": ["0.weight"], "call": {"client_id": "ann"}})");
  Call(models_, &Stub::UploadParameter, chunk);
}

TEST_F(ModelServiceTest, ClientsUploadAtTheSameTime) {
  DefineMlp("mlp");
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([this, c] {
      for (int i = 0; i < 50; ++i) {
        auto request = Chunk(std::string(8 * 4 * 4, static_cast<char>(i)), 0);
        request.mutable_call()->set_client_id(std::to_string(c % 2));  // Two of them take each other's place.
        request.set_restart(true);
        grpc::ClientContext context;
        v1::UploadParameterResponse response;
        const grpc::Status status = models_->UploadParameter(&context, request, &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.received(), 128u);
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(ModelServiceTest, LargeParametersTravelInChunks) {
  DefineMlp("mlp");
  std::string bytes(8 * 4 * 4, '\0');
  for (int i = 0; i < 32; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(&bytes[4 * static_cast<size_t>(i)], &value, 4);
  }
  EXPECT_EQ(Call(models_, &Stub::UploadParameter, Chunk("", 0)).received(), 0u);
  EXPECT_EQ(Call(models_, &Stub::UploadParameter, Chunk(bytes.substr(0, 50), 0)).received(), 50u);
  Call(models_, &Stub::UploadParameter, Chunk(bytes.substr(60), 60), StatusCode::FAILED_PRECONDITION);
  ExpectMessage("only 50 bytes were received");
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "uploaded": ["0.weight"], "call": {"client_id": "ann"}})",
       StatusCode::FAILED_PRECONDITION);
  auto damaged = Chunk(bytes.substr(50), 50);
  (*damaged.mutable_chunk()->mutable_data())[3] ^= 1;
  Call(models_, &Stub::UploadParameter, damaged, StatusCode::DATA_LOSS);
  EXPECT_EQ(ReasonOf(status_), "DAMAGED_ON_THE_WAY");
  EXPECT_EQ(Call(models_, &Stub::UploadParameter, Chunk(bytes.substr(0, 50), 0)).received(), 50u) << "again";
  EXPECT_EQ(Call(models_, &Stub::UploadParameter, Chunk(bytes.substr(40), 40)).received(), 128u) << "overlapping";
  Call(models_, &Stub::UploadParameter, Chunk("x", 128), StatusCode::INVALID_ARGUMENT);
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "uploaded": ["0.weight"], "call": {"client_id": "bob"}})",
       StatusCode::NOT_FOUND);
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "uploaded": ["0.weight"], "call": {"client_id": "ann"}})");
  EXPECT_EQ(Parameters("mlp")["0.weight"], bytes);

  std::string downloaded;
  auto request = Json<v1::DownloadParameterRequest>(R"({"model": "mlp", "parameter": "0.weight", "max_bytes": 50})");
  for (;;) {
    const auto chunk = Call(models_, &Stub::DownloadParameter, request);
    EXPECT_EQ(chunk.chunk().crc32c(), Crc32c(chunk.chunk().data()));
    downloaded += chunk.chunk().data();
    request.set_offset(downloaded.size());
    request.set_version(chunk.version());
    if (downloaded.size() == chunk.total()) break;
    ASSERT_FALSE(chunk.chunk().data().empty());
  }
  EXPECT_EQ(downloaded, bytes);
}

TEST_F(ModelServiceTest, ADownloadsCopyEndsWithItsLastByte) {
  Limits limits;
  limits.upload_lease_seconds = 1;
  StartServer(limits);
  DefineMlp("mlp");
  const auto bytes = [&] {  // A step writes to other memory while somebody holds a parameter's.
    for (int i = 0; i < 2; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
    return Call(models_, &Stub::GetModel, R"({"model": "mlp"})").model().tensor_bytes();
  };
  const int64_t before = bytes();
  const auto whole = Call(models_, &Stub::DownloadParameter, R"({"model": "mlp", "parameter": "0.weight"})");
  EXPECT_EQ(whole.chunk().data().size(), whole.total());
  EXPECT_EQ(bytes(), before);
  Call(models_, &Stub::DownloadParameter, R"({"model": "mlp", "parameter": "0.weight", "max_bytes": 50})");
  EXPECT_GT(bytes(), before) << "the rest may be asked for";
  while (bytes() > before) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // The lease ends it.
}

TEST_F(ModelServiceTest, AllOrNothingIsSet) {
  DefineMlp("mlp");
  const auto before = Parameters("mlp");
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "parameters": {
      "0.bias": {"shape": [8], "fill": {}}, "1.bias": {"shape": [4], "fill": {}}}})",
       StatusCode::INVALID_ARGUMENT);
  Call(models_, &Stub::SetParameters, R"({"model": "mlp", "parameters": {
      "0.bias": {"shape": [8], "fill": {}}, "1.bais": {"shape": [3], "fill": {}}}})",
       StatusCode::NOT_FOUND);
  ExpectMessage("1.bias");
  EXPECT_EQ(Parameters("mlp"), before);
}

TEST_F(ModelServiceTest, AResumedRunEqualsTheOneThatWasNot) {
  DefineMlp("mlp");
  for (int i = 0; i < 5; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
  const auto saved = Call(models_, &Stub::SaveCheckpoint, R"({"model": "mlp"})").checkpoint();
  EXPECT_EQ(saved.name(), "mlp");
  EXPECT_EQ(saved.step(), 5);
  EXPECT_TRUE(saved.has_trainer());
  for (int i = 5; i < 10; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
  const auto expected = Parameters("mlp");

  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "mlp", "model": "copy"})");
  for (int i = 5; i < 10; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("copy", i));
  EXPECT_EQ(Parameters("copy"), expected) << "in a new model";

  EXPECT_EQ(Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "mlp"})").model().step(), 5);
  for (int i = 5; i < 10; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
  EXPECT_EQ(Parameters("mlp"), expected) << "in the same model";

  StartServer({});
  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "mlp"})");
  for (int i = 5; i < 10; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", i));
  EXPECT_EQ(Parameters("mlp"), expected) << "after a restart";
}

TEST_F(ModelServiceTest, CheckpointsAreListedReplacedAndDeleted) {
  DefineMlp("mlp");
  Call(models_, &Stub::SaveCheckpoint, R"({"model": "mlp", "checkpoint": "a"})");
  Call(models_, &Stub::SaveCheckpoint, R"({"model": "mlp", "checkpoint": "a"})", StatusCode::ALREADY_EXISTS);
  Call(models_, &Stub::SaveCheckpoint, R"({"model": "mlp", "checkpoint": "a", "overwrite": true})");
  EXPECT_EQ(Call(models_, &Stub::ListCheckpoints, "{}").checkpoints_size(), 1);
  Call(models_, &Stub::DefineModel, R"({"model": "other", "block": {"block": "Flatten"}})");
  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "a", "model": "other"})", StatusCode::FAILED_PRECONDITION);
  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "a", "model": "other", "replace": true})");
  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "a", "model": "values", "parameters_only": true})");
  EXPECT_FALSE(Call(models_, &Stub::GetModel, R"({"model": "values"})").model().has_trainer());
  EXPECT_EQ(Parameters("values"), Parameters("mlp"));
  Call(models_, &Stub::DeleteCheckpoint, R"({"checkpoint": "a"})");
  Call(models_, &Stub::LoadCheckpoint, R"({"checkpoint": "a"})", StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace gluond::server
