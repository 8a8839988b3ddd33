// A trainer's steps in shards: ComputeStep, ApplyStep and DropStep.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/status_macros.h"
#include "engine/nn/inputs.h"
#include "engine/runtime/account.h"
#include "engine/runtime/only_holder.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/transfer.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/sharded_step.h"
#include "engine/train/trainer_parts.h"

namespace gluond {
namespace {

// Each shard has a key of its own; shard 0 draws as a step without shards.
constexpr uint64_t kShardSeed = NameHash("shard") | 1;

// Numbers are written to a message, or read from one, one after the other.
void PutSum(const MetricSum& sum, double** to) {
  *(*to)++ = sum.sum;
  *(*to)++ = static_cast<double>(sum.count);
}

MetricSum TakeSum(const double** from) {
  MetricSum sum;
  sum.sum = *(*from)++;
  sum.count = static_cast<int64_t>(*(*from)++);
  return sum;
}

}  // namespace

// One step, on the model's strand: first all that can fail, then the rest or nothing.
class Trainer::ShardedRun {
 public:
  ShardedRun(Trainer& trainer, ShardedStep step, std::shared_ptr<GradientReducer> reducer, CancellationPtr cancellation)
      : trainer_(trainer),
        parts_(*trainer.parts_),
        model_(*trainer.model_),
        lane_(*model_.options().lane),
        step_(step),
        reducer_(std::move(reducer)),
        cancellation_(std::move(cancellation)) {}

  Task<absl::Status> Compute(NamedTensors inputs) {
    const absl::Status status = co_await TryCompute(std::move(inputs));
    if (!status.ok()) {
      Drop();
      if (reducer_ != nullptr && has_begun_ && !has_finished_ && parts_.sums.has_started()) {
        reducer_->Abort();
        (void)co_await Finish();  // The sums' memory is ours again.
      }
    }
    model_.runs().set_client_time(client_time_);
    co_return status;
  }

  absl::StatusOr<StepReport> Apply() {
    spare_ = nullptr;
    (void)lane_.ReserveScratch();  // Without it an operator that needs some finds some, or tells.
    RETURN_IF_ERROR(trainer_.Take(*update_, shard_->parameters, updates_));
    for (size_t k = 0; updates_ && k < auxiliary_.size(); ++k) {
      model_.memory().Swap(auxiliary_[k], ParameterMemory::Part::kValues);
    }
    ++model_.runs().random().runs;
    if (step_.position.has_value()) parts_.position = *step_.position;
    trainer_.Progressed(step_.rows, loss_.mean(), report_.gradient_norm);
    report_.stale = trainer_.Stale(shard_->parameters);
    trainer_.Summarize(loss_, std::move(metrics_), step_.rows, &report_);
    return std::move(report_);
  }

  void Drop() {
    if (update_ != nullptr) update_->graph->Abandon();
  }

  // The task goes on as the lane's work, for the account that it began for.
  Posted OnLane() {
    return Posted([this](Posted::Work rest) {
      const ScopedAccount account(account_);
      lane_.Post(std::move(rest));
    });
  }

 private:
  Task<absl::Status> TryCompute(NamedTensors inputs) {
    CO_RETURN_IF_ERROR(step_.Check());
    if (step_.count == 0 && reducer_ == nullptr) {
      co_return absl::InvalidArgumentError("a process without shards and without others computes no step; give it shards");
    }
    if (!parts_.may_shard.has_value()) parts_.may_shard = trainer_.CheckSharded();
    CO_RETURN_IF_ERROR(*parts_.may_shard);
    CO_RETURN_IF_ERROR(TakeInputs(std::move(inputs)));
    CO_ASSIGN_OR_RETURN(shard_, co_await parts_.graphs->OfShard(weighted_, parts_.sums, cancellation_));
    CO_RETURN_IF_ERROR(co_await PrepareShards());
    for (int64_t s = step_.first; s < step_.first + step_.count; ++s) {
      if (s > step_.first) CO_RETURN_IF_ERROR(co_await model_.strand().Yield());
      CO_RETURN_IF_ERROR(co_await ComputeShard(s));
    }
    if (step_.count == 0) {
      parts_.sums.MadeZeros();
      CO_RETURN_IF_ERROR(parts_.sums.EndShard());
    }
    if (reducer_ != nullptr) CO_RETURN_IF_ERROR(co_await Finish());
    CO_RETURN_IF_ERROR(ReadMessage());
    co_return co_await PrepareUpdate();
  }

  absl::Status TakeInputs(NamedTensors inputs) {
    ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MatchInputs(trainer_.inputs_, std::move(inputs), trainer_.num_optional_));
    const int64_t rows = step_.end() - step_.begin();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      const Shape& shape = tensors[i].shape();
      if (shape.ndim() > 0 && shape[0] == rows) continue;
      return absl::InvalidArgumentError(absl::StrCat("input '", trainer_.inputs_[i].name, "' has shape ", shape.ToString(),
                                                     "; want ", rows, " rows in axis 0, those of the shards [", step_.first, ", ",
                                                     step_.first + step_.count, ") of a batch of ", step_.rows));
    }
    RETURN_IF_ERROR(SentBatch(std::move(tensors), trainer_.inputs_, &parts_.staging)->Next(&batch_));
    weighted_ = trainer_.num_optional_ > 0 && batch_.host.back().defined();
    parts_.shard_inputs.resize(batch_.host.size());
    return absl::OkStatus();
  }

  // Some rows of the inputs, in the order of the trainer's. Rows begin at an aligned address, so that a shard's bits do not depend
  // on its place.
  absl::StatusOr<std::vector<Tensor>> Rows(int64_t begin, int64_t rows) {
    constexpr size_t kRowsAlignment = 64;
    std::vector<Tensor> part(batch_.host.size());
    for (size_t i = 0; i < part.size(); ++i) {
      const Tensor& all = batch_.host[i];
      if (!all.defined()) continue;
      part[i] = RowsView(all, begin, rows);
      if (reinterpret_cast<uintptr_t>(part[i].data()) % kRowsAlignment == 0) continue;
      ASSIGN_OR_RETURN(const Tensor own,
                       OwnMemory(&parts_.shard_inputs[i], part[i].shape(), all.dtype(), *model_.options().host_allocator));
      std::memcpy(own.data(), part[i].data(), own.bytes());
      part[i] = own;
    }
    return part;
  }

  // As Reuse, but an operator that a failed run has left may still read the old memory.
  absl::StatusOr<Tensor> OwnMemory(Tensor* kept, const Shape& shape, DType type, Allocator& allocator) {
    if (kept->defined() && !IsOnlyHolder(kept->buffer())) *kept = Tensor();
    return Reuse(kept, shape, type, allocator);
  }

  // The tensors that the graph takes, on the model's device.
  absl::StatusOr<std::vector<Tensor>> GraphInputs(std::vector<Tensor> inputs) const {
    if (trainer_.num_optional_ > 0 && !weighted_) inputs.pop_back();
    if (lane_.device().type == DeviceType::kCpu) return inputs;
    parts_.shard_device_inputs.resize(std::max(parts_.shard_device_inputs.size(), inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) continue;
      Tensor& kept = parts_.shard_device_inputs[i];
      RETURN_IF_ERROR(CopyInto(&kept, inputs[i], lane_.lanes(), *model_.options().allocator));
      inputs[i] = kept;
    }
    return inputs;
  }

  // Parameters have values from here on, and the sums have memory.
  Task<absl::Status> PrepareShards() {
    if (step_.begin() < step_.end()) {
      int64_t s = step_.first;
      while (step_.FirstRow(s + 1) == step_.FirstRow(s)) ++s;
      CO_ASSIGN_OR_RETURN(std::vector<Tensor> inputs,
                          Rows(step_.FirstRow(s) - step_.begin(), step_.FirstRow(s + 1) - step_.FirstRow(s)));
      CO_ASSIGN_OR_RETURN(inputs, GraphInputs(std::move(inputs)));
      CO_RETURN_IF_ERROR(co_await shard_->graph->Prepare(std::move(inputs), cancellation_));
    } else if (HasOpenParameters()) {  // Shapes follow from those of a row.
      CO_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, ZeroRow());
      CO_ASSIGN_OR_RETURN(inputs, GraphInputs(std::move(inputs)));
      CO_RETURN_IF_ERROR(co_await shard_->graph->Prepare(std::move(inputs), cancellation_));
    }
    std::vector<Signature> items;
    for (const size_t i : shard_->parameters) {
      const LiveParameter& p = model_.parameters()[i];
      items.push_back({p.shape, ShardSums::SumType(p.dtype)});
    }
    int64_t numbers = 0;
    for (size_t i = 0; i < model_.parameters().size(); ++i) {
      const LiveParameter& p = model_.parameters()[i];
      if (!p.auxiliary || !p.initialized) continue;
      auxiliary_.push_back(i);
      numbers += p.shape.Size();
    }
    message_ = items.size();
    items.push_back({{MessageSize(numbers, parts_.metrics.size())}, DType::kFloat64});
    parts_.shard_auxiliary.resize(auxiliary_.size());
    has_begun_ = true;
    co_return parts_.sums.Begin(std::move(items), step_.count, reducer_.get());
  }

  bool HasOpenParameters() const {
    for (size_t i = 0; i < model_.parameters().size(); ++i) {
      if (!model_.parameters()[i].initialized) return true;
    }
    return false;
  }

  absl::StatusOr<std::vector<Tensor>> ZeroRow() const {
    std::vector<Tensor> row(batch_.host.size());
    for (size_t i = 0; i < row.size(); ++i) {
      if (!batch_.host[i].defined()) continue;
      Shape shape = batch_.host[i].shape();
      shape[0] = 1;
      ASSIGN_OR_RETURN(row[i], Tensor::Empty(*model_.options().host_allocator, shape, batch_.host[i].dtype()));
      std::memset(row[i].data(), 0, row[i].bytes());
    }
    return row;
  }

  Task<absl::Status> ComputeShard(int64_t shard) {
    const int64_t begin = step_.FirstRow(shard), rows = step_.FirstRow(shard + 1) - begin;
    if (cancellation_ != nullptr) CO_RETURN_IF_ERROR(cancellation_->Check());
    if (rows == 0) {
      parts_.sums.MadeZeros();
      co_return parts_.sums.EndShard();
    }
    CO_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, Rows(begin - step_.begin(), rows));
    BoundGraph::Request request;
    CO_ASSIGN_OR_RETURN(request.inputs, GraphInputs(inputs));
    for (size_t k = 0; k < auxiliary_.size(); ++k) {
      const LiveParameter& p = model_.parameters()[auxiliary_[k]];
      CO_ASSIGN_OR_RETURN(Tensor own, OwnMemory(&parts_.shard_auxiliary[k], p.shape, p.dtype, *model_.options().allocator));
      CO_RETURN_IF_ERROR(Copy(p.data.blob(), own.blob(), lane_.lanes()));
      request.instead.emplace_back(auxiliary_[k], std::move(own));
    }
    request.random = model_.runs().random();
    request.random.seed ^= static_cast<uint64_t>(shard) * kShardSeed;
    request.cancellation = cancellation_;
    request.client_time = client_time_;
    const uint32_t values = parts_.metrics.empty() ? 1 : 2;  // The gradients are behind these outputs.
    request.on_output = [this, values](uint32_t output) {
      if (output >= values) parts_.sums.Made(output - values);
    };
    CO_RETURN_IF_ERROR(co_await shard_->graph->Run(std::move(request)));
    CO_RETURN_IF_ERROR(WriteMessage(inputs, rows));
    parts_.sums.Made(message_);
    co_return parts_.sums.EndShard();
  }

  // The numbers of a shard: auxiliary states times rows, then the loss, the rows, and the metrics.
  absl::Status WriteMessage(const std::vector<Tensor>& inputs, int64_t rows) {
    const Tensor message = parts_.sums.HostPart(message_);
    double* to = message.data<double>();
    std::fill_n(to, message.Size(), 0.0);
    for (const Tensor& on_device : parts_.shard_auxiliary) {
      Tensor copy;
      ASSIGN_OR_RETURN(const Tensor state, trainer_.OnHost(on_device, &copy));
      ConvertValues(state.data(), state.dtype(), to, DType::kFloat64, state.Size());
      for (double* const end = to + state.Size(); to < end; ++to) *to *= static_cast<double>(rows);
    }
    ASSIGN_OR_RETURN(const Tensor losses, trainer_.OnHost(shard_->graph->output(0), &parts_.host_report));
    if (trainer_.options_.loss.type.empty() ? losses.Size() % rows != 0 || losses.Size() == 0 : losses.Size() != rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("the loss has ", losses.Size(), " values for a shard of ", rows, " rows; want one for each row"));
    }
    PutSum({std::accumulate(losses.data<double>(), losses.data<double>() + losses.Size(), 0.0), losses.Size()}, &to);
    *to++ = static_cast<double>(rows);
    const Tensor label = trainer_.num_optional_ > 0 ? inputs[inputs.size() - 2] : Tensor();
    Tensor prediction;
    if (!parts_.metrics.empty()) {
      ASSIGN_OR_RETURN(prediction, trainer_.OnHost(shard_->graph->output(1), &parts_.host_prediction));
    }
    for (const auto& [name, metric] : parts_.metrics) {
      MetricSum sum;
      RETURN_IF_ERROR(Annotate(metric->Add(prediction, label, losses, &sum), absl::StrCat("metric '", name, "'")));
      if (sum.parts.size() > kMostParts) {
        return absl::InvalidArgumentError(absl::StrCat("metric '", name, "' keeps ", sum.parts.size(),
                                                       " sums; a step in shards adds up at most ", kMostParts, " of a metric"));
      }
      PutSum(sum, &to);
      PutSum({static_cast<double>(sum.parts.size()), 1}, &to);  // All shards have as many parts, but for those without rows.
      std::copy(sum.parts.begin(), sum.parts.end(), to);
      to += kMostParts;
    }
    return parts_.sums.PutPart(message_);
  }

  Task<absl::Status> Finish() {
    has_finished_ = true;
    absl::Status status =
        co_await Callback<absl::Status>([this](const Callback<absl::Status>::Done& done) { reducer_->Finish(done); });
    co_await OnLane();
    if (status.ok()) status = parts_.sums.Reduced();
    co_return status;
  }

  // Takes the whole batch's numbers over. Auxiliary states are drafts until the step is applied.
  absl::Status ReadMessage() {
    ASSIGN_OR_RETURN(const Tensor message, parts_.sums.SumOnHost(message_));
    double* const states = message.data<double>();
    const double* from = states;
    for (const size_t i : auxiliary_) from += model_.parameters()[i].shape.Size();
    loss_ = TakeSum(&from);
    const auto rows = static_cast<int64_t>(*from++);
    if (rows != step_.rows) {
      return absl::InternalError(absl::StrCat("the shards of all processes have ", rows, " rows together, the batch has ",
                                              step_.rows, "; each shard is to be computed by one process"));
    }
    metrics_.clear();
    for (size_t k = 0; k < parts_.metrics.size(); ++k) {
      MetricSum sum = TakeSum(&from);
      const auto parts = static_cast<size_t>(TakeSum(&from).mean());
      sum.parts.assign(from, from + parts);
      from += kMostParts;
      metrics_.push_back(std::move(sum));
    }
    double* sums = states;
    for (const size_t i : auxiliary_) {
      ASSIGN_OR_RETURN(const Tensor draft, model_.memory().Draft(i, ParameterMemory::Part::kValues, /*copied=*/false));
      for (int64_t k = 0; k < draft.Size(); ++k) sums[k] /= static_cast<double>(rows);
      Tensor averages = draft;
      if (draft.device().type != DeviceType::kCpu) {
        ASSIGN_OR_RETURN(averages, Tensor::Empty(*model_.options().host_allocator, draft.shape(), draft.dtype()));
      }
      ConvertValues(sums, DType::kFloat64, averages.data(), averages.dtype(), averages.Size());
      RETURN_IF_ERROR(Copy(averages.blob(), draft.blob(), lane_.lanes()));
      sums += draft.Size();
    }
    return absl::OkStatus();
  }

  // The update's graph runs as far as its pause, and the verdict is there.
  Task<absl::Status> PrepareUpdate() {
    CO_ASSIGN_OR_RETURN(update_, co_await parts_.graphs->OfSums(shard_->parameters, parts_.sums, cancellation_));
    BoundGraph& graph = *update_->graph;
    BoundGraph::Request request;
    request.random = model_.runs().random();
    request.random.seed ^= kUpdateSeed;
    request.cancellation = cancellation_;
    CO_RETURN_IF_ERROR(co_await graph.Prepare({}, cancellation_));
    CO_RETURN_IF_ERROR(parts_.updater.MakeWritable(shard_->parameters));
    CO_RETURN_IF_ERROR(co_await graph.Run(std::move(request)));
    const size_t num_squares = WantsNorm(trainer_.options_) ? shard_->parameters.size() : 0;
    Tensor norms;
    if (num_squares > 0) {
      CO_ASSIGN_OR_RETURN(norms, trainer_.OnHost(graph.output(0), &parts_.host_report));
    }
    const absl::Span<const double> squares(num_squares > 0 ? norms.data<double>() : nullptr, num_squares);
    CO_ASSIGN_OR_RETURN(updates_,
                        trainer_.Decide(*update_, squares, static_cast<double>(step_.rows), std::isfinite(loss_.sum), &report_));
    CO_ASSIGN_OR_RETURN(spare_, model_.options().allocator->Allocate(Lane::kReservedScratch));
    co_return absl::OkStatus();
  }

  Trainer& trainer_;
  Parts& parts_;
  Model& model_;
  Lane& lane_;
  const ShardedStep step_;
  const std::shared_ptr<GradientReducer> reducer_;  // May be null.
  const CancellationPtr cancellation_;
  const std::shared_ptr<ClientTime> client_time_ = std::make_shared<ClientTime>();
  const AccountPtr account_ = CurrentAccount();

  Batch batch_;  // This process's rows.
  bool weighted_ = false;
  StepGraphPtr shard_, update_;
  std::vector<size_t> auxiliary_;  // Parameters.
  size_t message_ = 0;             // The message's item.
  bool has_begun_ = false, has_finished_ = false;
  MetricSum loss_;
  std::vector<MetricSum> metrics_;
  StepReport report_;
  bool updates_ = false;           // The verdict.
  std::shared_ptr<Buffer> spare_;  // Scratch space for the rest, in which nobody else may come first.
};

void Trainer::ComputeStep(NamedTensors inputs, ShardedStep step, std::shared_ptr<GradientReducer> reducer,
                          CancellationPtr cancellation, OnStatus done) {
  struct Ended {
    Word word;
    absl::StatusOr<StepReport> report;
  };
  const auto run = [](Trainer& trainer, NamedTensors inputs, ShardedStep step, std::shared_ptr<GradientReducer> reducer,
                      CancellationPtr cancellation, OnStatus done) -> Task<absl::StatusOr<Ended>> {
    ShardedRun now(trainer, step, std::move(reducer), std::move(cancellation));
    CO_RETURN_IF_ERROR(co_await now.Compute(std::move(inputs)));
    Word word = co_await Callback<Word>([&trainer, &done](const Callback<Word>::Done& resume) {
      {
        MutexLock lock(trainer.mu_);
        trainer.on_word_ = resume;
      }
      done(absl::OkStatus());
    });
    co_await now.OnLane();
    Ended ended{std::move(word), StepReport()};
    if (ended.word.applied != nullptr) {
      ended.report = now.Apply();
    } else {
      now.Drop();
    }
    co_return ended;
  };
  model_->strand().Run<absl::StatusOr<Ended>>(
      [self = shared_from_this(), run, inputs = std::move(inputs), step, reducer = std::move(reducer),
       cancellation = std::move(cancellation), done] { return run(*self, inputs, step, reducer, cancellation, done); },
      [done](absl::StatusOr<Ended> ended) {
        if (!ended.ok()) return done(ended.status());
        ended->word.applied != nullptr ? ended->word.applied(std::move(ended->report)) : ended->word.dropped(absl::OkStatus());
      });
}

bool Trainer::Tell(Word word) {
  std::function<void(Word)> on_word;
  {
    MutexLock lock(mu_);
    on_word = std::exchange(on_word_, nullptr);
  }
  if (on_word == nullptr) return false;
  on_word(std::move(word));
  return true;
}

namespace {

absl::Status NothingComputed() {
  return absl::FailedPreconditionError("no step is computed that waits to be applied or dropped; call ComputeStep first");
}

}  // namespace

void Trainer::ApplyStep(OnStep done) {
  if (!Tell({done, nullptr})) done(NothingComputed());
}

void Trainer::DropStep(OnStatus done) {
  if (!Tell({nullptr, done})) done(NothingComputed());
}

}  // namespace gluond
