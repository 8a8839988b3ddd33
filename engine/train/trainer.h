// Trainer: the loss, the optimizer with its states, and the step number of one model.
//
//   ASSIGN_OR_RETURN(auto trainer, Trainer::Create(model, {.loss = {"SoftmaxCrossEntropyLoss", {}},
//       .optimizer = {"sgd", {{"learning_rate", "0.05"}, {"momentum", "0.9"}}}, .metrics = {{"accuracy", {}}}}));
//   trainer->TrainStep({{"data", images}, {"label", labels}}, {}, nullptr,
//                      [](absl::StatusOr<StepReport> report) { ... report->loss ... });
//
// Thread-safe; no call waits: calls run on the model's strand, in order with the model's own (see model.h, also for
// the rules of callbacks). A failed or cancelled step has changed nothing that a step makes: parameters, running means,
// optimizer's states, sums of gradients, random numbers, counts. Work that can fail comes before the first write, or writes
// to other memory. Gradients that an earlier Backward has written may be lost; Step says so then. The exception is an update
// operator that fails, as a GPU's may: it is the error of the call, and the weights that it has written stay written.

#ifndef ENGINE_TRAIN_TRAINER_H_
#define ENGINE_TRAIN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/nn/model.h"
#include "engine/train/batches.h"
#include "engine/train/dataset.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"

namespace gluond {

class GradientReducer;
struct ProgramReport;
struct ShardedStep;
struct StepGraph;
template <class T>
class Task;

struct TrainerOptions {
  // A loss (engine/nn/loss.h) on one output of the model and the inputs "label" and, if a batch has it,
  // "sample_weight". An empty type: the output itself is the loss, head gradient ones.
  Spec loss = {"SoftmaxCrossEntropyLoss", {}};
  std::string prediction = {};          // The output that the loss reads; empty: the first.
  DType label_dtype = DType::kFloat32;  // Labels of another type are converted.
  Spec optimizer = {"sgd", {}};
  Spec lr_schedule = {};  // An empty type: the optimizer's learning rate.
  std::vector<Spec> metrics = {};
  // Over 0: when the norm of all gradients, after the division by the batch size, is larger, they are scaled to it.
  double clip_global_norm = 0;
  // A step with a loss or a gradient that is not finite changes nothing, running means included, except that gradients of
  // grad_req add become zero. (The same holds if clip_global_norm is set and the norm is not finite.)
  bool skip_nonfinite = false;
  // Reports tell the gradients' norm, and whether the gradients are finite. Off: a step computes the norm only if one
  // of the two options above needs it.
  bool report_norm = true;
};

struct MetricValue {
  std::string name;
  double value = 0;  // Over the call's samples.
};

struct StepReport {
  int64_t step = 0;  // Updates so far.
  double loss = 0;   // Mean over the call's samples; 0 for Step.
  // The L2 norm of the last step's gradients, after the division by the batch size and before clipping. See
  // TrainerOptions::report_norm.
  double gradient_norm = 0;
  bool nonfinite = false;    // A step of this call had a gradient or a loss that is not finite.
  int64_t skipped = 0;       // The number of steps skipped for that reason.
  double learning_rate = 0;  // The last step's.
  std::vector<MetricValue> metrics;
  std::vector<std::string> stale;  // Parameters left as they are, with no new gradient since the last step.
  int64_t samples = 0;
  uint64_t epoch = 0;  // The next step on the dataset goes on from here.
  int64_t next_row = 0;
  // The sums behind `loss` and `metrics`; see Trainer::Join.
  MetricSum loss_sum;
  std::vector<MetricSum> metric_sums;
};

struct EvaluateReport {
  double loss = 0;
  std::vector<MetricValue> metrics;
  int64_t samples = 0;
};

struct TrainStepOptions {
  int64_t batch_size = 0;  // The divisor of gradients; 0: the first dimension of the first input.
};

// Steps over rows of a dataset. Its columns "label", "sample_weight" and those named like the model's inputs are used.
struct DatasetSteps {
  std::shared_ptr<const Dataset> dataset = {};
  int64_t batch_size = 0;
  int64_t steps = 1;
  // The first position; the default is the end of the last call on a dataset (a checkpoint keeps it).
  std::optional<DatasetPosition> from = {};
  bool shuffle = true;
  bool keep_last = false;  // Trains on an epoch's last batch even if it is smaller.
  // int64 [n], on the CPU. If defined: these rows in this order, batch_size for each step; no shuffling.
  Tensor rows = {};
};

// A trainer as a checkpoint keeps it.
struct TrainerState {
  TrainerOptions options;
  int64_t step = 0;
  std::optional<double> learning_rate;  // Set by hand.
  DatasetPosition position;
  std::vector<std::pair<std::string, int64_t>> updates;  // Updates of each parameter, by name.
  NamedTensors states;                                   // "<parameter>/<state>".
};

class Trainer : public std::enable_shared_from_this<Trainer> {
 public:
  using OnStatus = Model::OnStatus;
  using OnStep = std::function<void(absl::StatusOr<StepReport>)>;
  using OnEvaluate = std::function<void(absl::StatusOr<EvaluateReport>)>;
  using CancellationPtr = std::shared_ptr<Cancellation>;

  // NOT_FOUND: an unknown loss, optimizer, schedule, metric or output. INVALID_ARGUMENT: a wrong attribute, an operator
  // without gradient, or one without kernel on the model's device.
  static absl::StatusOr<std::shared_ptr<Trainer>> Create(std::shared_ptr<Model> model, TrainerOptions options);
  // The same with an optimizer that is in no catalog; options.optimizer is its name alone.
  static absl::StatusOr<std::shared_ptr<Trainer>> Create(std::shared_ptr<Model> model, TrainerOptions options,
                                                         std::unique_ptr<Optimizer> optimizer);
  ~Trainer();

  const std::shared_ptr<Model>& model() const { return model_; }
  const TrainerOptions& options() const { return options_; }
  // The inputs of TrainStep: the model's, then, with a loss, "label" and "sample_weight", which is optional.
  const std::vector<ModelInput>& inputs() const { return inputs_; }

  // Updates from the gradients in the parameters (Model::Backward), divided by batch_size.
  // FAILED_PRECONDITION: a gradient is stale and `ignore_stale_grad` is false; the message names the parameters.
  void Step(int64_t batch_size, bool ignore_stale_grad, CancellationPtr cancellation, OnStep done);

  // Forward, backward and step in one run. `inputs` as inputs().
  void TrainStep(NamedTensors inputs, TrainStepOptions options, CancellationPtr cancellation, OnStep done);
  // Many steps in one call. `steps` counts the steps that were tried, skipped ones included.
  // A call that ends early after some steps reports those steps and is OK; `samples` tells how far the call came.
  // Such a call was cancelled, came too late, or its next step fails: a last batch that does not fit the model, no
  // memory. A call that goes on from there meets the error with nothing applied. An update that fails is an error all the same.
  void TrainSteps(DatasetSteps steps, CancellationPtr cancellation, OnStep done);

  // A step that several processes compute together (sharded_step.h), in two parts. ComputeStep does all that can fail, and has
  // changed nothing that a step changes. Then ApplyStep applies the step, or DropStep does not. `inputs`: this process's rows
  // alone, perhaps none. `reducer` adds up over the processes; null: this is the only one. Metrics that are means of batches count
  // each shard as a batch. Parameters of grad_req write keep the gradients that they have. A gradient of grad_req add is reduced before
  // it is added to the parameter's sum of gradients, which all processes are to have alike.
  //
  // An OK ComputeStep holds the strand: later calls wait for the word, which the caller owes. INVALID_ARGUMENT: as Check and
  // CheckSharded, another number of rows, or another number of losses.
  void ComputeStep(NamedTensors inputs, ShardedStep step, std::shared_ptr<GradientReducer> reducer, CancellationPtr cancellation,
                   OnStatus done);
  // FAILED_PRECONDITION: no computed step waits. Other errors: an operator of the update has failed, and the state is half the
  // step's. The report is that of the whole batch. Any thread.
  void ApplyStep(OnStep done);
  void DropStep(OnStatus done);
  // Whether steps may be computed in shards. FAILED_PRECONDITION: the model is not on a CPU. INVALID_ARGUMENT: an input, the loss
  // or an operator does not fit, by name. Any thread.
  absl::Status CheckSharded() const;
  // The bytes that ComputeStep keeps for so many shards, beside what a step of one shard takes. INVALID_ARGUMENT: a parameter's
  // shape is not known yet. Any thread.
  absl::StatusOr<int64_t> ShardedBytes(int64_t count) const;
  // Charges that now, with what a reducer takes, for as long as the trainer is there: the sums are allocated within it. To be
  // called before others have the trainer. Charges nothing where the first batch tells a parameter's shape; the sums are charged
  // when they are made then. RESOURCE_EXHAUSTED: there is not so much.
  absl::Status ReserveShards(int64_t count);

  // Loss and metrics in kPredict mode.
  void Evaluate(NamedTensors inputs, CancellationPtr cancellation, OnEvaluate done);
  // Over the rows [first, first + count) of a dataset in their own order; count 0: to the end.
  void Evaluate(std::shared_ptr<const Dataset> dataset, int64_t batch_size, int64_t first, int64_t count,
                CancellationPtr cancellation, OnEvaluate done);

  // Makes `total`, the report of some calls of TrainSteps, that of one call which takes the steps of `next`, too. An
  // empty report is one of no call.
  void Join(const StepReport& next, StepReport* total) const;

  // The report of a step's program, as of ReportModel. The update is part of it as soon as all parameters' shapes are known. Any
  // thread.
  absl::StatusOr<ProgramReport> ReportStep(const absl::flat_hash_map<std::string, Shape>& given) const;

  int64_t step() const;
  // The steps on batches since this trainer was made, for those who watch it.
  struct Progress {
    int64_t steps = 0;
    int64_t samples = 0;
    double loss = 0, gradient_norm = 0;  // The last step's, as in its report.
  };
  Progress progress() const;
  // The next update's learning rate, set by hand or by the schedule.
  double learning_rate() const;
  // FAILED_PRECONDITION: a schedule sets it. INVALID_ARGUMENT: negative or not finite. Counts from the next step on.
  absl::Status SetLearningRate(double learning_rate);

  // The trainer's and the model's state at one moment, between two steps. See Model::Snapshot.
  void Snapshot(std::function<void(absl::StatusOr<std::pair<ModelState, TrainerState>>)> done);
  // Takes the state of a trainer of the same options. All or nothing. Runs on the model's strand, as Model::Restore's
  // `then`.
  absl::Status RestoreNow(const TrainerState& state);
  // Sets states by name ("<parameter>/<state>"); others stay as they are. `step`, if given, becomes the step number and
  // every trained parameter's number of updates. All or nothing. NOT_FOUND: no such parameter. INVALID_ARGUMENT: a
  // state that the optimizer does not have, or of another shape; a negative step.
  void SetStates(NamedTensors states, std::optional<int64_t> step, OnStatus done);

 private:
  class StepLoop;    // One call: batch after batch.
  class ShardedRun;  // One step in shards.
  struct Parts;      // State that the strand owns.
  // The fate of a computed step: one of the two is there.
  struct Word {
    OnStep applied;
    OnStatus dropped;
  };

  Trainer(std::shared_ptr<Model> model, TrainerOptions options);
  absl::Status Initialize(std::unique_ptr<Optimizer> optimizer);
  // Decides at the pause of a step whether the rest of the run updates its parameters, and reports. The rest is ready then.
  // `squares` are the sums of the gradients' squares, which the run has made if WantsNorm.
  absl::StatusOr<bool> Decide(StepGraph& step, absl::Span<const double> squares, double divisor, bool loss_is_finite,
                              StepReport* report);
  // Does what was decided: updates `parameters`, or skips the step.
  absl::Status Take(StepGraph& step, absl::Span<const size_t> parameters, bool updates);
  // Writes what a call's sums tell.
  void Summarize(const MetricSum& loss, std::vector<MetricSum> metrics, int64_t samples, StepReport* report) const;
  // False: no computed step waits.
  bool Tell(Word word);
  // A step that is reported as a success has really ended.
  absl::Status AwaitDevice() const;
  // A tensor of the device, or its copy on the host, in `copy`.
  absl::StatusOr<Tensor> OnHost(const Tensor& value, Tensor* copy) const;
  void Progressed(int64_t samples, double loss, double gradient_norm);
  absl::Status ForgetSums(absl::Span<const size_t> parameters);
  // Parameters that a step should update and that `fresh` lacks.
  std::vector<std::string> Stale(absl::Span<const size_t> fresh) const;
  using OpenSource = std::function<absl::StatusOr<std::unique_ptr<BatchSource>>()>;
  void Run(bool train, OpenSource open, double divisor, CancellationPtr cancellation, OnStep done);
  Task<absl::StatusOr<StepReport>> StepNow(int64_t batch_size, bool ignore_stale_grad, CancellationPtr cancellation);
  std::pair<ModelState, TrainerState> SnapshotNow() const;
  absl::Status SetStatesNow(const NamedTensors& states, std::optional<int64_t> step);

  const std::shared_ptr<Model> model_;
  const TrainerOptions options_;
  std::vector<ModelInput> inputs_;  // With "sample_weight" last, if there is a loss.
  size_t num_optional_ = 0;         // Inputs that may be left out: 1 or 0.
  size_t prediction_ = 0;           // The output that the loss reads.
  std::unique_ptr<Parts> parts_;    // The strand's.

  mutable Mutex mu_;
  int64_t step_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<double> learning_rate_ ABSL_GUARDED_BY(mu_);
  Progress progress_ ABSL_GUARDED_BY(mu_);
  std::function<void(Word)> on_word_ ABSL_GUARDED_BY(mu_);  // Null: no computed step waits.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_TRAINER_H_
