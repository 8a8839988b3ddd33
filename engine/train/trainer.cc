#include "engine/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/transfer.h"
#include "engine/train/trainer_parts.h"

namespace gluond {

Trainer::Trainer(std::shared_ptr<Model> model, TrainerOptions options) : model_(std::move(model)), options_(std::move(options)) {}

Trainer::~Trainer() = default;

absl::StatusOr<std::shared_ptr<Trainer>> Trainer::Create(std::shared_ptr<Model> model, TrainerOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, Optimizers().Make(options.optimizer.type, options.optimizer.attrs));
  return Create(std::move(model), std::move(options), std::move(optimizer));
}

absl::StatusOr<std::shared_ptr<Trainer>> Trainer::Create(std::shared_ptr<Model> model, TrainerOptions options,
                                                         std::unique_ptr<Optimizer> optimizer) {
  std::shared_ptr<Trainer> trainer(new Trainer(std::move(model), std::move(options)));
  RETURN_IF_ERROR(trainer->Initialize(std::move(optimizer)));
  return trainer;
}

absl::Status Trainer::Initialize(std::unique_ptr<Optimizer> optimizer) {
  std::vector<std::string> outputs;
  for (const ModelOutput& output : model_->outputs()) outputs.push_back(output.name);
  const auto found = std::find(outputs.begin(), outputs.end(), options_.prediction);
  if (!options_.prediction.empty() && found == outputs.end()) {
    return absl::NotFoundError(absl::StrCat("prediction: the model has no output '", Excerpt(options_.prediction), "'",
                                            DidYouMean(options_.prediction, outputs), " (outputs: ", absl::StrJoin(outputs, ", "),
                                            ")"));
  }
  prediction_ = options_.prediction.empty() ? 0 : static_cast<size_t>(found - outputs.begin());
  inputs_ = model_->inputs();
  if (!options_.loss.type.empty()) {
    for (const char* name : {kLabel, kSampleWeight}) {
      for (const ModelInput& input : inputs_) {
        if (input.name != name) continue;
        return absl::InvalidArgumentError(absl::StrCat("the model has an input '", name,
                                                       "', which is the loss's; "
                                                       "rename it, or train without a loss"));
      }
    }
    inputs_.push_back({kLabel, Shape(), options_.label_dtype});
    inputs_.push_back({kSampleWeight, Shape(), DType::kFloat32});
    num_optional_ = 1;
  }
  if (inputs_.empty()) return absl::InvalidArgumentError("the model has no inputs to train on");
  if (!(options_.clip_global_norm >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("clip_global_norm is ", options_.clip_global_norm, "; want 0 (off) or more"));
  }
  const double base_lr = optimizer->param().learning_rate;
  parts_ = std::make_unique<Parts>(*model_, inputs_.size(), std::move(optimizer));
  if (!options_.lr_schedule.type.empty()) {
    ASSIGN_OR_RETURN(parts_->lr_schedule, LrSchedules().Make(options_.lr_schedule.type, options_.lr_schedule.attrs, base_lr));
  }
  for (const Spec& spec : options_.metrics) {
    ASSIGN_OR_RETURN(std::unique_ptr<Metric> metric, Metrics().Make(spec.type, spec.attrs));
    parts_->metrics.emplace_back(spec.type, std::move(metric));
  }
  // Reports mistakes now rather than at the first step, which then finds its graph.
  parts_->graphs = std::make_unique<StepGraphs>(*model_, options_, inputs_, prediction_, parts_->updater);
  return parts_->graphs->MakeFirst();
}

int64_t Trainer::step() const {
  MutexLock lock(mu_);
  return step_;
}

double Trainer::learning_rate() const {
  MutexLock lock(mu_);
  if (parts_->lr_schedule != nullptr) return (*parts_->lr_schedule)(step_ + 1);
  return learning_rate_.value_or(parts_->updater.optimizer().param().learning_rate);
}

absl::Status Trainer::SetLearningRate(double learning_rate) {
  if (parts_->lr_schedule != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the schedule '", options_.lr_schedule.type, "' sets the learning rate"));
  }
  if (!(learning_rate >= 0 && std::isfinite(learning_rate))) {
    return absl::InvalidArgumentError(absl::StrCat("learning_rate is ", learning_rate, "; want a finite number, 0 or more"));
  }
  MutexLock lock(mu_);
  learning_rate_ = learning_rate;
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::Decide(StepGraph& step, absl::Span<const double> squares, double divisor, bool loss_is_finite,
                                     StepReport* report) {
  bool finite = loss_is_finite;
  if (WantsNorm(options_)) {
    report->gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / divisor;
    finite = finite && std::isfinite(report->gradient_norm);
  }
  report->learning_rate = learning_rate();
  RETURN_IF_ERROR(step.graph->ReadyRest());  // Before the verdict: nothing after it can be refused memory.
  report->nonfinite = report->nonfinite || !finite;
  if (NormDecides(options_) && !finite) {
    ++report->skipped;
    return false;
  }
  const bool clips = options_.clip_global_norm > 0 && report->gradient_norm > options_.clip_global_norm;
  const double scale = clips ? options_.clip_global_norm / report->gradient_norm : 1;
  RETURN_IF_ERROR(parts_->updater.SetNumbers(step.numbers, report->learning_rate, 1 / divisor * scale));
  return true;
}

absl::Status Trainer::Take(StepGraph& step, absl::Span<const size_t> parameters, bool updates) {
  if (!updates) {
    step.graph->Abandon();
    RETURN_IF_ERROR(ForgetSums(parameters));
  } else {
    if (const absl::Status status = step.graph->Continue(); !status.ok()) {
      const absl::string_view what =
          " of the model's parameters failed, and may have written some of them; load a checkpoint, or go on";
      return Annotate(status, absl::StrCat("update ", this->step() + 1, what));
    }
    step.graph->Swap();
    parts_->updater.Count(parameters);
    model_->runs().ForgetForward();
    MutexLock lock(mu_);
    ++step_;
  }
  for (size_t i : parameters) model_->memory().set_fresh(i, false);
  return absl::OkStatus();
}

absl::Status Trainer::AwaitDevice() const {
  const Lane& lane = *model_->options().lane;
  return lane.driver().Synchronize(lane.stream());
}

absl::StatusOr<Tensor> Trainer::OnHost(const Tensor& value, Tensor* copy) const {
  const ModelOptions& options = model_->options();
  if (options.lane->device().type == DeviceType::kCpu) return value;
  RETURN_IF_ERROR(CopyInto(copy, value, options.lane->lanes(), *options.host_allocator));
  return *copy;
}

void Trainer::Progressed(int64_t samples, double loss, double gradient_norm) {
  MutexLock lock(mu_);
  ++progress_.steps;
  progress_.samples += samples;
  progress_.loss = loss;
  progress_.gradient_norm = gradient_norm;
}

Trainer::Progress Trainer::progress() const {
  MutexLock lock(mu_);
  return progress_;
}

// Zeroes the gradients of grad_req add: values that are not finite would stay in them.
absl::Status Trainer::ForgetSums(absl::Span<const size_t> parameters) {
  for (size_t i : parameters) {
    if (model_->parameters()[i].grad_req == GradReq::kAdd) RETURN_IF_ERROR(model_->memory().ZeroGradient(i));
  }
  return absl::OkStatus();
}

std::vector<std::string> Trainer::Stale(absl::Span<const size_t> fresh) const {
  std::vector<std::string> stale;
  const absl::flat_hash_set<size_t> updated(fresh.begin(), fresh.end());
  for (size_t i = 0; i < model_->parameters().size(); ++i) {
    const Parameter& p = model_->parameters()[i];
    if (p.grad_req == GradReq::kNull || updated.contains(i)) continue;
    stale.push_back(p.name);
  }
  return stale;
}

void Trainer::Step(int64_t batch_size, bool ignore_stale_grad, CancellationPtr cancellation, OnStep done) {
  model_->strand().Run<absl::StatusOr<StepReport>>(
      [self = shared_from_this(), batch_size, ignore_stale_grad, cancellation = std::move(cancellation)] {
        return self->StepNow(batch_size, ignore_stale_grad, cancellation);
      },
      std::move(done));
}

Task<absl::StatusOr<StepReport>> Trainer::StepNow(int64_t batch_size, bool ignore_stale_grad, CancellationPtr cancellation) {
  model_->runs().set_client_time(nullptr);
  if (batch_size < 1) {
    co_return absl::InvalidArgumentError(absl::StrCat("batch_size is ", batch_size, "; want 1 or more"));
  }
  StepReport report;
  std::vector<size_t> fresh;
  for (size_t i = 0; i < model_->parameters().size(); ++i) {
    if (model_->memory().fresh(i) && model_->parameters()[i].grad.defined()) fresh.push_back(i);
  }
  report.stale = Stale(fresh);
  if (!report.stale.empty() && !ignore_stale_grad) {
    std::vector<std::string> names = report.stale;
    if (names.size() > 8) names.resize(8), names.push_back("...");
    co_return absl::FailedPreconditionError(
        absl::StrCat("the gradients of ", absl::StrJoin(names, ", "),
                     " have not been written by Backward since "
                     "the last step. Call Forward and Backward first, or set ignore_stale_grad"));
  }
  const auto divisor = static_cast<double>(batch_size);
  CO_ASSIGN_OR_RETURN(const StepGraphPtr step, co_await parts_->graphs->OfUpdate(fresh, cancellation));
  BoundGraph& graph = *step->graph;
  BoundGraph::Request request;
  request.random = model_->runs().random();
  request.random.seed ^= kUpdateSeed;
  request.cancellation = cancellation;
  CO_RETURN_IF_ERROR(co_await graph.Prepare({}, cancellation));
  CO_RETURN_IF_ERROR(parts_->updater.MakeWritable(fresh));
  CO_RETURN_IF_ERROR(co_await graph.Run(std::move(request)));
  const size_t num_squares = WantsNorm(options_) ? fresh.size() : 0;
  absl::StatusOr<Tensor> squares = Tensor();
  if (num_squares > 0) squares = OnHost(graph.output(0), &parts_->host_report);
  absl::Status status = squares.status();
  if (status.ok()) {
    const absl::Span<const double> values(num_squares > 0 ? squares->data<double>() : nullptr, num_squares);
    const absl::StatusOr<bool> updates = Decide(*step, values, divisor, /*loss_is_finite=*/true, &report);
    status = updates.ok() ? Take(*step, fresh, *updates) : updates.status();
  }
  graph.Abandon();  // Unless the run has gone on to its end.
  if (status.ok()) status = AwaitDevice();
  CO_RETURN_IF_ERROR(status);
  report.step = this->step();
  co_return report;
}

void Trainer::Snapshot(std::function<void(absl::StatusOr<std::pair<ModelState, TrainerState>>)> done) {
  using States = std::pair<ModelState, TrainerState>;
  using Held = absl::StatusOr<States>;
  model_->strand().Do<Held>([self = shared_from_this()] { return Held(self->SnapshotNow()); },
                            [self = shared_from_this(), done = std::move(done)](Held held) {
                              if (!held.ok()) return done(held.status());
                              const auto states = std::make_shared<States>(*std::move(held));
                              self->model_->BringToHost({&states->first.parameters, &states->second.states},
                                                        [states, done](const absl::Status& status) {
                                                          status.ok() ? done(std::move(*states)) : done(status);
                                                        });
                            });
}

std::pair<ModelState, TrainerState> Trainer::SnapshotNow() const {
  TrainerState state;
  state.options = options_;
  state.position = parts_->position;
  state.updates = parts_->updater.SnapshotUpdates();
  state.states = parts_->updater.HoldStates();
  MutexLock lock(mu_);
  state.step = step_;
  state.learning_rate = learning_rate_;
  return {model_->SnapshotNow(), std::move(state)};
}

absl::Status Trainer::RestoreNow(const TrainerState& state) {
  if (state.step < 0) return absl::InvalidArgumentError("the step number is negative");
  RETURN_IF_ERROR(parts_->updater.Restore(state.states, state.updates));
  parts_->position = state.position;
  MutexLock lock(mu_);
  step_ = state.step;
  learning_rate_ = state.learning_rate;
  return absl::OkStatus();
}

void Trainer::SetStates(NamedTensors states, std::optional<int64_t> step, OnStatus done) {
  model_->strand().Do<absl::Status>(
      [self = shared_from_this(), states = std::move(states), step] { return self->SetStatesNow(states, step); }, std::move(done));
}

absl::Status Trainer::SetStatesNow(const NamedTensors& states, std::optional<int64_t> step) {
  if (step.value_or(0) < 0) return absl::InvalidArgumentError(absl::StrCat("step is ", *step, "; want 0 or more"));
  RETURN_IF_ERROR(parts_->updater.SetStates(states));
  if (!step.has_value()) return absl::OkStatus();
  parts_->updater.SetUpdates(*step);
  MutexLock lock(mu_);
  step_ = *step;
  return absl::OkStatus();
}

}  // namespace gluond
