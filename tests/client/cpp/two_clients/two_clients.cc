// Publishes a model by gluond's client and asks it by both. Usage: two_clients HOST:PORT

#include <gluond/gluond.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <iostream>

#include "google/rpc/status.pb.h"
#include "proto/inference/grpc_service.grpc.pb.h"

namespace {

// The values of the model's one output, asked by messages of the program's own.
std::vector<float> InferByOwnMessages(const std::string& address, const std::vector<float>& values) {
  const auto stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  inference::ModelInferRequest request;
  request.set_model_name("two");
  auto* const input = request.add_inputs();
  input->set_name("data");
  input->set_datatype("FP32");
  input->add_shape(1);
  input->add_shape(static_cast<int64_t>(values.size()));
  request.add_raw_input_contents(values.data(), values.size() * sizeof(float));
  inference::ModelInferResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->ModelInfer(&context, request, &response);
  if (!status.ok() || response.raw_output_contents_size() != 1) {
    std::cerr << status.error_message() << "\n";
    return {};
  }
  std::vector<float> outputs(response.raw_output_contents(0).size() / sizeof(float));
  std::memcpy(outputs.data(), response.raw_output_contents(0).data(), outputs.size() * sizeof(float));
  return outputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  if (pool->FindMessageTypeByName("inference.ModelInferRequest") == nullptr) return 3;
  if (pool->FindMessageTypeByName("google.rpc.Status") == nullptr) return 4;
  // The library's messages are registered nowhere.
  if (pool->FindMessageTypeByName("gluond.v1.TrainStepRequest") != nullptr) return 5;

  const gluond::Client client = gluond::Client::Connect(argv[1]).value();
  const gluond::Model model = client.DefineModel("two", gluond::nn::Dense({.units = 3}), {gluond::Input("data", {-1, 2})}).value();
  if (!model.Initialize(gluond::Named("Uniform")).ok()) return 6;
  model.Publish({"stable"}).value();
  const std::vector<float> values = {1, -2};
  const auto outputs = model.Infer({{"data", gluond::Tensor::Of({1, 2}, values)}}).value();
  if (outputs.size() != 1 || outputs.begin()->second.Values<float>().value() != InferByOwnMessages(argv[1], values)) return 7;

  // An error of the server's, whose details both read as google.rpc's messages.
  const absl::Status missing = client.GetModel("nobody").Describe().status();
  if (gluond::ReasonOf(missing) != "NOT_FOUND") return 8;
  std::cout << "both agree\n";
}
