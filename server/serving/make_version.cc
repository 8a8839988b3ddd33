// How a version is made: its graph folded, its values kept once, its instances, and the passes that warm these up.

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/graph.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/inference_state.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/tenant_name.h"
#include "engine/runtime/transfer.h"
#include "server/custom/operator_owners.h"
#include "server/serving/served_version.h"

namespace gluond::server {
namespace {

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

}  // namespace gluond::server
