// InferenceService serves published versions to clients of the open inference protocol, version 2, with Triton's
// extensions (proto/inference).

#include "server/services/services.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/codec/infer_codec.h"
#include "server/services/infer.h"
#include "server/services/infer_stream.h"
#include "server/serving/publisher.h"
#include "server/start/protocol.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {
namespace {

constexpr char kName[] = "gluond";
constexpr const char* kExtensions[] = {"classification",  "model_repository",    "model_repository(unload_dependents)",
                                       "schedule_policy", "model_configuration", "binary_tensor_data",
                                       "parameters",      "statistics",          "logging"};

// The answer of methods that this server has not.
constexpr char kNoMemory[] = "this server maps no memory of its clients; send tensors in requests";
constexpr char kNoSharedMemory[] =
    "this server maps no memory of its clients, unless it is started with --shared_memory; send tensors in requests";

absl::Status CheckRepository(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::UnimplementedError("this server has one repository, without a name; leave repository_name out");
}

void Describe(const std::string& name, DType dtype, const Shape& shape, inference::ModelMetadataResponse::TensorMetadata* proto) {
  proto->set_name(name);
  proto->set_datatype(std::string(DatatypeOf(dtype)));
  for (const int64_t dim : shape) proto->add_shape(dim);
}

// An input or an output of ModelConfig: without the batch's axis where there are batches.
template <class Config>
void Configure(const std::string& name, DType dtype, const Shape& shape, bool batches, Config* proto) {
  proto->set_name(name);
  proto->set_data_type(ConfigTypeOf(dtype));
  for (const int64_t* dim = shape.begin() + (batches && shape.ndim() > 0 ? 1 : 0); dim < shape.end(); ++dim) {
    proto->add_dims(*dim);
  }
}

void Configure(const std::string& name, const ServedVersion& version, inference::ModelConfig* config) {
  const ServingOptions& options = version.options();
  const bool batches = options.max_batch_size > 0;
  config->set_name(name);
  config->set_platform(kName);
  config->set_backend(kName);
  config->mutable_version_policy()->mutable_all();
  config->set_max_batch_size(static_cast<int32_t>(options.max_batch_size));
  const Model& model = version.model().model();
  for (const ModelInput& input : model.inputs()) {
    Configure(input.name, input.dtype, input.shape, batches, config->add_input());
  }
  for (const ModelOutput& output : model.outputs()) {
    Configure(output.name, output.signature.dtype, output.signature.shape, batches, config->add_output());
  }
  inference::ModelInstanceGroup* const group = config->add_instance_group();
  group->set_name(version.place().device.ToString());
  group->set_count(static_cast<int32_t>(options.instances));
  const bool is_gpu = version.place().device.type == DeviceType::kGpu;
  group->set_kind(is_gpu ? inference::ModelInstanceGroup::KIND_GPU : inference::ModelInstanceGroup::KIND_CPU);
  if (is_gpu) group->add_gpus(version.place().device.id);
  if (!batches) return;
  inference::ModelDynamicBatching* const batching = config->mutable_dynamic_batching();
  for (const int64_t size : options.preferred_batch_sizes) batching->add_preferred_batch_size(static_cast<int32_t>(size));
  batching->set_max_queue_delay_microseconds(static_cast<uint64_t>(options.max_queue_delay.count()));
  batching->set_priority_levels(static_cast<uint64_t>(options.priority_levels));
  batching->set_default_priority_level(static_cast<uint64_t>(options.default_priority));
  inference::ModelQueuePolicy* const policy = batching->mutable_default_queue_policy();
  policy->set_default_timeout_microseconds(static_cast<uint64_t>(options.default_timeout.count()));
  policy->set_allow_timeout_override(options.allow_timeout_override);
  policy->set_timeout_action(options.delay_late_requests ? inference::ModelQueuePolicy::DELAY
                                                         : inference::ModelQueuePolicy::REJECT);
  policy->set_max_queue_size(static_cast<uint32_t>(options.max_queue_size));
}

void TimesToProto(const Times& times, inference::StatisticDuration* proto) {
  proto->set_count(times.count);
  proto->set_ns(static_cast<uint64_t>(times.sum.count()));
}

void Count(const std::string& name, const ServedVersion& version, inference::ModelStatistics* proto) {
  const Statistics::Counts counts = version.statistics().Read();
  proto->set_name(name);
  proto->set_version(absl::StrCat(version.number()));
  const auto last = std::chrono::duration_cast<std::chrono::milliseconds>(counts.last.time_since_epoch());
  proto->set_last_inference(static_cast<uint64_t>(last.count()));
  proto->set_inference_count(counts.inferences);
  proto->set_execution_count(counts.executions);
  inference::InferStatistics* const statistics = proto->mutable_inference_stats();
  TimesToProto(counts.success, statistics->mutable_success());
  TimesToProto(counts.fail, statistics->mutable_fail());
  TimesToProto(counts.queue, statistics->mutable_queue());
  TimesToProto(counts.input, statistics->mutable_compute_input());
  TimesToProto(counts.infer, statistics->mutable_compute_infer());
  TimesToProto(counts.output, statistics->mutable_compute_output());
  for (const auto& [rows, batches] : counts.by_rows) {
    inference::InferBatchStatistics* const batch = proto->add_batch_stats();
    batch->set_batch_size(static_cast<uint64_t>(rows));
    TimesToProto(batches.input, batch->mutable_compute_input());
    TimesToProto(batches.infer, batch->mutable_compute_infer());
    TimesToProto(batches.output, batch->mutable_compute_output());
  }
  inference::MemoryUsage* const memory = proto->add_memory_usage();
  const Device device = version.place().device;
  memory->set_type(device.type == DeviceType::kGpu ? "GPU" : "CPU");
  memory->set_id(device.id);
  memory->set_byte_size(static_cast<uint64_t>(version.tensor_bytes()));
}

using Setting = inference::LogSettingsRequest::SettingValue;

constexpr std::pair<const char*, LogLevel> kLevels[] = {
    {"log_info", LogLevel::kInfo}, {"log_warning", LogLevel::kWarning}, {"log_error", LogLevel::kError}};
constexpr char kVerbosity[] = "log_verbose_level", kFile[] = "log_file", kFormat[] = "log_format";
constexpr uint32_t kMostVerbose = 2;
constexpr char kOnlyFormat[] = "ISO8601";
constexpr const char* kTraceSettings[] = {"trace_file", "trace_level", "trace_rate", "trace_count", "log_frequency", "trace_mode"};
constexpr char kTraceLevel[] = "trace_level", kOff[] = "OFF";

absl::Status Wrong(const std::string& name, absl::string_view want) {
  return InField(absl::StrCat("settings[\"", Excerpt(name), "\"]"), Invalid("the setting '", Excerpt(name), "' wants ", want));
}

absl::Status Check(const std::string& name, const Setting& setting, const Runner& runner) {
  for (const auto& [level_name, level] : kLevels) {
    if (name != level_name) continue;
    if (!setting.has_bool_param()) return Wrong(name, "bool_param: whether such lines are logged");
    if (level != LogLevel::kInfo || !setting.bool_param() || runner.access.is_open()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "lines of calls that went well have no file to go to; start the server with --access_log=FILE");
  }
  if (name == kVerbosity) {
    if (setting.has_uint32_param() && setting.uint32_param() <= kMostVerbose) return absl::OkStatus();
    return Wrong(name, absl::StrCat("uint32_param of 0 to ", kMostVerbose, ": how much gRPC tells of itself"));
  }
  if (name == kFormat) {
    if (setting.string_param() == kOnlyFormat) return absl::OkStatus();
    return Wrong(name, absl::StrCat("string_param '", kOnlyFormat, "': lines are JSON with such times"));
  }
  if (name == kFile) {
    return absl::PermissionDeniedError(
        "no client says to which file the server writes; its flags --access_log, --error_log and --audit_log do");
  }
  return Wrong(name, "another name: log_info, log_warning, log_error, log_verbose_level or log_format");
}

void Apply(const std::string& name, const Setting& setting, LogLevels& levels) {
  for (const auto& [level_name, level] : kLevels) {
    if (name == level_name) levels.Set(level, setting.bool_param());
  }
  if (name == kVerbosity) SetGrpcVerbosity(setting.uint32_param());
}

absl::Status CheckTrace(const std::string& name, const inference::TraceSettingRequest::SettingValue& setting) {
  if (std::find(std::begin(kTraceSettings), std::end(kTraceSettings), name) == std::end(kTraceSettings)) {
    return Wrong(name, "another name: Triton knows trace_level, trace_rate, trace_count, log_frequency, trace_file and trace_mode");
  }
  // A setting without a value goes back to its default.
  const bool is_off = name == kTraceLevel && setting.value_size() == 1 && setting.value(0) == kOff;
  if (is_off || setting.value().empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "this server keeps no traces; a call's line in --access_log has the trace of its `traceparent` and a span, and "
      "ModelStatistics tells the times of inferences");
}

class InferenceService final : public RawService {
 public:
  InferenceService(Runner& runner, Publisher& publisher, InferStreams& streams, SharedRegions* regions)
      : RawService(runner, "inference.GRPCInferenceService"),
        publisher_(publisher),
        served_(publisher.table()),
        streams_(streams),
        regions_(regions) {
    using This = InferenceService;
    Add("ServerLive", this, &This::ServerLive);
    Add("ServerReady", this, &This::ServerReady);
    Add("ModelReady", this, &This::ModelReady);
    Add("ServerMetadata", this, &This::ServerMetadata);
    Add("ModelMetadata", this, &This::ModelMetadata);
    Add("ModelInfer", this, &This::ModelInfer);
    AddStream<inference::ModelInferRequest>("ModelStreamInfer", this, &This::ModelStreamInfer);
    Add("ModelConfig", this, &This::ModelConfig);
    Add("ModelStatistics", this, &This::ModelStatistics);
    Add("RepositoryIndex", this, &This::RepositoryIndex);
    Add("RepositoryModelLoad", this, &This::RepositoryModelLoad);
    Add("RepositoryModelUnload", this, &This::RepositoryModelUnload);
    Add("SystemSharedMemoryStatus", this, &This::SystemSharedMemoryStatus);
    Add("SystemSharedMemoryRegister", this, &This::SystemSharedMemoryRegister);
    Add("SystemSharedMemoryUnregister", this, &This::SystemSharedMemoryUnregister);
    Add("CudaSharedMemoryStatus", this,
        &This::Nothing<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>);
    Add("CudaSharedMemoryRegister", this,
        &This::Unimplemented<kNoMemory, inference::CudaSharedMemoryRegisterRequest, inference::CudaSharedMemoryRegisterResponse>);
    Add("CudaSharedMemoryUnregister", this,
        &This::Nothing<inference::CudaSharedMemoryUnregisterRequest, inference::CudaSharedMemoryUnregisterResponse>);
    Add("TraceSetting", this, &This::TraceSetting);
    Add("LogSettings", this, &This::LogSettings);
  }

  void Sweep() override { streams_.Sweep(); }

 private:
  // The caller's regions of shared memory.
  template <class Call>
  CallersRegions RegionsOf(const Call& call) const {
    return {regions_, RegionUserOf(call.caller())};
  }

  // The server.

  void ServerLive(Call<inference::ServerLiveRequest, inference::ServerLiveResponse> call) {
    call.response().set_live(true);
    call.Finish();
  }

  void ServerReady(Call<inference::ServerReadyRequest, inference::ServerReadyResponse> call) {
    call.response().set_ready(true);  // A server that is not takes no calls.
    call.Finish();
  }

  void ServerMetadata(Call<inference::ServerMetadataRequest, inference::ServerMetadataResponse> call) {
    call.response().set_name(kName);
    call.response().set_version(kVersion);
    for (const char* extension : kExtensions) call.response().add_extensions(extension);
    if (regions_ != nullptr) call.response().add_extensions("system_shared_memory");
    call.Finish();
  }

  // Versions.

  void ModelReady(Call<inference::ModelReadyRequest, inference::ModelReadyResponse> call) {
    const absl::Status status = served_.Choose(call.request().name(), call.request().version(), std::nullopt).status();
    // As Triton answers: what is not there is not ready, and a program that waits for it asks again.
    if (!absl::IsNotFound(status) && !absl::IsUnavailable(status)) FINISH_IF_ERROR(call, status);
    call.response().set_ready(status.ok());
    call.Finish();
  }

  void ModelMetadata(Call<inference::ModelMetadataRequest, inference::ModelMetadataResponse> call) {
    const std::string& name = call.request().name();
    inference::ModelMetadataResponse& response = call.response();
    ASSIGN_OR_FINISH(call, const ServedVersionPtr version, served_.Choose(name, call.request().version(), std::nullopt));
    response.set_name(name);
    response.set_platform(kName);
    for (const auto& [served, each] : served_.Ready(name)) response.add_versions(absl::StrCat(each->number()));
    const Model& model = version->model().model();
    for (const ModelInput& input : model.inputs()) Describe(input.name, input.dtype, input.shape, response.add_inputs());
    for (const ModelOutput& output : model.outputs()) {
      Describe(output.name, output.signature.dtype, output.signature.shape, response.add_outputs());
    }
    call.Finish();
  }

  void ModelConfig(Call<inference::ModelConfigRequest, inference::ModelConfigResponse> call) {
    ASSIGN_OR_FINISH(call, const ServedVersionPtr version,
                     served_.Choose(call.request().name(), call.request().version(), std::nullopt));
    Configure(call.request().name(), *version, call.response().mutable_config());
    call.Finish();
  }

  void ModelInfer(Call<inference::ModelInferRequest, inference::ModelInferResponse> call) {
    Infer(served_, runner(),
          {call.request(), call.attachments(), call.response(), call.reply_attachments(), RegionsOf(call), call.cancellation(),
           nullptr, call.peer(), call.caller_name(), &call.phases()},
          [call](const absl::Status& status) { call.Finish(status); });
  }

  std::shared_ptr<Stream> ModelStreamInfer(Stream::Opening opening) { return streams_.Start(streams_, opening); }

  void ModelStatistics(Call<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse> call) {
    const inference::ModelStatisticsRequest& request = call.request();
    if (!request.name().empty() && !request.version().empty()) {
      ASSIGN_OR_FINISH(call, const ServedVersionPtr version, served_.Choose(request.name(), request.version(), std::nullopt));
      Count(request.name(), *version, call.response().add_model_stats());
      return call.Finish();
    }
    if (!request.name().empty()) {
      FINISH_IF_ERROR(call, served_.Check(request.name()));
      for (const auto& [name, version] : served_.Ready(request.name())) Count(name, *version, call.response().add_model_stats());
      return call.Finish();
    }
    for (const auto& [name, version] : served_.Ready()) {
      if (call.reach().Has(name)) Count(name, *version, call.response().add_model_stats());
    }
    call.Finish();
  }

  // The repository.

  void RepositoryIndex(Call<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse> call) {
    FINISH_IF_ERROR(call, CheckRepository(call.request().repository_name()));
    for (const v1::ServedVersion& version : served_.List()) {
      if (!call.reach().Has(version.served())) continue;
      if (call.request().ready() && version.state() != v1::ServedVersion::READY) continue;
      auto* const index = call.response().add_models();
      index->set_name(version.served());
      index->set_version(absl::StrCat(version.version()));
      index->set_state(v1::ServedVersion::State_Name(version.state()));
      index->set_reason(version.reason());
    }
    call.Finish();
  }

  void RepositoryModelLoad(Call<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse> call) {
    FINISH_IF_ERROR(call, CheckRepository(call.request().repository_name()));
    for (const auto& [name, value] : call.request().parameters()) {
      return call.Finish(
          Invalid("there is no parameter '", Excerpt(name), "' of loading; a version is served as it was published"));
    }
    publisher_.LoadAgain(call.request().model_name(), [call](const absl::Status& status) { call.Finish(status); });
  }

  void RepositoryModelUnload(Call<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse> call) {
    FINISH_IF_ERROR(call, CheckRepository(call.request().repository_name()));
    publisher_.Unload(call.request().model_name(), [call](const absl::Status& status) { call.Finish(status); });
  }

  // Shared memory.

  void SystemSharedMemoryStatus(
      Call<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse> call) {
    if (regions_ == nullptr) return call.Finish();
    ASSIGN_OR_FINISH(call, const auto regions, RegionsOf(call).List(call.request().name()));
    for (const auto& [name, facts] : regions) {
      auto& region = (*call.response().mutable_regions())[name];
      region.set_name(name);
      region.set_key(facts.key);
      region.set_offset(facts.offset);
      region.set_byte_size(facts.byte_size);
    }
    call.Finish();
  }

  void SystemSharedMemoryRegister(
      Call<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse> call) {
    if (regions_ == nullptr) return call.Finish(absl::UnimplementedError(kNoSharedMemory));
    const inference::SystemSharedMemoryRegisterRequest& request = call.request();
    call.Finish(regions_->Register(
        request.name(), {.key = request.key(), .offset = request.offset(), .byte_size = request.byte_size()}, call.caller_name()));
  }

  void SystemSharedMemoryUnregister(
      Call<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse> call) {
    if (regions_ != nullptr) regions_->Unregister(call.request().name());
    call.Finish();
  }

  // Methods of what this server has not.

  // Shared memory that nobody has registered: a status without regions, and nothing to forget.
  template <class Request, class Response>
  void Nothing(Call<Request, Response> call) {
    call.Finish();
  }

  // UNIMPLEMENTED, with the sentence `kWhy`.
  template <const char* kWhy, class Request, class Response>
  void Unimplemented(Call<Request, Response> call) {
    call.Finish(absl::UnimplementedError(kWhy));
  }

  // Settings: those of the log, which an operator may change while the server runs, and those of traces, of which the server
  // keeps none. The answer has the settings after those of the request, if any.

  void LogSettings(Call<inference::LogSettingsRequest, inference::LogSettingsResponse> call) {
    Runner& runner = this->runner();
    const auto& wanted = call.request().settings();
    for (const auto& [name, setting] : wanted) FINISH_IF_ERROR(call, Check(name, setting, runner));
    LogLevels& levels = runner.log.levels();
    for (const auto& [name, setting] : wanted) Apply(name, setting, levels);
    auto& settings = *call.response().mutable_settings();
    for (const auto& [name, level] : kLevels) {
      settings[name].set_bool_param(levels.On(level) && (level != LogLevel::kInfo || runner.access.is_open()));
    }
    settings[kVerbosity].set_uint32_param(GrpcVerbosity());
    settings[kFormat].set_string_param(kOnlyFormat);
    call.Finish();
  }

  void TraceSetting(Call<inference::TraceSettingRequest, inference::TraceSettingResponse> call) {
    const inference::TraceSettingRequest& request = call.request();
    if (!request.model_name().empty()) FINISH_IF_ERROR(call, served_.Check(request.model_name()));
    for (const auto& [name, setting] : request.settings()) FINISH_IF_ERROR(call, CheckTrace(name, setting));
    (*call.response().mutable_settings())[kTraceLevel].add_value(kOff);
    call.Finish();
  }

  Publisher& publisher_;
  const VersionTable& served_;
  InferStreams& streams_;
  SharedRegions* const regions_;
};

}  // namespace

std::unique_ptr<RawService> NewInferenceService(Runner& runner, Publisher& publisher, InferStreams& streams,
                                                SharedRegions* regions) {
  return std::make_unique<InferenceService>(runner, publisher, streams, regions);
}

}  // namespace gluond::server
