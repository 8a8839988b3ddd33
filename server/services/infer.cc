#include "server/services/infer.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/infer_codec.h"

namespace gluond::server {
namespace {

constexpr char kClassification[] = "classification";
// A request's parameter that asks where its time went.
constexpr char kTiming[] = "timing";
// Asks for what each answer on a stream has anyway.
constexpr char kFinalResponse[] = "triton_enable_empty_final_response";
constexpr size_t kLongestId = 1024;

absl::StatusOr<bool> Flag(absl::string_view name, const inference::InferParameter& parameter) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kBoolParam) return parameter.bool_param();
  return InField(absl::StrCat("parameters[\"", name, "\"]"),
                 Invalid("the parameter '", name, "' wants true or false, in bool_param"));
}

absl::Status ReadParameters(const inference::ModelInferRequest& request, InferRequest* to) {
  for (const auto& [name, parameter] : request.parameters()) {
    if (name == "priority") {
      ASSIGN_OR_RETURN(to->priority, Natural(name, parameter));
    } else if (name == "timeout") {
      ASSIGN_OR_RETURN(const uint64_t timeout, Natural(name, parameter));
      constexpr uint64_t kLongest = 3'600'000'000;
      if (timeout > 0) to->timeout = std::chrono::microseconds(std::min(timeout, kLongest));
    } else if (name == kTiming) {
      ASSIGN_OR_RETURN(to->tells_times, Flag(name, parameter));
    } else if (name == kFinalResponse) {
      RETURN_IF_ERROR(Flag(name, parameter).status());
    } else if (name == "sequence_id" || name == "sequence_start" || name == "sequence_end") {
      return InField(absl::StrCat("parameters[\"", name, "\"]"),
                     Invalid("no model here keeps a state between requests; leave '", name, "' out"));
    } else if (absl::StartsWith(name, "triton_")) {
      return InField("parameters", Invalid("the parameter '", Excerpt(name), "' is Triton's own; leave it out"));
    }
  }
  return absl::OkStatus();
}

// The ways of outputs that do not go as they are into the answer, by their names.
struct Wanted {
  absl::flat_hash_map<std::string, int64_t> classes;  // How many.
  absl::flat_hash_map<std::string, SharedPlace> places;
};

absl::StatusOr<Wanted> ReadOutputs(const inference::ModelInferRequest& request, const CallersRegions& regions, InferRequest* to) {
  Wanted wanted;
  absl::flat_hash_set<absl::string_view> seen;
  for (const auto& output : request.outputs()) {
    if (!seen.insert(output.name()).second) return Invalid("output '", Excerpt(output.name()), "' is wanted twice");
    to->outputs.push_back(output.name());
    ASSIGN_OR_RETURN(std::optional<SharedPlace> place, ReadSharedPlace(output.parameters(), regions));
    if (place.has_value()) wanted.places[output.name()] = *std::move(place);
    const auto classification = output.parameters().find(kClassification);
    if (classification == output.parameters().end()) continue;
    ASSIGN_OR_RETURN(const uint64_t count, Natural(kClassification, classification->second));
    if (count == 0) continue;
    if (wanted.places.contains(output.name())) {
      return Invalid("the classes of output '", Excerpt(output.name()),
                     "' are given in the answer alone; leave its shared memory out");
    }
    wanted.classes[output.name()] = static_cast<int64_t>(std::min<uint64_t>(count, INT32_MAX));
  }
  return wanted;
}

absl::Status Answer(const Inference& inference, const ServedVersion& version, const Wanted& wanted, const NamedTensors& outputs,
                    int64_t most_bytes) {
  inference::ModelInferResponse& response = inference.response;
  response.set_model_name(inference.request.model_name());
  response.set_model_version(absl::StrCat(version.number()));
  response.set_id(inference.request.id());
  for (const auto& [name, tensor] : outputs) {
    if (const auto classes = wanted.classes.find(name); classes != wanted.classes.end()) {
      RETURN_IF_ERROR(EncodeClasses(name, tensor, classes->second, version.options().max_batch_size > 0, most_bytes, &response));
    } else if (const auto place = wanted.places.find(name); place != wanted.places.end()) {
      RETURN_IF_ERROR(EncodeSharedOutput(name, tensor, place->second, inference.regions, &response));
    } else {
      RETURN_IF_ERROR(EncodeInferOutput(name, tensor, &response, &inference.reply_attachments));
    }
  }
  size_t bytes = response.ByteSizeLong();
  for (const std::string& raw : response.raw_output_contents()) {
    bytes += inference.reply_attachments.Get(raw).size() - raw.size();  // Some are placeholders.
  }
  if (static_cast<int64_t>(bytes) <= most_bytes) return absl::OkStatus();
  return OverLimit("--max_message_bytes", "the answer has ", bytes, " bytes, the limit of --max_message_bytes is ", most_bytes,
                   "; ask for fewer rows or outputs at once");
}

// The names are those of ModelStatistics.
void Tell(const InferTimes& times, std::chrono::nanoseconds encode, inference::ModelInferResponse* response) {
  auto& parameters = *response->mutable_parameters();
  parameters["queue_ns"].set_int64_param(times.queue.count());
  parameters["compute_input_ns"].set_int64_param(times.input.count());
  parameters["compute_infer_ns"].set_int64_param(times.infer.count());
  parameters["compute_output_ns"].set_int64_param((times.output + encode).count());
  parameters["batch_size"].set_int64_param(times.rows);
}

absl::Status Start(const VersionTable& served, Runner& runner, Inference inference, const std::function<void(absl::Status)>& done) {
  const inference::ModelInferRequest& message = inference.request;
  if (message.id().size() > kLongestId) {
    return InField("id", Invalid("the id has ", message.id().size(), " bytes, the limit is ", kLongestId));
  }
  ASSIGN_OR_RETURN(const ServedVersionPtr version, served.Choose(message.model_name(), message.model_version(), message.id()));
  auto request = std::make_shared<InferRequest>();
  RETURN_IF_ERROR(ReadParameters(message, request.get()));
  ASSIGN_OR_RETURN(Wanted wanted, ReadOutputs(message, inference.regions, request.get()));
  ASSIGN_OR_RETURN(request->inputs,
                   DecodeInferInputs(message, inference.attachments, inference.regions, version->model().host_allocator()));
  request->cancellation = inference.cancellation;
  request->peer = inference.peer;
  request->caller = inference.caller;
  request->done = [&runner, version, request = request.get(), inference = std::move(inference), wanted = std::move(wanted),
                   done](absl::StatusOr<NamedTensors> outputs) {
    if (!outputs.ok()) return done(outputs.status());
    const InferTimes& times = request->times;
    if (inference.phases != nullptr) {
      *inference.phases = {.queue = times.queue, .compute = times.input + times.infer + times.output};
    }
    auto answer = [version, inference, wanted, times, arrived = request->arrived, tells_times = request->tells_times, done,
                   outputs = *std::move(outputs), most_bytes = runner.limits.max_message_bytes] {
      const InferRequest::Clock::time_point begun = InferRequest::Clock::now();
      const absl::Status status = Answer(inference, *version, wanted, outputs, most_bytes);
      if (tells_times) Tell(times, InferRequest::Clock::now() - begun, &inference.response);
      version->Count(arrived, times, status);  // Before the client may ask.
      done(status);
    };
    const bool is_light = wanted.classes.empty() && wanted.places.empty();
    runner.dispatch.Run(is_light ? Weight::kLight : Weight::kHeavy, std::move(answer));
  };
  version->Infer(std::move(request));
  return absl::OkStatus();
}

}  // namespace

void Infer(const VersionTable& served, Runner& runner, Inference inference, std::function<void(absl::Status)> done) {
  if (absl::Status status = Start(served, runner, std::move(inference), done); !status.ok()) done(std::move(status));
}

}  // namespace gluond::server
