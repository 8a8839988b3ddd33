// A trainer's passes over batches: TrainStep, TrainSteps and Evaluate.

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/nn/inputs.h"
#include "engine/train/trainer_parts.h"

namespace gluond {

// Runs the step's graph on one batch after the other, on the model's strand. Between two batches the lane runs other
// models' work, and this model's predictions.
class Trainer::StepLoop {
 public:
  StepLoop(Trainer& trainer, bool train, std::unique_ptr<BatchSource> source, double divisor, CancellationPtr cancellation)
      : trainer_(trainer),
        parts_(*trainer.parts_),
        model_(*trainer.model_),
        train_(train),
        source_(std::move(source)),
        divisor_(divisor),
        cancellation_(std::move(cancellation)),
        metrics_(parts_.metrics.size()) {}

  Task<absl::StatusOr<StepReport>> Run() {
    absl::Status status;
    while (status.ok() && !source_->done()) {
      status = co_await Step();
      // After the last step there is nothing left to cancel.
      if (status.ok() && !source_->done()) status = co_await model_.strand().Yield();
    }
    // The steps taken stay: the caller must learn how far the call came, or it would train on the same rows again. The
    // next call meets an error that ended this one, with nothing applied. No call meets an update's error again.
    if (train_ && samples_ > 0 && !update_failed_) status = trainer_.AwaitDevice();
    model_.runs().set_client_time(client_time_);
    CO_RETURN_IF_ERROR(status);
    co_return Report();
  }

 private:
  Task<absl::Status> Step() {
    CO_RETURN_IF_ERROR(Draw());
    const bool weighted = trainer_.num_optional_ > 0 && batch_.device.back().defined();
    CO_ASSIGN_OR_RETURN(step_, co_await parts_.graphs->OfStep(train_, weighted, cancellation_));
    BoundGraph& graph = *step_->graph;
    const double divisor = divisor_ > 0 ? divisor_ : static_cast<double>(batch_.samples);
    BoundGraph::Request request;
    request.inputs = batch_.device;
    if (trainer_.num_optional_ > 0 && !weighted) request.inputs.pop_back();
    request.random = model_.runs().random();
    request.cancellation = cancellation_;
    request.client_time = client_time_;
    if (train_) {  // Memory first: a step for which there is none has changed nothing, and can be taken again.
      CO_RETURN_IF_ERROR(co_await graph.Prepare(request.inputs, cancellation_));
      CO_RETURN_IF_ERROR(parts_.updater.MakeWritable(graph.gradients()));
    }
    CO_RETURN_IF_ERROR(co_await graph.Run(std::move(request)));
    const absl::Status status = Absorb(divisor);
    graph.Abandon();  // Unless the run has gone on to its end.
    if (status.ok() && train_) ++model_.runs().random().runs;
    co_return status;
  }

  absl::Status Draw() {
    if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->Check());
    RETURN_IF_ERROR(source_->Next(&batch_));
    if (batch_.samples > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("the batch has 0 rows, which have no mean loss; send 1 or more");
  }

  // Takes over the results of one run: the loss, metrics, and, in training, the step. All or nothing: what can fail comes
  // before the update, which changes nothing if it fails.
  absl::Status Absorb(double divisor) {
    BoundGraph& graph = *step_->graph;
    const size_t num_squares = train_ && WantsNorm(trainer_.options_) ? graph.gradients().size() : 0;
    ASSIGN_OR_RETURN(const Tensor report, trainer_.OnHost(graph.output(0), &parts_.host_report));
    const int64_t num_losses = report.Size() - static_cast<int64_t>(num_squares);
    const Tensor loss(report.buffer(), 0, {num_losses}, DType::kFloat64);
    const double sum = std::accumulate(loss.data<double>(), loss.data<double>() + num_losses, 0.0);
    std::vector<MetricSum> metrics = metrics_;
    if (!parts_.metrics.empty()) {
      ASSIGN_OR_RETURN(const Tensor prediction, trainer_.OnHost(graph.output(1), &parts_.host_prediction));
      const Tensor label = trainer_.num_optional_ > 0 ? batch_.host[batch_.host.size() - 2] : Tensor();
      for (size_t i = 0; i < metrics_.size(); ++i) {
        const auto& [name, metric] = parts_.metrics[i];
        RETURN_IF_ERROR(Annotate(metric->Add(prediction, label, loss, &metrics[i]), absl::StrCat("metric '", name, "'")));
      }
    }
    if (train_) {
      const absl::Span<const double> squares(loss.data<double>() + num_losses, num_squares);
      StepReport next = report_;
      ASSIGN_OR_RETURN(const bool updates, trainer_.Decide(*step_, squares, divisor, std::isfinite(sum), &next));
      const absl::Status taken = trainer_.Take(*step_, graph.gradients(), updates);
      update_failed_ = !taken.ok();
      RETURN_IF_ERROR(taken);
      report_ = std::move(next);
      trainer_.Progressed(batch_.samples, sum / static_cast<double>(loss.Size()), report_.gradient_norm);
      if (source_->position() != nullptr) parts_.position = *source_->position();
    }
    metrics_ = std::move(metrics);
    loss_.sum += sum;
    loss_.count += loss.Size();
    samples_ += batch_.samples;
    return absl::OkStatus();
  }

  StepReport Report() {
    trainer_.Summarize(loss_, metrics_, samples_, &report_);
    if (train_ && step_ != nullptr) report_.stale = trainer_.Stale(step_->graph->gradients());
    return std::move(report_);
  }

  Trainer& trainer_;
  Parts& parts_;
  Model& model_;
  const bool train_;
  const std::unique_ptr<BatchSource> source_;
  const double divisor_;  // 0: each batch's size.
  const CancellationPtr cancellation_;
  const std::shared_ptr<ClientTime> client_time_ = std::make_shared<ClientTime>();

  Batch batch_;
  StepGraphPtr step_;
  StepReport report_;
  MetricSum loss_;
  std::vector<MetricSum> metrics_;
  int64_t samples_ = 0;
  bool update_failed_ = false;
};

void Trainer::Run(bool train, OpenSource open, double divisor, CancellationPtr cancellation, OnStep done) {
  const auto run = [](Trainer& trainer, bool train, OpenSource open, double divisor,
                      CancellationPtr cancellation) -> Task<absl::StatusOr<StepReport>> {
    CO_ASSIGN_OR_RETURN(std::unique_ptr<BatchSource> source, open());
    StepLoop loop(trainer, train, std::move(source), divisor, std::move(cancellation));
    co_return co_await loop.Run();
  };
  model_->strand().Run<absl::StatusOr<StepReport>>(
      [self = shared_from_this(), run, train, open = std::move(open), divisor, cancellation = std::move(cancellation)] {
        return run(*self, train, open, divisor, cancellation);
      },
      std::move(done));
}

void Trainer::TrainStep(NamedTensors inputs, TrainStepOptions options, CancellationPtr cancellation, OnStep done) {
  const auto open = [this, inputs = std::move(inputs),
                     batch_size = options.batch_size]() -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    if (batch_size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("batch_size is ", batch_size, "; want 1 or more, or 0"));
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MatchInputs(inputs_, inputs, num_optional_));
    return SentBatch(std::move(tensors), inputs_, &parts_->staging);
  };
  Run(/*train=*/true, open, static_cast<double>(options.batch_size), std::move(cancellation), std::move(done));
}

void Trainer::TrainSteps(DatasetSteps steps, CancellationPtr cancellation, OnStep done) {
  const auto open = [this, steps = std::move(steps)]() -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    if (steps.steps < 1) return absl::InvalidArgumentError(absl::StrCat("steps is ", steps.steps, "; want 1 or more"));
    DatasetBatchesOptions options;
    options.dataset = steps.dataset;
    options.batch_size = steps.batch_size;
    options.batches = steps.steps;
    options.from = steps.from.value_or(parts_->position);
    options.shuffle = steps.shuffle;
    options.keep_last = steps.keep_last;
    options.rows = steps.rows;
    return DatasetBatches(std::move(options), inputs_, num_optional_, &parts_->staging);
  };
  Run(/*train=*/true, open, /*divisor=*/0, std::move(cancellation), std::move(done));
}

void Trainer::Summarize(const MetricSum& loss, std::vector<MetricSum> metrics, int64_t samples, StepReport* report) const {
  report->step = step();
  report->loss = loss.mean();
  report->loss_sum = loss;
  report->samples = samples;
  report->epoch = parts_->position.epoch;
  report->next_row = parts_->position.row;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const auto& [name, metric] = parts_->metrics[i];
    report->metrics.push_back({name, metric->Value(metrics[i])});
  }
  report->metric_sums = std::move(metrics);
}

namespace {

void Add(const MetricSum& more, MetricSum* sum) {
  sum->sum += more.sum;
  sum->count += more.count;
  if (sum->parts.size() < more.parts.size()) sum->parts.resize(more.parts.size());
  for (size_t i = 0; i < more.parts.size(); ++i) sum->parts[i] += more.parts[i];
}

}  // namespace

void Trainer::Join(const StepReport& next, StepReport* total) const {
  StepReport joint = next;
  joint.nonfinite = joint.nonfinite || total->nonfinite;
  joint.skipped += total->skipped;
  joint.samples += total->samples;
  joint.loss_sum = total->loss_sum;
  Add(next.loss_sum, &joint.loss_sum);
  joint.loss = joint.loss_sum.mean();
  joint.metric_sums = total->metric_sums;
  joint.metric_sums.resize(next.metric_sums.size());
  for (size_t i = 0; i < next.metric_sums.size(); ++i) {
    Add(next.metric_sums[i], &joint.metric_sums[i]);
    joint.metrics[i].value = parts_->metrics[i].second->Value(joint.metric_sums[i]);
  }
  *total = std::move(joint);
}

namespace {

Trainer::OnStep EvaluateOnly(Trainer::OnEvaluate done) {
  return [done = std::move(done)](absl::StatusOr<StepReport> report) {
    if (!report.ok()) return done(report.status());
    done(EvaluateReport{report->loss, std::move(report->metrics), report->samples});
  };
}

}  // namespace

void Trainer::Evaluate(NamedTensors inputs, CancellationPtr cancellation, OnEvaluate done) {
  const auto open = [this, inputs = std::move(inputs)]() -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MatchInputs(inputs_, inputs, num_optional_));
    return SentBatch(std::move(tensors), inputs_, &parts_->staging);
  };
  Run(/*train=*/false, open, /*divisor=*/0, std::move(cancellation), EvaluateOnly(std::move(done)));
}

void Trainer::Evaluate(std::shared_ptr<const Dataset> dataset, int64_t batch_size, int64_t first, int64_t count,
                       CancellationPtr cancellation, OnEvaluate done) {
  const auto open = [this, dataset = std::move(dataset), batch_size, first,
                     count]() -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    if (first < 0 || count < 0 || first >= dataset->rows() || count > dataset->rows() - first) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows [", first, ", ", first, " + ", count, ") are not within the dataset's ", dataset->rows()));
    }
    DatasetBatchesOptions options;
    options.dataset = dataset;
    options.batch_size = batch_size;
    options.from.row = first;
    options.shuffle = false;
    options.keep_last = true;
    options.end = count == 0 ? dataset->rows() : first + count;
    return DatasetBatches(std::move(options), inputs_, num_optional_, &parts_->staging);
  };
  Run(/*train=*/false, open, /*divisor=*/0, std::move(cancellation), EvaluateOnly(std::move(done)));
}

}  // namespace gluond
