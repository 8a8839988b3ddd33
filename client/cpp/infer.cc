// Model's published versions, by the open inference protocol.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "gluond/model.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using InferenceService = inference::GRPCInferenceService::Stub;

// The protocol's names of the dtypes.
struct Datatype {
  const char* name;
  DType dtype;
};
constexpr Datatype kDatatypes[] = {{"FP32", DType::kFloat32},  {"FP64", DType::kFloat64}, {"FP16", DType::kFloat16},
                                   {"BF16", DType::kBfloat16}, {"UINT8", DType::kUint8},  {"INT8", DType::kInt8},
                                   {"INT32", DType::kInt32},   {"INT64", DType::kInt64},  {"BOOL", DType::kBool}};

template <class Is>
absl::StatusOr<Datatype> FindDatatype(const std::string& tensor, const Is& is) {
  const auto* const found = std::find_if(std::begin(kDatatypes), std::end(kDatatypes), is);
  if (found != std::end(kDatatypes)) return *found;
  return absl::InvalidArgumentError(absl::StrCat("'", tensor, "' has a dtype that is not both the protocol's and the client's"));
}

absl::StatusOr<inference::ModelInferRequest> RequestOf(const std::string& model, const Tensors& inputs,
                                                       const std::string& version) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_model_version(version);
  for (const auto& [name, value] : inputs) {
    const Tensor& tensor = value;
    GLUOND_ASSIGN_OR_RETURN(const Datatype datatype,
                            FindDatatype(name, [&](const Datatype& each) { return each.dtype == tensor.dtype(); }));
    auto* const input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(datatype.name);
    input->mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
    request.add_raw_input_contents(tensor.bytes().data(), tensor.bytes().size());
  }
  return request;
}

absl::StatusOr<Tensors> OutputsOf(const std::string& model, inference::ModelInferResponse response) {
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::DataLossError(absl::StrCat("'", model, "': ", response.outputs_size(), " outputs came with ",
                                            response.raw_output_contents_size(), " values"));
  }
  Tensors outputs;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    GLUOND_ASSIGN_OR_RETURN(const Datatype datatype,
                            FindDatatype(output.name(), [&](const Datatype& each) { return output.datatype() == each.name; }));
    GLUOND_ASSIGN_OR_RETURN(outputs[output.name()],
                            Tensor::FromBytes(datatype.dtype, Shape(output.shape().begin(), output.shape().end()),
                                              std::move(*response.mutable_raw_output_contents(i))));
  }
  return outputs;
}

}  // namespace

// The call goes on by itself; threads that wait take turns in asking gRPC for its end.
struct InferenceCall {
  ~InferenceCall() {
    context.TryCancel();
    if (is_begun && !result.has_value()) Finish();
    queue.Shutdown();
  }
  void Finish() {
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
  }

  std::shared_ptr<Connection> connection;
  std::string model;
  absl::Duration timeout;
  inference::ModelInferRequest request;
  inference::ModelInferResponse response;
  grpc::Status end;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<InferenceService> stub;
  bool is_begun = false;
  std::atomic<bool> is_cancelled{false};
  std::mutex mutex;
  std::optional<absl::StatusOr<Tensors>> result;  // Guarded by mutex.
};

absl::StatusOr<Tensors> Model::Infer(const Tensors& inputs, const std::string& version) const {
  GLUOND_ASSIGN_OR_RETURN(const inference::ModelInferRequest request, RequestOf(name_, inputs, version));
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&InferenceService::ModelInfer, request, timeout_));
  return OutputsOf(name_, std::move(response));
}

PendingInference Model::InferAsync(const Tensors& inputs, const std::string& version) const {
  auto call = std::make_shared<InferenceCall>();
  call->connection = connection_;
  call->model = name_;
  call->timeout = timeout_;
  absl::StatusOr<inference::ModelInferRequest> request = RequestOf(name_, inputs, version);
  if (!request.ok()) {
    call->result = request.status();
    return PendingInference(std::move(call));
  }
  call->request = *std::move(request);
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
  call->stub = inference::GRPCInferenceService::NewStub(connection_->channel());
  call->is_begun = true;
  call->stub->AsyncModelInfer(&call->context, call->request, &call->queue)->Finish(&call->response, &call->end, call.get());
  return PendingInference(std::move(call));
}

absl::StatusOr<Tensors> PendingInference::Wait() const {
  std::lock_guard<std::mutex> lock(call_->mutex);
  if (call_->result.has_value()) return *call_->result;
  call_->Finish();
  if (call_->end.ok()) {
    call_->result = OutputsOf(call_->model, std::move(call_->response));
  } else if (call_->is_cancelled) {
    call_->result = absl::CancelledError(absl::StrCat("the inference of '", call_->model, "' has been cancelled"));
  } else {  // As a call that is waited for: where another attempt may do better, it is made.
    auto again = call_->connection->Call(&InferenceService::ModelInfer, call_->request, call_->timeout);
    call_->result = again.ok() ? OutputsOf(call_->model, *std::move(again)) : absl::StatusOr<Tensors>(again.status());
  }
  return *call_->result;
}

void PendingInference::Cancel() const {
  call_->is_cancelled = true;
  call_->context.TryCancel();
}

absl::StatusOr<ModelMetadataResponse> Model::DescribeVersion(const std::string& version) const {
  inference::ModelMetadataRequest request;
  request.set_name(name_);
  request.set_version(version);
  return Described(connection_->Call(&InferenceService::ModelMetadata, request, timeout_));
}

}  // namespace gluond::client
