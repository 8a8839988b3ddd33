// ModelService: named models: define, describe, set, read and save them, and infer (proto/gluond/v1/model.proto).
// model_service.cc: definition and life; model_service_parameters.cc: values; model_service_checkpoints.cc: the store.

#ifndef SERVER_SERVICES_MODEL_SERVICE_H_
#define SERVER_SERVICES_MODEL_SERVICE_H_

#include "gluond/v1/model.pb.h"
#include "server/durable/live_models.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/parameter_uploads.h"
#include "server/rpc/raw_service.h"

namespace gluond::server {

class ModelService final : public RawService {
 public:
  // `store` and `live` are null where nothing can be saved. All outlive the service.
  ModelService(Runner& runner, Devices& devices, Models& models, ParameterUploads& uploads, CheckpointStore* store,
               LiveModels* live);

 private:
  void DefineModel(Call<v1::DefineModelRequest, v1::DefineModelResponse> call);
  void GetModel(Call<v1::GetModelRequest, v1::GetModelResponse> call);
  void ListModels(Call<v1::ListModelsRequest, v1::ListModelsResponse> call);
  void DeleteModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call);
  void Predict(Call<v1::PredictRequest, v1::PredictResponse> call);

  void InitializeParameters(Call<v1::InitializeParametersRequest, v1::InitializeParametersResponse> call);
  void SetParameters(Call<v1::SetParametersRequest, v1::SetParametersResponse> call);
  void GetParameters(Call<v1::GetParametersRequest, v1::GetParametersResponse> call);
  void UploadParameter(Call<v1::UploadParameterRequest, v1::UploadParameterResponse> call);
  void DownloadParameter(Call<v1::DownloadParameterRequest, v1::DownloadParameterResponse> call);

  using LoadCall = Call<v1::LoadCheckpointRequest, v1::LoadCheckpointResponse>;
  void SaveCheckpoint(Call<v1::SaveCheckpointRequest, v1::SaveCheckpointResponse> call);
  void LoadCheckpoint(LoadCall call);
  void ListCheckpoints(Call<v1::ListCheckpointsRequest, v1::ListCheckpointsResponse> call);
  void DeleteCheckpoint(Call<v1::DeleteCheckpointRequest, v1::DeleteCheckpointResponse> call);

  // Whether `status` waits for a client's answer about its operators: then does `work`, on a worker, when it has come.
  bool Again(const absl::Status& status, std::function<void()> work);
  absl::StatusOr<CheckpointStore*> NeedStore() const;
  void ForgetModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call, HostedModelPtr hosted);
  void TakeUp(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint);
  // `replaced`: the only one that the new model may replace; null: any.
  void MakeAndRestore(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint, HostedModelPtr replaced);
  void RestoreInto(LoadCall call, HostedModelPtr hosted, Checkpoint checkpoint, bool is_new, HostedModelPtr replaced = nullptr);
  void FinishLoad(LoadCall call, const HostedModelPtr& hosted, const absl::Status& status);
  // Shares the model by its name. Where the call expects a version, that is a version of `replaced`. Nothing comes between
  // the look at it and AddModel: both are done in order with the other calls on `replaced`.
  template <class CallType>
  void AddModel(CallType call, HostedModelPtr model, const HostedModelPtr& replaced, bool replace,
                std::function<void(const absl::Status&)> done);
  // The same for the removal of a model.
  void RemoveModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call, const HostedModelPtr& hosted,
                   std::function<void(absl::StatusOr<HostedModelPtr>)> done);

  Devices& devices_;
  Models& models_;
  ParameterUploads& uploads_;
  CheckpointStore* const store_;
  LiveModels* const live_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_MODEL_SERVICE_H_
