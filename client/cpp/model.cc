#include "gluond/model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using Models = v1::ModelService::Stub;
using Training = v1::TrainingService::Stub;

constexpr TensorMethod<v1::PredictRequest, v1::PredictResponse> kPredict = {"/gluond.v1.ModelService/Predict",
                                                                            v1::PredictRequest::kInputsFieldNumber};
constexpr TensorMethod<v1::ForwardRequest, v1::ForwardResponse> kForward = {"/gluond.v1.TrainingService/Forward",
                                                                            v1::ForwardRequest::kInputsFieldNumber};
constexpr TensorMethod<v1::BackwardRequest, v1::BackwardResponse> kBackward = {"/gluond.v1.TrainingService/Backward",
                                                                               v1::BackwardRequest::kHeadGradientsFieldNumber};
constexpr TensorMethod<v1::EvaluateRequest, v1::EvaluateResponse> kEvaluate = {"/gluond.v1.TrainingService/Evaluate",
                                                                               v1::EvaluateRequest::kInputsFieldNumber};
constexpr TensorMethod<v1::SetOptimizerStateRequest, v1::SetOptimizerStateResponse> kSetOptimizerState = {
    "/gluond.v1.TrainingService/SetOptimizerState", v1::SetOptimizerStateRequest::kStatesFieldNumber};

template <class Request>
Request For(const std::string& model) {
  Request request;
  request.set_model(model);
  return request;
}

// Whether the answer is a stored one, with statistics in place of the values of a large tensor.
template <class Response, class Tensors>
bool LacksValues(const Response& response, const Tensors& tensors) {
  return response.replayed() &&
         std::any_of(tensors.begin(), tensors.end(), [](const auto& each) { return each.second.has_statistics(); });
}

void Append(const std::vector<std::string>& names, google::protobuf::RepeatedPtrField<std::string>* field) {
  field->Add(names.begin(), names.end());
}

}  // namespace

Model::Model(std::shared_ptr<Connection> connection, std::string name)
    : connection_(std::move(connection)), name_(std::move(name)), timeout_(connection_->options().timeout) {}

Model Model::WithTimeout(absl::Duration timeout) const {
  Model model = *this;
  model.timeout_ = timeout;
  return model;
}

absl::StatusOr<ModelDescription> Model::Describe(bool graph) const {
  auto request = For<v1::GetModelRequest>(name_);
  request.set_graph(graph);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Models::GetModel, request, timeout_));
  return FromProto(response.model());
}

absl::Status Model::Delete() const {
  return connection_->Apply(&Models::DeleteModel, For<v1::DeleteModelRequest>(name_), timeout_).status();
}

absl::Status Model::Initialize(const Component& initializer, bool force_reinit) const {
  auto request = For<v1::InitializeParametersRequest>(name_);
  if (!initializer.name.empty()) *request.mutable_initializer() = ToProto(initializer);
  request.set_force_reinit(force_reinit);
  return connection_->Apply(&Models::InitializeParameters, std::move(request), timeout_).status();
}

absl::StatusOr<Tensors> Model::Predict(const Tensors& inputs, const std::vector<std::string>& outputs) const {
  auto request = For<v1::PredictRequest>(name_);
  Append(outputs, request.mutable_outputs());
  request.set_encoding(v1::Tensor::RAW);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(kPredict, request, inputs, timeout_));
  return FromProto(response.mutable_outputs());
}

absl::StatusOr<Tensors> Model::Forward(const Tensors& inputs, bool training) const {
  auto request = For<v1::ForwardRequest>(name_);
  request.set_training(training);
  request.set_encoding(v1::Tensor::RAW);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(kForward, std::move(request), inputs, timeout_));
  if (LacksValues(response, response.outputs())) {
    if (!training) return Predict(inputs);
    return absl::DataLossError(
        absl::StrCat("model '", name_,
                     "': Forward in training mode was applied, and Backward works, but the connection broke "
                     "before the outputs were here, and the server keeps none over 64 KiB. Call Predict or Forward in inference "
                     "mode for values, or give the model a smaller output"));
  }
  return FromProto(response.mutable_outputs());
}

absl::StatusOr<Tensors> Model::Backward(const Tensors& head_gradients, const std::vector<std::string>& gradients) const {
  auto request = For<v1::BackwardRequest>(name_);
  Append(gradients, request.mutable_gradients());
  request.set_encoding(v1::Tensor::RAW);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(kBackward, std::move(request), head_gradients, timeout_));
  // A stored answer has no large values. The model has them until another client's call changes the gradients.
  if (LacksValues(response, response.gradients())) return GetGradients(gradients);
  return FromProto(response.mutable_gradients());
}

absl::StatusOr<StepReport> Model::Step(int64_t batch_size, bool ignore_stale_grad) const {
  auto request = For<v1::StepRequest>(name_);
  request.set_batch_size(batch_size);
  request.set_ignore_stale_grad(ignore_stale_grad);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(&Training::Step, std::move(request), timeout_));
  return FromProto(response.report());
}

absl::Status Model::ZeroGradients() const {
  return connection_->Apply(&Training::ZeroGradients, For<v1::ZeroGradientsRequest>(name_), timeout_).status();
}

absl::StatusOr<Tensors> Model::GetGradients(const std::vector<std::string>& names) const {
  auto request = For<v1::GetGradientsRequest>(name_);
  Append(names, request.mutable_names());
  request.set_encoding(v1::Tensor::RAW);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Training::GetGradients, request, timeout_));
  return FromProto(response.mutable_gradients());
}

absl::StatusOr<TrainerDescription> Model::CreateTrainer(const TrainerOptions& options) const {
  auto request = For<v1::CreateTrainerRequest>(name_);
  if (options.loss_output.empty()) {
    *request.mutable_loss() = ToProto(options.loss);
  } else {
    request.set_loss_output(options.loss_output);
  }
  *request.mutable_optimizer() = ToProto(options.optimizer);
  if (options.lr_scheduler.has_value()) *request.mutable_lr_scheduler() = ToProto(*options.lr_scheduler);
  for (const Component& metric : options.metrics) *request.add_metrics() = ToProto(metric);
  request.set_prediction(options.prediction);
  if (options.clip_global_norm.has_value()) {
    request.set_clip_global_norm(*options.clip_global_norm);
  }
  request.set_skip_nonfinite(options.skip_nonfinite);
  request.set_report_gradient_norm(options.report_gradient_norm);
  request.set_replace(options.replace);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(&Training::CreateTrainer, std::move(request), timeout_));
  return FromProto(response.trainer());
}

absl::StatusOr<TrainerDescription> Model::GetTrainer() const {
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Training::GetTrainer, For<v1::GetTrainerRequest>(name_), timeout_));
  return FromProto(response.trainer());
}

absl::Status Model::SetLearningRate(double learning_rate) const {
  auto request = For<v1::SetLearningRateRequest>(name_);
  request.set_learning_rate(learning_rate);
  return connection_->Apply(&Training::SetLearningRate, std::move(request), timeout_).status();
}

absl::StatusOr<TrainStepResponse> Model::TrainStep(const Tensors& batch) const {
  return Described(connection_->Apply(kTrainStep, For<v1::TrainStepRequest>(name_), batch, timeout_));
}

absl::Status Model::TrainOnBatches(absl::FunctionRef<std::optional<Tensors>()> next,
                                   absl::FunctionRef<void(const TrainStepResponse&)> report) const {
  return connection_->TrainOnBatches(name_, timeout_, next, report);
}

absl::StatusOr<TrainStepResponse> Model::TrainStep(const Rows& rows, int64_t batch_size, std::optional<int64_t> steps) const {
  auto request = For<v1::TrainStepRequest>(name_);
  *request.mutable_rows() = ToProto(rows);
  request.set_batch_size(batch_size);
  if (steps.has_value()) request.set_steps(*steps);
  return Described(connection_->Apply(&Training::TrainStep, std::move(request), timeout_));
}

absl::StatusOr<TrainProgress> Model::Train(const TrainRequest& request,
                                           absl::FunctionRef<bool(const TrainProgress&)> progress) const {
  v1::TrainRequest message = ToProto(request);
  message.set_model(name_);
  return Described(connection_->Train(std::move(message), timeout_, progress));
}

absl::StatusOr<bool> Model::CancelTraining() const {
  GLUOND_ASSIGN_OR_RETURN(auto response,
                          connection_->Call(&Training::CancelTraining, For<v1::CancelTrainingRequest>(name_), timeout_));
  return response.cancelled();
}

absl::StatusOr<EvaluateResponse> Model::Evaluate(const Tensors& batch) const {
  return Described(connection_->Call(kEvaluate, For<v1::EvaluateRequest>(name_), batch, timeout_));
}

absl::StatusOr<EvaluateResponse> Model::Evaluate(const Rows& rows, std::optional<int64_t> batch_size) const {
  auto request = For<v1::EvaluateRequest>(name_);
  *request.mutable_rows() = ToProto(rows);
  if (batch_size.has_value()) request.set_batch_size(*batch_size);
  return Described(connection_->Call(&Training::Evaluate, request, timeout_));
}

absl::StatusOr<Tensors> Model::GetOptimizerState() const {
  auto request = For<v1::GetOptimizerStateRequest>(name_);
  request.set_encoding(v1::Tensor::RAW);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Training::GetOptimizerState, request, timeout_));
  return FromProto(response.mutable_states());
}

absl::Status Model::SetOptimizerState(const Tensors& states, std::optional<int64_t> step) const {
  auto request = For<v1::SetOptimizerStateRequest>(name_);
  if (step.has_value()) request.set_step(*step);
  return connection_->Apply(kSetOptimizerState, std::move(request), states, timeout_).status();
}

absl::StatusOr<Checkpoint> Model::Save(const std::string& checkpoint, bool overwrite) const {
  auto request = For<v1::SaveCheckpointRequest>(name_);
  request.set_checkpoint(checkpoint);
  request.set_overwrite(overwrite);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(&Models::SaveCheckpoint, std::move(request), timeout_));
  return FromProto(response.checkpoint());
}

absl::StatusOr<ServedVersion> Model::Publish(const std::vector<std::string>& labels, const ServingOptions& options,
                                             const std::string& served) const {
  auto request = For<v1::PublishModelRequest>(name_);
  request.set_served(served);
  request.mutable_labels()->Assign(labels.begin(), labels.end());
  *request.mutable_options() = ToProto(options);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Apply(&v1::ServingService::Stub::PublishModel, std::move(request), timeout_));
  return FromProto(response.version());
}

}  // namespace gluond::client
