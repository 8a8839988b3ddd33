// Model is a client's view of one model on the server. Copies are views of the same model;
// thread-safe. Calls that change the model are applied in order, each exactly once, even where the
// connection breaks. Errors are the server's own words; see docs/wire.md for each method's.

#ifndef GLUOND_MODEL_H_
#define GLUOND_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gluond/export.h"
#include "gluond/tensor.h"
#include "gluond/types.h"

namespace gluond::client {

class Connection;

// A trainer: `loss`, or the graph's output `loss_output`, and the way to make it small.
struct TrainerOptions {
  Component loss = {};
  Component optimizer = Named("sgd");
  std::optional<Component> lr_scheduler = {};
  std::vector<Component> metrics = {};
  std::string loss_output = "";
  std::string prediction = "";                  // The output that loss and metrics read. Default: the first.
  std::optional<double> clip_global_norm = {};  // Above 0. Absent: never.
  bool skip_nonfinite = true;
  bool report_gradient_norm = true;  // Otherwise only where one of the two above needs it.
  bool replace = false;
};

struct InferenceCall;

// An inference under way. Copies are the same one. With its last handle it is cancelled.
class GLUOND_EXPORT PendingInference {
 public:
  explicit PendingInference(std::shared_ptr<InferenceCall> call) : call_(std::move(call)) {}  // Model::InferAsync makes one.

  // The outputs, once they are there; again and again. CANCELLED: after Cancel().
  absl::StatusOr<Tensors> Wait() const;
  // Ends the call, unless its outputs are there.
  void Cancel() const;

 private:
  std::shared_ptr<InferenceCall> call_;
};

class GLUOND_EXPORT Model {
 public:
  // Client::GetModel makes one.
  Model(std::shared_ptr<Connection> connection, std::string name);

  const std::string& name() const { return name_; }

  // The same model, with another deadline for each call.
  Model WithTimeout(absl::Duration timeout) const;

  absl::StatusOr<ModelDescription> Describe(bool graph = false) const;
  absl::Status Delete() const;

  // Gives values to the parameters that have none (to all of them, where `force_reinit`).
  absl::Status Initialize(const Component& initializer = Component(), bool force_reinit = false) const;

  // Sets all parameters or none. Large ones travel in chunks; a broken connection costs only the
  // chunk under way.
  absl::Status SetParameters(const Tensors& parameters) const;

  // Values of one moment; no names: all. Large ones travel in chunks.
  // ABORTED: the model is being trained too fast to be read in chunks.
  absl::StatusOr<Tensors> GetParameters(const std::vector<std::string>& names = {}) const;

  absl::StatusOr<Tensors> Predict(const Tensors& inputs, const std::vector<std::string>& outputs = {}) const;
  // The outputs of a published version, by its number or label; empty: the routes choose. For callers
  // who may only infer, too; no training makes them wait.
  absl::StatusOr<Tensors> Infer(const Tensors& inputs, const std::string& version = "") const;
  // The same, not waited for.
  PendingInference InferAsync(const Tensors& inputs, const std::string& version = "") const;
  // Inputs and outputs of a published version; empty: of the label `stable`'s, else of the newest.
  absl::StatusOr<ModelMetadataResponse> DescribeVersion(const std::string& version = "") const;

  // Training by hand. Backward returns the gradients named; GetGradients all of them.
  // DATA_LOSS: Forward in training mode was applied, and the connection broke before large outputs were here.
  absl::StatusOr<Tensors> Forward(const Tensors& inputs, bool training = true) const;
  absl::StatusOr<Tensors> Backward(const Tensors& head_gradients = {}, const std::vector<std::string>& gradients = {}) const;
  absl::StatusOr<StepReport> Step(int64_t batch_size, bool ignore_stale_grad = false) const;
  absl::Status ZeroGradients() const;
  absl::StatusOr<Tensors> GetGradients(const std::vector<std::string>& names = {}) const;

  absl::StatusOr<TrainerDescription> CreateTrainer(const TrainerOptions& options) const;
  absl::StatusOr<TrainerDescription> GetTrainer() const;
  absl::Status SetLearningRate(double learning_rate) const;

  // Forward, loss, backward and step on one batch: inputs and label by name.
  absl::StatusOr<TrainStepResponse> TrainStep(const Tensors& batch) const;

  // Calls TrainStep on each batch that `next` gives, until it gives none. Up to 8 calls are under
  // way, so that a long way to the server costs little time. `report` gets the answers in order.
  // Neither may call the model: it is this call's until the end. Stops at the first error; that batch
  // and those after it were not applied, unless the error leaves it open (DEADLINE_EXCEEDED).
  //
  // A server that makes live checkpoints (--checkpoint_every) may crash meanwhile. When the server is there
  // again within Options::retry_for, the batches that its last live checkpoint lacks are sent again. The
  // model ends as without the crash. An answer that the crash took is reported with `replayed` alone.
  absl::Status TrainOnBatches(absl::FunctionRef<std::optional<Tensors>()> next,
                              absl::FunctionRef<void(const TrainStepResponse&)> report) const;

  // The same on rows of a dataset, `batch_size` at a time; at most `steps` times, or to their end.
  absl::StatusOr<TrainStepResponse> TrainStep(const Rows& rows, int64_t batch_size, std::optional<int64_t> steps = {}) const;

  // Trains on rows of a dataset for epochs, as TrainRequest says.
  // `progress` is told how the training goes on, once a second or as the request says, and at the end of each
  // epoch. Where `progress` returns false, the training ends after the step under way. `progress` may call
  // the model, but changes of the model wait for the end. There is no deadline. The training goes on after a
  // broken connection, in a server that was stopped and started anew, and in a group that has enough servers
  // again. Steps are counted from the first call's on. The last message says whether it was cancelled, or which
  // error ended it after some steps; a later call with `start_at` = `next` goes on. ABORTED, with the reason
  // REWOUND: a crash of the server has left a part of the steps; the message says how many.
  absl::StatusOr<TrainProgress> Train(const TrainRequest& request, absl::FunctionRef<bool(const TrainProgress&)> progress) const;

  // Ends the training of this model that is under way, whoever has begun it. False: there is none.
  absl::StatusOr<bool> CancelTraining() const;

  // Loss and metrics in inference mode.
  absl::StatusOr<EvaluateResponse> Evaluate(const Tensors& batch) const;
  absl::StatusOr<EvaluateResponse> Evaluate(const Rows& rows, std::optional<int64_t> batch_size = {}) const;

  // The optimizer's state by "<parameter>/<state>".
  absl::StatusOr<Tensors> GetOptimizerState() const;
  absl::Status SetOptimizerState(const Tensors& states, std::optional<int64_t> step = {}) const;

  // Saves everything that a resumed run needs. Default name: the model's.
  absl::StatusOr<Checkpoint> Save(const std::string& checkpoint = "", bool overwrite = false) const;

  // Makes an immutable version of the model as it is between two steps, and serves it to clients of the open
  // inference protocol. `served`: the name that is asked for. Default: the model's.
  absl::StatusOr<ServedVersion> Publish(const std::vector<std::string>& labels = {},
                                        const ServingOptions& options = ServingOptions(), const std::string& served = "") const;

 private:
  std::shared_ptr<Connection> connection_;
  std::string name_;
  absl::Duration timeout_;
};

}  // namespace gluond::client

#endif  // GLUOND_MODEL_H_
