#include "tests/client/cpp/fake_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/cpp/crc32c.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace gluond::client {
namespace {

constexpr uint64_t kChunkBytes = 16;

grpc::Status Cut() { return {grpc::StatusCode::UNAVAILABLE, "cut"}; }

grpc::Status Refused(grpc::StatusCode code, const std::string& reason, uint64_t last) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  (*info.mutable_metadata())["last"] = std::to_string(last);
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  return {code, "refused", details.SerializeAsString()};
}

grpc::Status Busy(int64_t seconds, int32_t nanos) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(seconds);
  retry.mutable_retry_delay()->set_nanos(nanos);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "busy", details.SerializeAsString()};
}

}  // namespace

FakeServer::FakeServer() {
  grpc::ServerBuilder builder;
  builder.RegisterService(static_cast<v1::TrainingService::Service*>(this));
  builder.RegisterService(static_cast<v1::ModelService::Service*>(this));
  builder.RegisterService(static_cast<v1::ServerService::Service*>(this));
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { server_->Shutdown(); }

void FakeServer::set_faults(std::vector<Fault> faults) {
  std::lock_guard<std::mutex> lock(mu_);
  faults_ = std::move(faults);
}

int64_t FakeServer::steps() {
  std::lock_guard<std::mutex> lock(mu_);
  return steps_;
}

void FakeServer::set_durable_every(uint64_t n) {
  std::lock_guard<std::mutex> lock(mu_);
  durable_every_ = n;
}

std::vector<std::string> FakeServer::batches() {
  std::lock_guard<std::mutex> lock(mu_);
  return batches_;
}

int64_t FakeServer::chunks() {
  std::lock_guard<std::mutex> lock(mu_);
  return chunks_;
}

std::map<std::string, std::string> FakeServer::values() {
  std::lock_guard<std::mutex> lock(mu_);
  return values_;
}

FakeServer::Fault FakeServer::NextFault() {
  if (faults_.empty()) return Fault::kNone;
  const Fault fault = faults_.front();
  faults_.erase(faults_.begin());
  return fault;
}

grpc::Status FakeServer::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::GetServerInfoResponse* response) {
  response->mutable_limits()->set_max_chunk_bytes(kChunkBytes);
  response->set_protocol(2);  // The lowest that the client speaks with (client.h).
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetSequence(grpc::ServerContext*, const v1::GetSequenceRequest* request,
                                     v1::GetSequenceResponse* response) {
  std::lock_guard<std::mutex> lock(mu_);
  response->set_last(applied_[request->client_id()]);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Step(grpc::ServerContext*, const v1::StepRequest* request, v1::StepResponse* response) {
  return Apply(request, response);
}

grpc::Status FakeServer::TrainStep(grpc::ServerContext*, const v1::TrainStepRequest* request, v1::TrainStepResponse* response) {
  return Apply(request, response);
}

void FakeServer::Crash() {
  crashed_ = true;
  applied_ = unanswered_ = durable_;
  steps_ = 0;
  for (const auto& [client, last] : applied_) steps_ += static_cast<int64_t>(last);
  batches_.resize(std::min(batches_.size(), static_cast<size_t>(steps_)));
}

template <class Request, class Response>
grpc::Status FakeServer::Apply(const Request* request, Response* response) {
  std::lock_guard<std::mutex> lock(mu_);
  const Fault fault = NextFault();
  if (fault == Fault::kCutBefore) return Cut();
  if (fault == Fault::kBusy) return Busy(0, 300'000'000);
  if (fault == Fault::kBusyForLong) return Busy(3600, 0);
  if (fault == Fault::kInvalidArgument) return {grpc::StatusCode::INVALID_ARGUMENT, "no such batch"};
  if (fault == Fault::kRestart) {
    applied_.clear();
    steps_ = 0;
    return Cut();
  }
  if (fault == Fault::kCrash || fault == Fault::kSilentCrash) Crash();
  if (fault == Fault::kCrash) return Cut();
  uint64_t& last = applied_[request->call().client_id()];
  uint64_t& durable = durable_[request->call().client_id()];
  const uint64_t unanswered = unanswered_[request->call().client_id()];
  if (request->call().sequence() <= unanswered) {
    return Refused(grpc::StatusCode::FAILED_PRECONDITION, "ANSWER_FORGOTTEN", last);
  } else if (request->call().sequence() <= last) {
    response->set_replayed(true);
  } else if (request->call().sequence() == last + 1) {
    ++last;
    ++steps_;
    if constexpr (requires { request->inputs(); }) batches_.push_back(request->inputs().at("data").raw());
    if (durable_every_ > 0 && last % durable_every_ == 0) durable = last;
  } else if (crashed_ && last == unanswered) {
    return Refused(grpc::StatusCode::ABORTED, "REWOUND", last);
  } else {
    return Refused(grpc::StatusCode::FAILED_PRECONDITION, "SEQUENCE_GAP", last);
  }
  if (durable_every_ > 0) response->set_durable_sequence(durable);
  if (fault == Fault::kCrashAfter) {
    durable = last;
    Crash();
    return Cut();
  }
  response->mutable_report()->set_step(static_cast<int64_t>(request->call().sequence()));
  if (fault == Fault::kCutAfter) return Cut();
  if (fault == Fault::kDeadlineAfter) return {grpc::StatusCode::DEADLINE_EXCEEDED, "late"};
  return grpc::Status::OK;
}

grpc::Status FakeServer::Receive(const v1::Chunk& chunk, std::string* bytes) {
  if (chunk.data().empty()) return grpc::Status::OK;
  const Fault fault = NextFault();
  if (fault == Fault::kCutBefore) return Cut();
  if (fault == Fault::kRestart) {
    values_.clear();
    dataset_.Clear();
    return Cut();
  }
  if (chunk.crc32c() != Crc32c(chunk.data())) return {grpc::StatusCode::DATA_LOSS, "checksum"};
  if (chunk.data().size() > kChunkBytes) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "chunk"};
  if (chunk.offset() > bytes->size()) return {grpc::StatusCode::FAILED_PRECONDITION, "gap"};
  if (chunk.offset() == bytes->size()) {
    *bytes += chunk.data();
    ++chunks_;
  }
  return fault == Fault::kCutAfter ? Cut() : grpc::Status::OK;
}

grpc::Status FakeServer::UploadParameter(grpc::ServerContext*, const v1::UploadParameterRequest* request,
                                         v1::UploadParameterResponse* response) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string& bytes = staged_[request->parameter()];
  if (request->restart()) bytes.clear();
  const grpc::Status status = Receive(request->chunk(), &bytes);
  response->set_received(bytes.size());
  return status;
}

grpc::Status FakeServer::SetParameters(grpc::ServerContext*, const v1::SetParametersRequest* request, v1::SetParametersResponse*) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [name, tensor] : request->parameters()) values_[name] = tensor.raw();
  for (const std::string& name : request->uploaded()) values_[name] = std::move(staged_[name]);
  applied_[request->call().client_id()] = request->call().sequence();
  ++version_;
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetParameters(grpc::ServerContext*, const v1::GetParametersRequest*, v1::GetParametersResponse*) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "--max_message_bytes"};
}

grpc::Status FakeServer::DownloadParameter(grpc::ServerContext*, const v1::DownloadParameterRequest* request,
                                           v1::DownloadParameterResponse* response) {
  std::lock_guard<std::mutex> lock(mu_);
  const Fault fault = NextFault();
  if (fault == Fault::kCutBefore) return Cut();
  if (fault == Fault::kRestart) ++version_;  // The parameters change between two chunks.
  if (request->has_version() && request->version() != version_) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "changed"};
  }
  const std::string& bytes = values_[request->parameter()];
  const std::string data = bytes.substr(request->offset(), kChunkBytes);
  response->set_dtype(v1::Tensor::UINT8);
  response->add_shape(static_cast<int64_t>(bytes.size()));
  response->set_total(bytes.size());
  response->set_version(version_);
  response->mutable_chunk()->set_offset(request->offset());
  response->mutable_chunk()->set_data(data);
  response->mutable_chunk()->set_crc32c(Crc32c(data) + (fault == Fault::kInvalidArgument ? 1 : 0));
  return grpc::Status::OK;
}

grpc::Status FakeServer::UploadDataset(grpc::ServerContext*, const v1::UploadDatasetRequest* request,
                                       v1::UploadDatasetResponse* response) {
  std::lock_guard<std::mutex> lock(mu_);
  if (dataset_.committed()) return {grpc::StatusCode::ALREADY_EXISTS, "committed"};
  if (!request->columns().empty()) *dataset_.mutable_columns() = request->columns();
  if (dataset_.columns().empty()) return {grpc::StatusCode::NOT_FOUND, "no dataset"};
  dataset_.set_name(request->dataset());
  const grpc::Status status = Receive(request->chunk(), &values_[request->column()]);
  dataset_.set_committed(request->commit());
  for (const v1::Column& column : dataset_.columns()) {
    (*response->mutable_received())[column.name()] = values_[column.name()].size();
  }
  return status;
}

grpc::Status FakeServer::DeleteDataset(grpc::ServerContext*, const v1::DeleteDatasetRequest* request, v1::DeleteDatasetResponse*) {
  std::lock_guard<std::mutex> lock(mu_);
  const Fault fault = NextFault();
  if (fault == Fault::kCutBefore) return Cut();
  if (dataset_.name() != request->dataset()) return {grpc::StatusCode::NOT_FOUND, "no dataset"};
  dataset_.Clear();
  return fault == Fault::kCutAfter ? Cut() : grpc::Status::OK;
}

grpc::Status FakeServer::ListDatasets(grpc::ServerContext*, const v1::ListDatasetsRequest*, v1::ListDatasetsResponse* response) {
  std::lock_guard<std::mutex> lock(mu_);
  *response->add_datasets() = dataset_;
  return grpc::Status::OK;
}

}  // namespace gluond::client
