// gluond load: any unary method, one request, many times.

#include <atomic>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/latencies.h"
#include "client/cpp/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/proto_buffer_writer.h"

namespace gluond::cli {
namespace {

struct LoadOptions {
  std::string method = "gluond.v1.OperatorService/Invoke";
  std::string request = R"({"op": "_copy", "inputs": [{"fill": {}}]})";
  int64_t concurrency = 8;
  double rate = 0;
  absl::Duration duration = absl::Seconds(10);
};

// The contents of every call: the method's path and the request's bytes.
struct Shot {
  std::string path;
  grpc::ByteBuffer request;
};

absl::StatusOr<std::string> JsonText(const std::string& option) {
  if (!absl::StartsWith(option, "@")) return option;
  std::ifstream file(option.substr(1));
  if (!file) return absl::NotFoundError(absl::StrCat(option.substr(1), ": cannot be read."));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<Shot> Prepare(const LoadOptions& options) {
  // "pkg.Service/Method" is how grpcurl writes it; the pool wants a dot.
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* method = pool->FindMethodByName(absl::StrReplaceAll(options.method, {{"/", "."}}));
  if (method == nullptr || method->client_streaming() || method->server_streaming()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.method,
                     "' is no unary method of gluond.v1; write gluond.v1.ModelService/Predict."));
  }
  CLIENT_ASSIGN_OR_RETURN(const std::string json, JsonText(options.request));
  std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(method->input_type())
          ->New());
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, request.get());
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--request is no ", method->input_type()->name(),
                                                   " in JSON: ", std::string(parsed.message())));
  }
  Shot shot{absl::StrCat("/", method->service()->full_name(), "/", method->name()), {}};
  bool own_buffer = false;
  const grpc::Status status =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(
          *request, &shot.request, &own_buffer);
  if (!status.ok()) return absl::InternalError(status.error_message());
  return shot;
}

absl::Status Fire(grpc::GenericStub* stub, const Shot& shot, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub->UnaryCall(&context, shot.path, {}, &shot.request, &response,
                  [&](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// With a rate, call number i is due at start + i / rate, and its latency counts from then: a server
// that stalls is not excused the calls that could not be made meanwhile.
Latencies Worker(grpc::GenericStub* stub, const Shot& shot, const LoadOptions& options,
                 absl::Duration timeout, absl::Time start, std::atomic<int64_t>* ticket) {
  Latencies latencies;
  while (true) {
    absl::Time due = absl::Now();
    if (options.rate > 0) {
      due = start + absl::Seconds(static_cast<double>(ticket->fetch_add(1)) / options.rate);
    }
    if (due >= start + options.duration) return latencies;
    std::this_thread::sleep_until(absl::ToChronoTime(due));
    const absl::Status status = Fire(stub, shot, timeout);
    latencies.Add(absl::Now() - due, status);
  }
}

absl::Status Run(const LoadOptions& options, const ServerOptions& server) {
  if (options.concurrency < 1 || options.concurrency > 1000 || options.rate < 0 ||
      options.duration <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--concurrency must be 1 to 1000, --rate not negative, --duration positive.");
  }
  CLIENT_ASSIGN_OR_RETURN(const Shot shot, Prepare(options));
  CLIENT_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  grpc::GenericStub stub(client.channel());
  CLIENT_RETURN_IF_ERROR(
      Fire(&stub, shot, server.timeout));  // A request that cannot work stops here.

  std::atomic<int64_t> ticket = 0;
  const absl::Time start = absl::Now();
  std::vector<std::future<Latencies>> workers;
  for (int64_t i = 0; i < options.concurrency; ++i) {
    workers.push_back(std::async(std::launch::async, Worker, &stub, std::cref(shot),
                                 std::cref(options), server.timeout, start, &ticket));
  }
  Latencies all;
  for (auto& worker : workers) all.Merge(worker.get());
  std::cout << all.Report(absl::Now() - start);
  return absl::OkStatus();
}

}  // namespace

absl::Status Load(const Arguments& arguments) {
  LoadOptions load;
  ServerOptions server;
  Options options(
      "gluond load",
      "Calls one method of a server again and again, and tells how long the answers took and "
      "which errors came. All calls share one connection.");
  options.AddExample("gluond load --concurrency=32");
  options.AddExample(
      "gluond load --rate=200 --method=gluond.v1.ModelService/Predict --request=@predict.json");
  options.Add("method", &load.method,
              "Any unary method of gluond.v1, as gluond.v1.ModelService/Predict.");
  options.Add("request", &load.request, "The request in JSON, or @FILE that holds it.");
  options.Add("concurrency", &load.concurrency, "Calls under way at once, at most.");
  options.Add(
      "rate", &load.rate,
      "Calls per second; their latency counts from when they were due. 0: each begins when one "
      "before it ends.");
  options.Add("duration", &load.duration, "How long calls are begun.");
  server.AddTo(&options);
  CLIENT_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  return go_on ? Run(load, server) : absl::OkStatus();
}

}  // namespace gluond::cli
