// InferenceService's settings: those of the log, which an operator may change while the server runs, and those of traces,
// of which the server keeps none.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/services/inference_service.h"

namespace gluond::server {
namespace {

using Setting = inference::LogSettingsRequest::SettingValue;

constexpr std::pair<const char*, LogLevel> kLevels[] = {
    {"log_info", LogLevel::kInfo}, {"log_warning", LogLevel::kWarning}, {"log_error", LogLevel::kError}};
constexpr char kVerbosity[] = "log_verbose_level", kFile[] = "log_file", kFormat[] = "log_format";
constexpr uint32_t kMostVerbose = 2;
constexpr char kOnlyFormat[] = "ISO8601";
constexpr const char* kTraceSettings[] = {"trace_file", "trace_level", "trace_rate", "trace_count", "log_frequency", "trace_mode"};
constexpr char kTraceLevel[] = "trace_level", kOff[] = "OFF";

absl::Status Wrong(const std::string& name, absl::string_view want) {
  return InField(absl::StrCat("settings[\"", Excerpt(name), "\"]"),
                 absl::InvalidArgumentError(absl::StrCat("the setting '", Excerpt(name), "' wants ", want)));
}

absl::Status CheckLevel(const std::string& name, LogLevel level, const Setting& setting, const Runner& runner) {
  if (!setting.has_bool_param()) return Wrong(name, "bool_param: whether such lines are logged");
  if (level != LogLevel::kInfo || !setting.bool_param() || runner.access.is_open()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "lines of calls that went well have no file to go to; start the server with "
      "--access_log=FILE");
}

absl::Status Check(const std::string& name, const Setting& setting, const Runner& runner) {
  for (const auto& [level_name, level] : kLevels) {
    if (name == level_name) return CheckLevel(name, level, setting, runner);
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
        "no client says to which file the server writes; its flags --access_log, --error_log "
        "and --audit_log do");
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
    return Wrong(name,
                 "another name: Triton knows trace_level, trace_rate, trace_count, log_frequency, trace_file and "
                 "trace_mode");
  }
  // A setting without a value goes back to its default.
  const bool is_off = name == kTraceLevel && setting.value_size() == 1 && setting.value(0) == kOff;
  if (is_off || setting.value().empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "this server keeps no traces; a call's line in --access_log has the trace of its "
      "`traceparent` and a span, and ModelStatistics tells the times of inferences");
}

}  // namespace

void InferenceService::LogSettings(Call<inference::LogSettingsRequest, inference::LogSettingsResponse> call) {
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

void InferenceService::TraceSetting(Call<inference::TraceSettingRequest, inference::TraceSettingResponse> call) {
  const inference::TraceSettingRequest& request = call.request();
  if (!request.model_name().empty()) FINISH_IF_ERROR(call, served_.Check(request.model_name()));
  for (const auto& [name, setting] : request.settings()) FINISH_IF_ERROR(call, CheckTrace(name, setting));
  (*call.response().mutable_settings())[kTraceLevel].add_value(kOff);
  call.Finish();
}

}  // namespace gluond::server
