#include "server/serving/served_version.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/graph.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/inference_state.h"
#include "engine/nn/inputs.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/tenant_name.h"
#include "engine/runtime/transfer.h"
#include "server/custom/operator_owners.h"
#include "server/net/peers.h"
#include "server/rpc/calls_under_way.h"
#include "server/serving/batch.h"

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

absl::Status CheckValues(const ModelState& state) {
  absl::flat_hash_set<absl::string_view> values, wanted;
  for (const NamedTensor& value : state.parameters) values.insert(value.name);
  PostOrderVisit(state.definition.outputs, [&](const NodePtr& node) { wanted.insert(node->name()); });
  for (const Parameter& parameter : state.definition.parameters) {
    if (values.contains(parameter.name) || !wanted.contains(parameter.name)) continue;
    return FailedPrecondition("parameter '", Excerpt(parameter.name),
                              "' has no value; initialize the model, and where its shape is open let it see a batch");
  }
  return absl::OkStatus();
}

// Whether clients compute some of its operators: one that is silent would hold up who publishes.
bool NeedsClients(const ModelState& state) {
  bool needs = false;
  PostOrderVisit(state.definition.outputs,
                 [&](const NodePtr& node) { needs = needs || (!node->is_variable() && node->facts().async); });
  return needs;
}

}  // namespace

ServedVersion::ServedVersion(const Shared& shared, int64_t number, const ServingOptions& options)
    : shared_(shared), number_(number), options_(options), queue_(options, shared.runner.limits.max_requests) {}

Task<absl::StatusOr<ServedVersionPtr>> ServedVersion::Create(Shared shared, std::string served, int64_t number, ModelState state,
                                                             ServingOptions options, std::shared_ptr<Cancellation> cancellation) {
  CO_ASSIGN_OR_RETURN(Place* const place, shared.devices.Find(options.device));
  CO_RETURN_IF_ERROR(CheckValues(state));
  ServedVersionPtr version(new ServedVersion(shared, number, options));
  const std::shared_ptr<Lane> lane = shared.devices.host().serving_lanes().Take();
  const absl::Status made = co_await version->Make(std::move(state), *place, served, *lane, cancellation);
  co_await PostedAside(*lane);
  CO_RETURN_IF_ERROR(made);
  co_return version;
}

Task<absl::Status> ServedVersion::Make(ModelState state, Place& place, const std::string& served, Lane& host_lane,
                                       const std::shared_ptr<Cancellation>& cancellation) {
  const std::string name = absl::StrCat(served, " version ", number_);
  const CustomHostPtr custom_host =
      HostsOf(shared_.devices.custom_host(), std::string(TenantPrefix(served)), options_.operator_owners);
  if (!options_.operator_owners.empty()) {  // The model's own graph has its operators computed by whoever shares them.
    CO_ASSIGN_OR_RETURN(state.definition.outputs, ComputedBy(custom_host, state.definition.outputs));
  }
  CO_ASSIGN_OR_RETURN(InferenceState made, co_await ForInference(std::move(state), place.device, host_lane,
                                                                 *shared_.devices.host().allocator, cancellation));
  why_not_rewritten_ = made.why_not;
  history_ = std::make_shared<const PassHistory>(std::move(made.history));
  state = std::move(made.state);
  CO_ASSIGN_OR_RETURN(state.parameters, co_await Keep(state.parameters, place, name));
  for (int64_t i = 0; i < options_.instances; ++i) {
    CO_RETURN_IF_ERROR(co_await AddInstance(state, place, custom_host, served, name, cancellation));
  }
  CO_RETURN_IF_ERROR(CheckBatching());
  if (NeedsClients(state)) co_return absl::OkStatus();
  for (const int64_t rows : UsualRows()) CO_RETURN_IF_ERROR(co_await WarmUp(rows, cancellation));
  co_return absl::OkStatus();
}

Task<absl::Status> ServedVersion::AddInstance(const ModelState& state, Place& place, const CustomHostPtr& custom_host,
                                              const std::string& served, const std::string& name,
                                              const std::shared_ptr<Cancellation>& cancellation) {
  const std::shared_ptr<Lane> lane = place.serving_lanes().Take();
  co_await PostedAside(*lane);  // Making a model takes long.
  HostedModelPtr instance;
  {
    const CancellationScope scope(cancellation.get());
    const ScopedCustomHost scoped_host(custom_host);
    CO_ASSIGN_OR_RETURN(instance, HostedModel::Create(name, state.definition, state.random.seed, place, shared_.devices.host(),
                                                      shared_.runner.limits.max_model_bytes,
                                                      /*clients_are_away=*/true, &place.serving_lanes()));
  }
  CO_RETURN_IF_ERROR(co_await Callback<absl::Status>([&](Callback<absl::Status>::Done done) {
    instance->model().AdoptParameters(state.parameters, constants_, std::move(done));
  }));
  const TenantPtr tenant = shared_.runner.tenants.OwnerOf(served);
  accounts_.push_back(std::make_shared<Account>(absl::StrCat(name, " instance ", instances_.size()),
                                                tenant == nullptr ? nullptr : tenant->group()));
  MutexLock lock(mu_);
  idle_.push_back(instances_.size());
  instances_.push_back(std::move(instance));
  co_return absl::OkStatus();
}

Task<absl::StatusOr<NamedTensors>> ServedVersion::Keep(const NamedTensors& values, Place& place, const std::string& owner) {
  values_ = std::make_shared<Budget>(absl::StrCat("the values of '", owner, "'"), shared_.runner.limits.max_model_bytes,
                                     "--max_model_bytes", Budget::PartOf(place.budget));
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceAllocator> allocator, DeviceAllocator::Create(place.device, values_));
  const std::shared_ptr<Lane> lane = place.serving_lanes().Take();
  // A GPU's stream is its lanes': who copies there waits for what is on it.
  if (place.device.type == DeviceType::kGpu) co_await PostedTo(*lane);
  NamedTensors kept;
  std::vector<Tensor> tensors;
  for (const NamedTensor& value : values) {
    CO_ASSIGN_OR_RETURN(Tensor copy, CopyTo(value.tensor, place.serving_lanes(), *allocator));
    tensors.push_back(copy);
    kept.push_back({value.name, std::move(copy)});
  }
  constants_ = std::make_shared<ConstantTensors>(tensors, allocator);
  CO_RETURN_IF_ERROR(place.lanes->driver().Synchronize(place.serving_lanes().stream()));
  co_return kept;
}

std::vector<int64_t> ServedVersion::UsualRows() const {
  if (options_.batch_invariant) return {options_.max_batch_size};
  std::set<int64_t> rows(options_.preferred_batch_sizes.begin(), options_.preferred_batch_sizes.end());
  rows.insert({1, std::max<int64_t>(1, options_.max_batch_size)});
  return {rows.begin(), rows.end()};
}

absl::Status ServedVersion::CheckBatching() const {
  if (options_.max_batch_size <= 0) return absl::OkStatus();
  const auto check = [](absl::string_view what, const std::string& name, const Shape& shape) {
    if (!shape.rank_known() || (shape.ndim() > 0 && shape[0] == Shape::kUnknown)) return absl::OkStatus();
    return Invalid("max_batch_size is above 0, but the first axis of the ", what, " '", Excerpt(name), "' of shape ",
                   shape.ToString(), " is no batch's: it has one size; set max_batch_size 0, or leave that size open (-1)");
  };
  for (const ModelInput& input : model().model().inputs()) RETURN_IF_ERROR(check("input", input.name, input.shape));
  for (const ModelOutput& output : model().model().outputs()) {
    RETURN_IF_ERROR(check("output", output.name, output.signature.shape));
  }
  return absl::OkStatus();
}

Task<absl::Status> ServedVersion::WarmUp(int64_t rows, const std::shared_ptr<Cancellation>& cancellation) {
  for (const HostedModelPtr& instance : instances_) {
    NamedTensors inputs;
    for (const ModelInput& input : instance->model().inputs()) {
      Shape shape = input.shape;
      if (shape.ndim() > 0 && shape[0] == Shape::kUnknown) shape[0] = rows;
      if (!shape.known()) co_return absl::OkStatus();  // The requests will tell.
      CO_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Empty(instance->host_allocator(), shape, input.dtype));
      std::memset(zeros.data(), 0, zeros.bytes());
      inputs.push_back({input.name, std::move(zeros)});
    }
    const absl::Status status = co_await Callback<absl::Status>([&](Callback<absl::Status>::Done done) {
      instance->model().Predict(std::move(inputs), {}, cancellation,
                                [done = std::move(done)](absl::StatusOr<NamedTensors> outputs) { done(outputs.status()); });
    });
    CO_RETURN_IF_ERROR(Annotate(status, "computing with zeros, to warm up"));
  }
  co_return absl::OkStatus();
}

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
