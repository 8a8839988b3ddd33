// InferenceService serves published versions to clients of the open inference protocol, version 2, with Triton's
// extensions (proto/inference).

#ifndef SERVER_SERVICES_INFERENCE_SERVICE_H_
#define SERVER_SERVICES_INFERENCE_SERVICE_H_

#include "proto/inference/grpc_service.pb.h"
#include "server/rpc/raw_service.h"
#include "server/services/infer.h"
#include "server/services/infer_stream.h"
#include "server/serving/publisher.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

class InferenceService final : public RawService {
 public:
  // `regions`: null where the server takes no shared memory. All outlive this.
  InferenceService(Runner& runner, Publisher& publisher, InferStreams& streams, SharedRegions* regions = nullptr);

  void Sweep() override { streams_.Sweep(); }

 private:
  void ServerLive(Call<inference::ServerLiveRequest, inference::ServerLiveResponse> call);
  void ServerReady(Call<inference::ServerReadyRequest, inference::ServerReadyResponse> call);
  void ModelReady(Call<inference::ModelReadyRequest, inference::ModelReadyResponse> call);
  void ServerMetadata(Call<inference::ServerMetadataRequest, inference::ServerMetadataResponse> call);
  void ModelMetadata(Call<inference::ModelMetadataRequest, inference::ModelMetadataResponse> call);
  void ModelInfer(Call<inference::ModelInferRequest, inference::ModelInferResponse> call);
  std::shared_ptr<Stream> ModelStreamInfer(Stream::Opening opening);
  void ModelConfig(Call<inference::ModelConfigRequest, inference::ModelConfigResponse> call);
  void ModelStatistics(Call<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse> call);
  void RepositoryIndex(Call<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse> call);
  void RepositoryModelLoad(Call<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse> call);
  void RepositoryModelUnload(Call<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse> call);
  // The settings after those of the request, if any (inference_service_settings.cc).
  void LogSettings(Call<inference::LogSettingsRequest, inference::LogSettingsResponse> call);
  void TraceSetting(Call<inference::TraceSettingRequest, inference::TraceSettingResponse> call);
  void SystemSharedMemoryStatus(Call<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse> call);
  void SystemSharedMemoryRegister(
      Call<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse> call);
  void SystemSharedMemoryUnregister(
      Call<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse> call);
  // Shared memory that nobody has registered: a status without regions, and nothing to forget.
  template <class Request, class Response>
  void Nothing(Call<Request, Response> call);
  // UNIMPLEMENTED, with the sentence `kWhy`.
  template <const char* kWhy, class Request, class Response>
  void Unimplemented(Call<Request, Response> call);

  // The caller's regions of shared memory.
  template <class Call>
  CallersRegions RegionsOf(const Call& call) const {
    return {regions_, RegionUserOf(call.caller())};
  }

  Publisher& publisher_;
  const VersionTable& served_;
  InferStreams& streams_;
  SharedRegions* const regions_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INFERENCE_SERVICE_H_
