// A server of few methods that keeps its books as the wire says, and misbehaves on demand: it
// fails before or after it applies a step, forgets everything, loses bytes of uploads. For tests of
// the client alone.

#ifndef GLUOND_TESTS_CLIENT_CPP_FAKE_SERVER_H_
#define GLUOND_TESTS_CLIENT_CPP_FAKE_SERVER_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gluond/v1/model.grpc.pb.h"
#include "gluond/v1/server.grpc.pb.h"
#include "gluond/v1/training.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

class FakeServer final : public v1::TrainingService::Service, public v1::ModelService::Service, public v1::ServerService::Service {
 public:
  // The faults of the next calls that could be cut, in order; later ones work.
  enum class Fault {
    kNone,
    kCutBefore,        // UNAVAILABLE, not applied.
    kCutAfter,         // Applied, the answer is lost.
    kRestart,          // UNAVAILABLE, and everything is forgotten.
    kCrash,            // UNAVAILABLE, and the calls since the last durable one are forgotten.
    kSilentCrash,      // The same, before the call is judged: the connection seems never to have broken.
    kCrashAfter,       // The call is applied and made durable, then its answer is lost in a crash.
    kDeadlineAfter,    // Applied, DEADLINE_EXCEEDED.
    kInvalidArgument,  // Refused.
    kBusy,             // RESOURCE_EXHAUSTED, not applied; another attempt makes sense after 300 ms.
    kBusyForLong,      // The same, after an hour.
  };

  FakeServer();
  ~FakeServer() override;

  std::shared_ptr<grpc::Channel> channel() { return server_->InProcessChannel({}); }
  void set_faults(std::vector<Fault> faults);
  // Every `n`th step becomes durable at once, with those before it; 0: none ever, and no reply says so.
  void set_durable_every(uint64_t n);

  int64_t steps();                              // Number of applied steps.
  std::vector<std::string> batches();           // The bytes of `data` in each TrainStep that is applied now.
  std::map<std::string, std::string> values();  // Bytes by parameter or dataset column.
  int64_t chunks();                             // Chunks that carried bytes.

 private:
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::GetServerInfoResponse*) override;
  grpc::Status GetSequence(grpc::ServerContext*, const v1::GetSequenceRequest*, v1::GetSequenceResponse*) override;
  grpc::Status Step(grpc::ServerContext*, const v1::StepRequest*, v1::StepResponse*) override;
  grpc::Status TrainStep(grpc::ServerContext*, const v1::TrainStepRequest*, v1::TrainStepResponse*) override;
  grpc::Status UploadParameter(grpc::ServerContext*, const v1::UploadParameterRequest*, v1::UploadParameterResponse*) override;
  grpc::Status SetParameters(grpc::ServerContext*, const v1::SetParametersRequest*, v1::SetParametersResponse*) override;
  grpc::Status GetParameters(grpc::ServerContext*, const v1::GetParametersRequest*, v1::GetParametersResponse*) override;
  grpc::Status DownloadParameter(grpc::ServerContext*, const v1::DownloadParameterRequest*,
                                 v1::DownloadParameterResponse*) override;
  grpc::Status UploadDataset(grpc::ServerContext*, const v1::UploadDatasetRequest*, v1::UploadDatasetResponse*) override;
  grpc::Status DeleteDataset(grpc::ServerContext*, const v1::DeleteDatasetRequest*, v1::DeleteDatasetResponse*) override;
  grpc::Status ListDatasets(grpc::ServerContext*, const v1::ListDatasetsRequest*, v1::ListDatasetsResponse*) override;

  Fault NextFault();
  void Crash();
  template <class Request, class Response>
  grpc::Status Apply(const Request* request, Response* response);
  grpc::Status Receive(const v1::Chunk& chunk, std::string* bytes);

  std::mutex mu_;
  std::vector<Fault> faults_;                // Guarded by mu_, as all below.
  std::map<std::string, uint64_t> applied_;  // Last sequence number by client.
  std::map<std::string, uint64_t> durable_;
  bool crashed_ = false;
  std::map<std::string, uint64_t> unanswered_;  // Numbers up to this one were applied before a crash.
  uint64_t durable_every_ = 0;
  std::vector<std::string> batches_;
  int64_t steps_ = 0;
  int64_t chunks_ = 0;
  uint64_t version_ = 1;
  std::map<std::string, std::string> staged_;
  std::map<std::string, std::string> values_;
  v1::Dataset dataset_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace gluond::client

#endif  // GLUOND_TESTS_CLIENT_CPP_FAKE_SERVER_H_
