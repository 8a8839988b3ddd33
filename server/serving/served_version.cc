#include "server/serving/served_version.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/inputs.h"
#include "server/net/peers.h"
#include "server/rpc/calls_under_way.h"

namespace gluond::server {
namespace {

using Clock = BatchQueue::Clock;

// Inputs of more bytes are put together beside gRPC's threads and lanes.
constexpr size_t kMuch = 256 << 10;

// Those who get the answers; one who gets several is there several times.
std::vector<Peer*> PeersOf(const Batch& batch) {
  std::vector<Peer*> peers;
  for (const InferRequestPtr& request : batch) {
    if (request->peer != nullptr) peers.push_back(request->peer.get());
  }
  return peers;
}

int64_t RowsOf(const Batch& batch) {
  int64_t rows = 0;
  for (const InferRequestPtr& request : batch) rows += request->rows;
  return rows;
}

// The inputs of all requests, and rows of zeros as far as `options` want. A lone request is not copied where none are wanted.
// RESOURCE_EXHAUSTED: no memory.
absl::StatusOr<NamedTensors> JoinRows(const Batch& batch, const ServingOptions& options, Allocator& allocator) {
  const int64_t rows = RowsOf(batch);
  const int64_t all = options.batch_invariant ? options.max_batch_size : rows;
  if (batch.size() == 1 && all == rows) return batch.front()->inputs;
  NamedTensors joined;
  for (size_t i = 0; i < batch.front()->inputs.size(); ++i) {
    const NamedTensor& first = batch.front()->inputs[i];
    Shape shape = first.tensor.shape();
    shape[0] = all;
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(allocator, shape, first.tensor.dtype()));
    auto* to = static_cast<char*>(tensor.data());
    for (const InferRequestPtr& request : batch) {
      const Tensor& from = request->inputs[i].tensor;
      std::memcpy(to, from.data(), from.bytes());
      to += from.bytes();
    }
    std::memset(to, 0, tensor.bytes() - static_cast<size_t>(to - static_cast<char*>(tensor.data())));
    joined.push_back({first.name, std::move(tensor)});
  }
  return joined;
}

// Parts of `outputs`, by request, without a copy. FAILED_PRECONDITION: an output has not as many rows as the batch.
absl::StatusOr<std::vector<NamedTensors>> SplitRows(const Batch& batch, const ServingOptions& options,
                                                    const NamedTensors& outputs) {
  std::vector<NamedTensors> answers(batch.size());
  if (options.max_batch_size <= 0) {
    answers[0] = outputs;
    return answers;
  }
  const int64_t rows = options.batch_invariant ? options.max_batch_size : RowsOf(batch);
  for (const NamedTensor& output : outputs) {
    const Shape& shape = output.tensor.shape();
    if (shape.ndim() < 1 || shape[0] != rows) {
      return FailedPrecondition("output '", output.name, "' has shape ", shape.ToString(), " for ", rows,
                                " rows: it cannot be taken apart; publish with max_batch_size 0");
    }
    int64_t at = 0;
    for (size_t i = 0; i < batch.size(); at += batch[i++]->rows) {
      answers[i].push_back({output.name, RowsView(output.tensor, at, batch[i]->rows)});
    }
  }
  return answers;
}

}  // namespace

int64_t ServedVersion::tensor_bytes() const {
  int64_t bytes = values_->used();
  for (const HostedModelPtr& instance : instances_) bytes += instance->tensor_bytes();
  return bytes;
}

// Requests.

absl::Status ServedVersion::Check(InferRequest* request) const {
  const std::vector<ModelInput>& want = model().model().inputs();
  ASSIGN_OR_RETURN(std::vector<Tensor> inputs, MatchInputs(want, std::move(request->inputs)));
  request->inputs.clear();  // They come in the model's order from here on, as those that they join.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != want[i].dtype) {
      return Invalid("input '", want[i].name, "' has the type ", Name(inputs[i].dtype()), ", expected ", Name(want[i].dtype));
    }
    request->inputs.push_back({want[i].name, std::move(inputs[i])});
  }
  for (const std::string& output : request->outputs) RETURN_IF_ERROR(CheckOutput(output));
  if (options_.max_batch_size <= 0) return absl::OkStatus();
  request->rows = -1;
  request->kind = absl::StrJoin(request->outputs, "\n");
  for (const NamedTensor& input : request->inputs) {
    const Shape& shape = input.tensor.shape();
    const int64_t rows = shape.ndim() > 0 ? shape[0] : -1;
    if (rows < 1 || (request->rows >= 0 && rows != request->rows)) {
      return Invalid("input '", Excerpt(input.name), "' has shape ", shape.ToString(),
                     "; the first axis is the batch's, of 1 or more rows, the same for all inputs");
    }
    request->rows = rows;
    Shape row = shape;
    row[0] = 1;
    absl::StrAppend(&request->kind, "\n", Name(input.tensor.dtype()), row.ToString());
  }
  request->rows = std::max<int64_t>(request->rows, 1);
  return absl::OkStatus();
}

absl::Status ServedVersion::CheckOutput(const std::string& name) const {
  const std::vector<ModelOutput>& outputs = model().model().outputs();
  if (absl::c_any_of(outputs, [&](const ModelOutput& output) { return output.name == name; })) return absl::OkStatus();
  std::vector<std::string> known;
  for (const ModelOutput& output : outputs) known.push_back(output.name);
  return Invalid("there is no output '", Excerpt(name), "'", DidYouMean(name, known), " (outputs: ", absl::StrJoin(known, ", "),
                 ")");
}

void ServedVersion::Infer(InferRequestPtr request) {
  request->account = CurrentAccount();
  request->wake = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  };
  absl::Status status = Check(request.get());
  // A cancellation that comes before the request waits is seen by Pump.
  if (request->cancellation != nullptr) (void)request->cancellation->Listen(request.get());
  if (status.ok()) {
    MutexLock lock(mu_);
    status = stopped_ ? Draining() : queue_.Add(request);
    if (status.ok()) Expect(1);
    if (queue_.has_dead()) woken_ = true;
    if (status.ok() && request->too_late.has_value()) {
      next_death_ = std::min(next_death_, *request->too_late);
      PumpAt(*request->too_late);
    }
  }
  if (!status.ok()) return Fail(*request, status);
  Pump();
}

void ServedVersion::Drain(std::function<void()> drained) {
  Hurry();
  {
    MutexLock lock(mu_);
    if (under_way_ > 0) return drained_.push_back(std::move(drained));
  }
  drained();
}

void ServedVersion::Hurry() {
  {
    MutexLock lock(mu_);
    queue_.set_hurries(true);
  }
  Pump();
}

void ServedVersion::TakeTime() {
  MutexLock lock(mu_);
  queue_.set_hurries(false);
}

void ServedVersion::Stop() {
  std::vector<InferRequestPtr> waiting;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    waiting = queue_.TakeAll();
  }
  for (const InferRequestPtr& request : waiting) Fail(*request, Draining());
  Answered(waiting.size());
  MutexLock lock(mu_);
  while (under_way_ > 0 || draining_ > 0) answered_.Wait(mu_);
}

void ServedVersion::Expect(int64_t requests) {
  under_way_ += requests;
  place().serving_lanes().AddUrgentWaiters(requests);
}

void ServedVersion::Answered(size_t requests) {
  std::vector<std::function<void()>> drained;
  MutexLock lock(mu_);
  Expect(-static_cast<int64_t>(requests));
  if (under_way_ == 0 && !drained_.empty()) {
    drained.swap(drained_);
    ++draining_;  // Stop waits for the calls, too.
    lock.Unlock();
    for (const auto& each : drained) each();
    lock.Lock();
    --draining_;
  }
  answered_.NotifyAll();
}

void ServedVersion::Wake() {
  MutexLock lock(mu_);
  if (woken_) return;
  woken_ = true;
  PumpAt(Clock::now());
}

void ServedVersion::Fail(InferRequest& request, const absl::Status& status) {
  request.Unlisten();
  statistics_.Failed(Clock::now() - request.arrived);
  request.done(status);
}

void ServedVersion::Count(Clock::time_point arrived, const InferTimes& times, const absl::Status& answer) {
  const Clock::duration time = Clock::now() - arrived;
  if (!answer.ok()) return statistics_.Failed(time);
  statistics_.Succeeded(time, times.queue, {times.input, times.infer, times.output});
}

// Batches.

void ServedVersion::PumpAt(Clock::time_point when) {
  if (when >= alarm_) return;
  alarm_ = when;
  shared_.alarm.At(when, [weak = weak_from_this(), when] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    {
      MutexLock lock(self->mu_);
      if (self->alarm_ == when) self->alarm_ = Clock::time_point::max();
    }
    self->Pump();
  });
}

void ServedVersion::Pump() {
  while (true) {
    BatchQueue::Dead dead;
    Batch batch;
    size_t instance = 0;
    {
      MutexLock lock(mu_);
      const Clock::time_point now = Clock::now();
      if (woken_ || now >= next_death_) {
        woken_ = false;
        dead = queue_.TakeDead(now);
        next_death_ = queue_.next_death();
      }
      Clock::time_point again = Clock::time_point::max();
      if (!idle_.empty()) batch = queue_.Take(now, &again);
      if (!batch.empty()) {
        instance = idle_.back();
        idle_.pop_back();
      }
      again = std::min(again, next_death_);
      if (again != Clock::time_point::max()) PumpAt(again);
    }
    for (const auto& [request, status] : dead) Fail(*request, status);
    if (!dead.empty()) Answered(dead.size());
    if (batch.empty()) return;
    const ScopedAccount account(batch.front()->account);
    size_t bytes = 0;
    for (const InferRequestPtr& request : batch) {
      for (const NamedTensor& input : request->inputs) {
        const size_t rows = static_cast<size_t>(options_.batch_invariant ? options_.max_batch_size : request->rows);
        bytes += input.tensor.bytes() / static_cast<size_t>(request->rows) * rows;
      }
    }
    if (batch.size() == 1 && !options_.batch_invariant) bytes = 0;  // Nothing is copied.
    shared_.runner.dispatch.Run(bytes > kMuch ? Weight::kHeavy : Weight::kLight,
                                [self = shared_from_this(), instance, batch] { self->Run(instance, batch); });
  }
}

void ServedVersion::Run(size_t instance, Batch batch) {
  const Clock::time_point begun = Clock::now();
  for (const InferRequestPtr& request : batch) request->Unlisten();
  HostedModel& model = *instances_[instance];
  absl::StatusOr<NamedTensors> inputs = JoinRows(batch, options_, model.host_allocator());
  Statistics::Phases phases;
  const Clock::time_point joined = Clock::now();
  phases.input = joined - begun;
  if (!inputs.ok()) {
    Ran(batch, phases, begun, inputs.status());
    MutexLock lock(mu_);
    idle_.push_back(instance);
    return PumpAt(joined);  // Pump may be the caller: it goes no deeper.
  }
  std::vector<std::string> outputs = batch.front()->outputs;
  const std::shared_ptr<Cancellation> cancellation = CancelledTogether(batch);
  const ScopedAccount account(accounts_[instance]);
  model.model().Predict(*std::move(inputs), std::move(outputs), cancellation,
                        [self = shared_from_this(), instance, batch = std::move(batch), phases, begun,
                         joined](absl::StatusOr<NamedTensors> predicted) mutable {
                          phases.infer = Clock::now() - joined;
                          for (const InferRequestPtr& request : batch) request->Unlisten();
                          self->Ran(batch, phases, begun, std::move(predicted));
                          {
                            // Not before: a request that comes while others are answered would be a batch of its own, and wait for
                            // this thread.
                            MutexLock lock(self->mu_);
                            self->idle_.push_back(instance);
                          }
                          self->Pump();
                        });
}

void ServedVersion::Ran(const Batch& batch, Statistics::Phases phases, Clock::time_point begun,
                        absl::StatusOr<NamedTensors> outputs) {
  const Clock::time_point computed = Clock::now();
  using Answers = absl::StatusOr<std::vector<NamedTensors>>;
  Answers answers = outputs.ok() ? SplitRows(batch, options_, *outputs) : Answers(outputs.status());
  phases.output = Clock::now() - computed;
  if (!answers.ok() && batch.size() > 1 && IsWanted(batch)) {  // Perhaps it is the fault of one of them, or of their number.
    MutexLock lock(mu_);
    woken_ = true;  // Some may be cancelled.
    if (!stopped_) return queue_.Return(batch);
  }
  const int64_t rows = RowsOf(batch);
  if (answers.ok()) statistics_.Executed(rows, phases);
  {
    const ScopedCork cork(PeersOf(batch));
    for (size_t i = 0; i < batch.size(); ++i) {
      const ScopedAccount account(batch[i]->account);
      if (!answers.ok()) {
        Fail(*batch[i], answers.status());
        continue;
      }
      const Clock::duration queued = begun - batch[i]->arrived;
      batch[i]->times = {queued, phases.input, phases.infer, phases.output, rows};
      batch[i]->done(std::move((*answers)[i]));
    }
  }
  Answered(batch.size());
}

}  // namespace gluond::server
