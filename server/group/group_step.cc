#include "server/group/group_step.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/nn/inputs.h"
#include "engine/train/batches.h"
#include "engine/train/sharded_step.h"

namespace gluond::server {
namespace {

// A member gets its part of a batch in one message, which is shorter than 2 GiB.
constexpr int64_t kMostBatchBytes = int64_t{1} << 30;

class StepsOnRows : public std::enable_shared_from_this<StepsOnRows> {
 public:
  StepsOnRows(TakeGroupStep take_step, GroupStep step, DatasetSteps steps, Trainer::OnStep done)
      : take_step_(std::move(take_step)), step_(std::move(step)), steps_(std::move(steps)), done_(std::move(done)) {}

  void GoOn() {
    const int64_t first = taken_ * steps_.batch_size, count = std::min(steps_.batch_size, steps_.rows.Size() - first);
    if (taken_ == steps_.steps || count <= 0) return done_(std::move(total_));
    if (const absl::Status wanted = step_.wanted(); !wanted.ok()) return End(wanted);
    GroupStep step = step_;
    step.dataset = steps_.dataset;
    step.dataset_rows = RowsView(steps_.rows, first, count);
    absl::StatusOr<NamedTensors> inputs = DrawInputs(*step.hosted, *step.trainer, step.dataset, step.dataset_rows);
    if (!inputs.ok()) return End(inputs.status());
    step.inputs = *std::move(inputs);
    step_.condition = nullptr;  // The first step's alone.
    take_step_(std::move(step), [self = shared_from_this()](absl::StatusOr<StepReport> report) {
      if (!report.ok()) return self->End(report.status());
      self->step_.trainer->Join(*report, &self->total_);
      ++self->taken_;
      self->GoOn();
    });
  }

 private:
  // A call that ends early after some steps reports those.
  void End(const absl::Status& why) { taken_ > 0 ? done_(std::move(total_)) : done_(why); }

  const TakeGroupStep take_step_;
  GroupStep step_;
  const DatasetSteps steps_;
  const Trainer::OnStep done_;
  StepReport total_;
  int64_t taken_ = 0;
};

}  // namespace

void StepQueue::Add(StepPtr step) {
  ModelsSteps& model = models_[step->step.hosted.get()];
  ++model.steps;
  order_.Add(model.queue, step.get(), step->step.account, Clock::now());
  const Work* const key = step.get();
  waiting_[key] = std::move(step);
}

StepQueue::StepPtr StepQueue::Take() {
  if (again_.empty() || others_first_) {
    others_first_ = false;
    if (std::optional<FairOrder::Piece> piece = order_.Take(Clock::now()); piece.has_value()) {
      StepPtr step = std::move(waiting_.extract(piece->work).mapped());
      step->piece = std::move(piece);
      return step;
    }
    if (again_.empty()) return nullptr;
  }
  StepPtr step = std::move(again_.front());
  again_.pop_front();
  return step;
}

void StepQueue::Done(QueuedStep& step) {
  order_.Done(*step.piece, Clock::now());
  Forget(step);
}

void StepQueue::Again(StepPtr step) {
  again_.push_back(std::move(step));
  others_first_ = true;
}

void StepQueue::Sweep(const std::function<absl::Status(const QueuedStep& step)>& why_not) {
  std::vector<std::pair<StepPtr, absl::Status>> swept;
  std::erase_if(waiting_, [&](const auto& waiting) {
    const StepPtr& step = waiting.second;
    absl::Status status = why_not(*step);
    if (status.ok() || !order_.Remove(models_.at(step->step.hosted.get()).queue, step.get())) return false;
    Forget(*step);
    swept.emplace_back(step, std::move(status));
    return true;
  });
  std::erase_if(again_, [&](const StepPtr& step) {
    absl::Status status = why_not(*step);
    if (status.ok()) return false;
    Done(*step);
    swept.emplace_back(step, std::move(status));
    return true;
  });
  for (const auto& [step, status] : swept) step->Tell(status);
}

void StepQueue::Forget(const QueuedStep& step) {
  const auto model = models_.find(step.step.hosted.get());
  if (--model->second.steps == 0) models_.erase(model);
}

absl::StatusOr<int64_t> RowsOfBatch(const GroupStep& step) {
  const NamedTensors& inputs = step.inputs;
  if (inputs.empty()) return Invalid("a step of a group's model needs inputs");
  int64_t bytes = 0;
  for (const NamedTensor& input : inputs) {
    const Shape& shape = input.tensor.shape();
    const bool has_rows = shape.ndim() > 0 && shape[0] >= 1;
    if (!has_rows || shape[0] != inputs.front().tensor.shape()[0]) {
      return Invalid("input '", input.name, "' has the shape ", shape.ToString(), has_rows ? "" : ", without a row",
                     "; a group cuts each input into rows along axis 0, and '", inputs.front().name, "' has the shape ",
                     inputs.front().tensor.shape().ToString());
    }
    bytes += static_cast<int64_t>(input.tensor.bytes());
  }
  RETURN_IF_ERROR(MatchInputs(step.trainer->inputs(), inputs, OptionalInputs(*step.trainer)).status());
  const int64_t rows = inputs.front().tensor.shape()[0];
  if (rows > ShardedStep::kMostRows || bytes > kMostBatchBytes) {
    return Invalid("the batch has ", rows, " rows and ", bytes, " bytes; a group takes at most ", kMostBatchBytes,
                   " bytes at once: make the batch smaller");
  }
  return rows;
}

absl::StatusOr<NamedTensors> DrawInputs(const HostedModel& hosted, const Trainer& trainer, std::shared_ptr<const Dataset> dataset,
                                        Tensor rows) {
  const std::vector<ModelInput>& inputs = trainer.inputs();
  // A batch has memory of its own: what a lost member was sent of the last one may still be on its way.
  Staging staging(hosted.model(), inputs.size());
  DatasetBatchesOptions options;
  options.dataset = std::move(dataset);
  options.batch_size = rows.Size();
  options.rows = std::move(rows);
  ASSIGN_OR_RETURN(const std::unique_ptr<BatchSource> batches,
                   DatasetBatches(std::move(options), inputs, OptionalInputs(trainer), &staging));
  Batch batch;
  RETURN_IF_ERROR(batches->Next(&batch));
  NamedTensors drawn;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (batch.host[i].defined()) drawn.push_back({inputs[i].name, std::move(batch.host[i])});
  }
  return drawn;
}

NamedTensors RowsOf(const NamedTensors& inputs, int64_t first, int64_t count) {
  NamedTensors rows;
  for (const auto& [name, tensor] : inputs) rows.push_back({name, RowsView(tensor, first, count)});
  return rows;
}

void TakeStepsOnRows(TakeGroupStep take_step, GroupStep step, DatasetSteps steps, Trainer::OnStep done) {
  std::make_shared<StepsOnRows>(std::move(take_step), std::move(step), std::move(steps), std::move(done))->GoOn();
}

}  // namespace gluond::server
