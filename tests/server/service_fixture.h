// A whole server in this process, and stubs of its services. No port: calls go through InProcessChannel.

#ifndef TESTS_SERVER_SERVICE_FIXTURE_H_
#define TESTS_SERVER_SERVICE_FIXTURE_H_

#include <pthread.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gluond/v1/model.grpc.pb.h"
#include "gluond/v1/operator.grpc.pb.h"
#include "gluond/v1/server.grpc.pb.h"
#include "gluond/v1/training.grpc.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/server.h"

namespace gluond::server {

// A message from JSON, as a client writes it by hand.
template <class Message>
Message Json(const std::string& text) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message);
  EXPECT_TRUE(status.ok()) << text << "\n" << status.ToString();
  return message;
}

inline std::string ThreadName() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

// Lines that the server logged.
class Log {
 public:
  LogSink sink() {
    return [this](absl::string_view line) {
      std::lock_guard lock(mu_);
      lines_.emplace_back(line);
      thread_ = ThreadName();
    };
  }
  std::vector<std::string> Take() {
    std::lock_guard lock(mu_);
    return std::move(lines_);
  }
  // The name of the thread that logged the last line.
  std::string thread() {
    std::lock_guard lock(mu_);
    return thread_;
  }

 private:
  std::mutex mu_;
  std::vector<std::string> lines_;
  std::string thread_;
};

// The reason that the server gives for an error (docs/wire.md); empty where it gives none.
inline std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  for (const auto& detail : details.details()) (void)detail.UnpackTo(&info);
  return info.reason();
}

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override { StartServer({}); }

  void StartServer(Limits limits) {
    StopServer();
    store_ = testing::TempDir() + "/store-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    ServerOptions options;
    options.devices = "cpu";
    options.cpu_threads = 2;
    options.store_dir = store_;
    options.limits = limits;
    options.log = log_.sink();
    Configure(&options);
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = server_->InProcessChannel();
    operators_ = v1::OperatorService::NewStub(channel_);
    models_ = v1::ModelService::NewStub(channel_);
    training_ = v1::TrainingService::NewStub(channel_);
    info_ = v1::ServerService::NewStub(channel_);
  }
  virtual void Configure(ServerOptions*) {}
  // Stubs hold the channel, which keeps calls possible: they go first.
  void StopServer() {
    operators_.reset();
    models_.reset();
    training_.reset();
    info_.reset();
    channel_.reset();
    server_.reset();
  }
  void TearDown() override {
    StopServer();
    std::error_code error;
    std::filesystem::remove_all(store_, error);
  }

  // Calls a method with a request as JSON. The reply is empty when it fails.
  template <class Stub, class Request, class Response>
  Response Call(const std::unique_ptr<Stub>& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request, grpc::StatusCode expected = grpc::StatusCode::OK) {
    grpc::ClientContext context;
    Response response;
    status_ = (stub.get()->*method)(&context, request, &response);
    EXPECT_EQ(status_.error_code(), expected) << request.ShortDebugString() << "\n" << status_.error_message();
    return response;
  }
  template <class Stub, class Request, class Response>
  Response Call(const std::unique_ptr<Stub>& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const std::string& json, grpc::StatusCode expected = grpc::StatusCode::OK) {
    return Call(stub, method, Json<Request>(json), expected);
  }
  // The last call's message says this.
  void ExpectMessage(const std::string& part) {
    EXPECT_NE(status_.error_message().find(part), std::string::npos) << status_.error_message();
  }

  // A small classifier of 4 features into 3 classes, with values and a trainer.
  void DefineMlp(const std::string& name, const std::string& optimizer = R"({"name": "sgd", "attributes":
      {"learning_rate": 0.1, "momentum": 0.9}})") {
    Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": ")" + name + R"(", "seed": "1", "block":
        {"block": "HybridSequential", "children": [
          {"block": "Dense", "attributes": {"units": 8, "activation": "relu"}},
          {"block": "Dense", "attributes": {"units": 3}}]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})");
    Call(models_, &v1::ModelService::Stub::InitializeParameters,
         R"({"model": ")" + name + R"(", "initializer": {"name": "xavier"}})");
    Call(training_, &v1::TrainingService::Stub::CreateTrainer,
         R"({"model": ")" + name + R"(",
        "loss": {"name": "SoftmaxCrossEntropyLoss"}, "metrics": [{"name": "accuracy"}], "optimizer": )" +
             optimizer + "}");
  }
  // One step on a batch of 6 that depends on `i`.
  static v1::TrainStepRequest Batch(const std::string& model, int i, const std::string& client = "", uint64_t sequence = 0) {
    v1::TrainStepRequest request;
    request.set_model(model);
    v1::Tensor& data = (*request.mutable_inputs())["data"];
    v1::Tensor& label = (*request.mutable_inputs())["label"];
    data.add_shape(6);
    data.add_shape(4);
    label.add_shape(6);
    for (int row = 0; row < 6; ++row) {
      const int kind = (row + i) % 3;
      for (int j = 0; j < 4; ++j) data.add_float_data(static_cast<float>(kind == j) + 0.1f * static_cast<float>(row));
      label.add_int_data(kind);
    }
    request.mutable_call()->set_client_id(client);
    request.mutable_call()->set_sequence(sequence);
    return request;
  }
  // A dataset of 30 rows for that classifier.
  void UploadToy(const std::string& name) {
    v1::UploadDatasetRequest request;
    request.set_dataset(name);
    request.set_commit(true);
    v1::Tensor& data = (*request.mutable_tensors())["data"];
    v1::Tensor& label = (*request.mutable_tensors())["label"];
    data.add_shape(30);
    data.add_shape(4);
    label.add_shape(30);
    for (int row = 0; row < 30; ++row) {
      for (int j = 0; j < 4; ++j) data.add_float_data(static_cast<float>(row % 3 == j) + 0.01f * static_cast<float>(row));
      label.add_int_data(row % 3);
    }
    EXPECT_TRUE(Call(training_, &v1::TrainingService::Stub::UploadDataset, request).committed());
  }
  // A dataset of so many rows of zeros for it.
  void UploadZeros(const std::string& name, int rows) {
    Call(training_, &v1::TrainingService::Stub::UploadDataset,
         absl::StrCat(R"({"dataset": ")", name, R"(", "commit": true, "tensors": {"data": {"shape": [)", rows, R"(, 4], "fill": {}},
         "label": {"shape": [)",
                      rows, R"(], "dtype": "INT32", "fill": {}}}})"));
  }

  // A Train under way.
  class TrainCall {
   public:
    TrainCall(const std::unique_ptr<v1::TrainingService::Stub>& stub, const v1::TrainRequest& request)
        : stream_(stub->Train(&context_, request)) {}
    TrainCall(const std::unique_ptr<v1::TrainingService::Stub>& stub, const std::string& json)
        : TrainCall(stub, Json<v1::TrainRequest>(json)) {}

    // The next message; none: the call has ended.
    std::optional<v1::TrainProgress> Next() {
      v1::TrainProgress progress;
      if (!stream_->Read(&progress)) return std::nullopt;
      return progress;
    }
    // The messages up to the end, which has this code.
    std::vector<v1::TrainProgress> Rest(grpc::StatusCode expected = grpc::StatusCode::OK) {
      std::vector<v1::TrainProgress> messages;
      while (std::optional<v1::TrainProgress> progress = Next()) messages.push_back(*std::move(progress));
      status_ = stream_->Finish();
      EXPECT_EQ(status_.error_code(), expected) << status_.error_message();
      return messages;
    }
    // The last of them.
    v1::TrainProgress Last() {
      const std::vector<v1::TrainProgress> messages = Rest();
      return messages.empty() ? v1::TrainProgress() : messages.back();
    }
    void Cancel() { context_.TryCancel(); }
    const grpc::Status& status() const { return status_; }

   private:
    grpc::ClientContext context_;
    const std::unique_ptr<grpc::ClientReader<v1::TrainProgress>> stream_;
    grpc::Status status_;
  };

  // Every parameter's bytes, to compare two runs.
  std::map<std::string, std::string> Parameters(const std::string& model) {
    std::map<std::string, std::string> bytes;
    const auto response =
        Call(models_, &v1::ModelService::Stub::GetParameters, R"({"model": ")" + model + R"(", "encoding": "RAW"})");
    for (const auto& [name, tensor] : response.parameters()) bytes[name] = tensor.raw();
    return bytes;
  }

  Log log_;
  std::string store_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::OperatorService::Stub> operators_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::TrainingService::Stub> training_;
  std::unique_ptr<v1::ServerService::Stub> info_;
  grpc::Status status_;
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_SERVICE_FIXTURE_H_
