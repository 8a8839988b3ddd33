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

using inference::InferParameter;
constexpr char kClassification[] = "classification";
// A request's parameter that asks where its time went.
constexpr char kTiming[] = "timing";
constexpr size_t kLongestId = 1024;

// A parameter that is a number of 0 or more.
absl::StatusOr<uint64_t> Natural(absl::string_view name, const InferParameter& parameter) {
  if (parameter.parameter_choice_case() == InferParameter::kUint64Param) return parameter.uint64_param();
  if (parameter.parameter_choice_case() == InferParameter::kInt64Param && parameter.int64_param() >= 0) {
    return static_cast<uint64_t>(parameter.int64_param());
  }
  return InField(absl::StrCat("parameters[\"", name, "\"]"),
                 absl::InvalidArgumentError(absl::StrCat("the parameter '", name, "' wants a number of 0 or more, in "
                                                         "int64_param or uint64_param")));
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
      if (parameter.parameter_choice_case() != InferParameter::kBoolParam) {
        return InField("parameters[\"timing\"]",
                       absl::InvalidArgumentError("the parameter 'timing' wants true or false, in bool_param"));
      }
      if (parameter.bool_param()) to->times = std::make_shared<InferTimes>();
    } else if (absl::StartsWith(name, "sequence_")) {
      return InField(absl::StrCat("parameters[\"", name, "\"]"),
                     absl::InvalidArgumentError(absl::StrCat("no model here keeps a state between requests; leave '", name,
                                                             "' out")));
    } else if (absl::StartsWith(name, "triton_") && name != "triton_enable_empty_final_response") {
      return InField("parameters", absl::InvalidArgumentError(absl::StrCat("the parameter '", Excerpt(name), "' is Triton's "
                                                                           "own; leave it out")));
    }
  }
  return absl::OkStatus();
}

// How many classes of an output are wanted, by its name.
using Classes = absl::flat_hash_map<std::string, int64_t>;

absl::StatusOr<Classes> ReadOutputs(const inference::ModelInferRequest& request, InferRequest* to) {
  Classes classes;
  absl::flat_hash_set<absl::string_view> seen;
  for (const auto& output : request.outputs()) {
    if (!seen.insert(output.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("output '", Excerpt(output.name()), "' is wanted twice"));
    }
    to->outputs.push_back(output.name());
    for (const auto& [name, parameter] : output.parameters()) {
      if (absl::StartsWith(name, "shared_memory_")) {
        return absl::InvalidArgumentError("this server puts no values into shared memory; take them from the answer");
      }
      if (name != kClassification) continue;
      ASSIGN_OR_RETURN(const uint64_t count, Natural(name, parameter));
      if (count > 0) classes[output.name()] = static_cast<int64_t>(std::min<uint64_t>(count, INT32_MAX));
    }
  }
  return classes;
}

absl::Status Answer(const Inference& inference, const ServedVersion& version, const Classes& classes,
                    const NamedTensors& outputs, int64_t most_bytes) {
  inference::ModelInferResponse& response = inference.response;
  response.set_model_name(inference.request.model_name());
  response.set_model_version(absl::StrCat(version.number()));
  response.set_id(inference.request.id());
  for (const NamedTensor& output : outputs) {
    const auto wanted = classes.find(output.name);
    RETURN_IF_ERROR(wanted == classes.end()
                        ? EncodeInferOutput(output.name, output.tensor, &response, &inference.reply_attachments)
                        : EncodeClasses(output.name, output.tensor, wanted->second, version.options().max_batch_size > 0,
                                        most_bytes, &response));
  }
  return absl::OkStatus();
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

}  // namespace

void Infer(const ServedModels& served, Runner& runner, Inference inference, std::function<void(absl::Status)> done) {
  const inference::ModelInferRequest& message = inference.request;
  if (message.id().size() > kLongestId) {
    return done(InField("id", absl::InvalidArgumentError(absl::StrCat("the id has ", message.id().size(), " bytes, the "
                                                                      "limit is ", kLongestId))));
  }
  absl::StatusOr<ServedVersionPtr> chosen = served.Choose(message.model_name(), message.model_version(), message.id());
  if (!chosen.ok()) return done(chosen.status());
  const ServedVersionPtr version = *std::move(chosen);
  auto request = std::make_shared<InferRequest>();
  const absl::Status read = ReadParameters(message, request.get());
  if (!read.ok()) return done(read);
  absl::StatusOr<Classes> classes = ReadOutputs(message, request.get());
  if (!classes.ok()) return done(classes.status());
  absl::StatusOr<NamedTensors> inputs = DecodeInferInputs(message, inference.attachments, version->model().host_allocator());
  if (!inputs.ok()) return done(inputs.status());
  request->inputs = *std::move(inputs);
  request->cancellation = inference.cancellation;
  request->done = [&runner, version, inference = std::move(inference), classes = *std::move(classes),
                   times = request->times, done = std::move(done)](absl::StatusOr<NamedTensors> outputs) {
    if (!outputs.ok()) return done(outputs.status());
    auto answer = [version, inference, classes, times, done, outputs = *std::move(outputs),
                   most_bytes = runner.limits.max_message_bytes] {
      const InferRequest::Clock::time_point begun = InferRequest::Clock::now();
      const absl::Status status = Answer(inference, *version, classes, outputs, most_bytes);
      if (times != nullptr) Tell(*times, InferRequest::Clock::now() - begun, &inference.response);
      done(status);
    };
    runner.dispatch.Run(classes.empty() ? Weight::kLight : Weight::kHeavy, std::move(answer));
  };
  version->Infer(std::move(request));
}

}  // namespace gluond::server
