#include "client/cli/load_shot.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/connect.h"
#include "gluond/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/support/proto_buffer_writer.h"
#include "proto/inference/grpc_service.grpc.pb.h"

namespace gluond::cli {
namespace {

constexpr int64_t kMostBytes = 1 << 30;

absl::StatusOr<Shot> ShotOf(const std::string& path, const google::protobuf::Message& request) {
  Shot shot{path, {}};
  bool own_buffer = false;
  const grpc::Status status =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(request, &shot.message, &own_buffer);
  if (!status.ok()) return absl::InternalError(status.error_message());
  return shot;
}

// Random values of a type, as the bits of their little-endian bytes.
struct Datatype {
  const char* name;
  int bytes;
  uint64_t most;  // The largest integer; 0: it is no integer.
  uint64_t (*real)(double uniform);
};
// Half types get 0.5 to 1, whose bits differ in the mantissa alone; wider ones 0 to 1.
constexpr Datatype kDatatypes[] = {
    {"BOOL", 1, 1, nullptr},
    {"INT8", 1, INT8_MAX, nullptr},
    {"UINT8", 1, UINT8_MAX, nullptr},
    {"INT16", 2, INT16_MAX, nullptr},
    {"UINT16", 2, UINT16_MAX, nullptr},
    {"INT32", 4, INT32_MAX, nullptr},
    {"UINT32", 4, UINT32_MAX, nullptr},
    {"INT64", 8, INT64_MAX, nullptr},
    {"UINT64", 8, INT64_MAX, nullptr},
    {"FP16", 2, 0, [](double u) { return 0x3800 | static_cast<uint64_t>(u * 1024); }},
    {"BF16", 2, 0, [](double u) { return 0x3f00 | static_cast<uint64_t>(u * 128); }},
    {"FP32", 4, 0, [](double u) { return uint64_t{std::bit_cast<uint32_t>(static_cast<float>(u))}; }},
    {"FP64", 8, 0, [](double u) { return std::bit_cast<uint64_t>(u); }},
};

std::string RandomValues(const Datatype& type, int64_t count, int64_t max_integer, std::mt19937_64& random) {
  std::uniform_int_distribution<uint64_t> integer(0, std::min(type.most, static_cast<uint64_t>(max_integer)));
  std::uniform_real_distribution<double> real;
  std::string bytes;
  bytes.reserve(static_cast<size_t>(count * type.bytes));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = type.real == nullptr ? integer(random) : type.real(real(random));
    for (int byte = 0; byte < type.bytes; ++byte) bytes.push_back(static_cast<char>(bits >> 8 * byte & 0xff));
  }
  return bytes;
}

absl::StatusOr<std::string> JsonText(const std::string& option) {
  if (!absl::StartsWith(option, "@")) return option;
  std::ifstream file(option.substr(1));
  if (!file) return absl::NotFoundError(absl::StrCat(option.substr(1), ": cannot be read."));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<inference::ModelInferRequest> RandomRequest(const inference::ModelMetadataResponse& metadata,
                                                           const InferenceShot& options) {
  std::mt19937_64 random(static_cast<uint64_t>(options.seed));
  inference::ModelInferRequest request;
  request.set_model_name(options.model);
  request.set_model_version(options.version);
  for (const auto& described : metadata.inputs()) {
    const auto* const type = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                          [&](const Datatype& each) { return described.datatype() == each.name; });
    if (type == std::end(kDatatypes)) {
      return absl::InvalidArgumentError(absl::StrCat("input '", described.name(), "' takes ", described.datatype(),
                                                     ", of which there are no random values here."));
    }
    auto* const input = request.add_inputs();
    input->set_name(described.name());
    input->set_datatype(described.datatype());
    int64_t count = 1;
    for (const int64_t axis : described.shape()) {
      input->add_shape(axis < 0 ? options.batch : axis);
      if (__builtin_mul_overflow(count, *input->shape().rbegin(), &count) || count > kMostBytes / type->bytes) {
        return absl::InvalidArgumentError(absl::StrCat("with --batch=", options.batch, " input '", described.name(),
                                                       "' has more than 1 GiB; want a smaller one."));
      }
    }
    request.add_raw_input_contents(RandomValues(*type, count, options.max_integer, random));
  }
  return request;
}

absl::StatusOr<Shot> InferenceOf(const client::Client& client, const InferenceShot& options, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  inference::ModelMetadataRequest question;
  question.set_name(options.model);
  question.set_version(options.version);
  inference::ModelMetadataResponse metadata;
  const grpc::Status status =
      inference::GRPCInferenceService::NewStub(client::ChannelOf(client))->ModelMetadata(&context, question, &metadata);
  if (!status.ok()) return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  GLUOND_ASSIGN_OR_RETURN(const inference::ModelInferRequest request, RandomRequest(metadata, options));
  return ShotOf("/inference.GRPCInferenceService/ModelInfer", request);
}

absl::StatusOr<Shot> CallOf(const std::string& method, const std::string& json) {
  // "pkg.Service/Method" is how grpcurl writes it; the pool wants a dot.
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* found = pool->FindMethodByName(absl::StrReplaceAll(method, {{"/", "."}}));
  if (found == nullptr || found->client_streaming() || found->server_streaming()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", method, "' is no unary method of gluond.v1; write gluond.v1.ModelService/Predict."));
  }
  GLUOND_ASSIGN_OR_RETURN(const std::string text, JsonText(json));
  const std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(found->input_type())->New());
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, request.get());
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--request is no ", found->input_type()->name(), " in JSON: ", std::string(parsed.message())));
  }
  return ShotOf(absl::StrCat("/", found->service()->full_name(), "/", found->name()), *request);
}

}  // namespace gluond::cli
