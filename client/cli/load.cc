// gluond load: one request of a served model, or of any unary method, many times.

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/load_run.h"
#include "client/cli/load_shot.h"
#include "client/cli/progress.h"
#include "client/cpp/connect.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

// The default method's default request: an operator that copies a number.
constexpr char kCopy[] = R"({"op": "_copy", "inputs": [{"fill": {}}]})";

struct LoadOptions {
  InferenceShot inference;
  std::string method;
  std::string request;
  Pace pace{.concurrency = 0};
  int64_t timeout_ms = 0;
  bool json = false;
};

absl::Status Check(const LoadOptions& options) {
  const auto wants = [](absl::string_view sentence) { return absl::InvalidArgumentError(sentence); };
  const Pace& pace = options.pace;
  if (!options.inference.model.empty() && !options.method.empty()) {
    return wants("a MODEL is asked for inferences, --method names any other call; want one of them.");
  }
  if (options.inference.model.empty() && !options.inference.version.empty()) {
    return wants("--version is a MODEL's; `gluond versions` lists them.");
  }
  if (pace.rate != 0 && pace.concurrency != 0) {
    return wants("--rate sends requests when they are due, --concurrency when others are answered; want one of them.");
  }
  if (!(pace.rate >= 0 && pace.rate <= 1e6)) return wants("--rate must be 0 to 1000000 requests per second.");
  if (pace.concurrency < 0 || pace.concurrency > 100000) return wants("--concurrency must be 1 to 100000.");
  if (pace.most_under_way < 1) return wants("--max_in_flight must be 1 or more.");
  if (pace.duration <= absl::ZeroDuration() || pace.duration > absl::Hours(24)) {
    return wants("--duration must be more than 0s and at most 24h.");
  }
  if (options.inference.batch < 1) return wants("--batch must be 1 or more.");
  if (options.inference.max_integer < 0) return wants("--max_integer must be 0 or more.");
  if (options.timeout_ms < 0) return wants("--timeout_ms must not be negative.");
  return absl::OkStatus();
}

absl::Status Run(LoadOptions options, const ServerOptions& server) {
  GLUOND_RETURN_IF_ERROR(Check(options));
  Pace& pace = options.pace;
  if (pace.concurrency == 0) pace.concurrency = 8;
  pace.timeout = options.timeout_ms > 0 ? absl::Milliseconds(options.timeout_ms) : server.timeout;
  options.inference.seed = pace.seed;
  if (options.request.empty()) options.request = options.method.empty() ? kCopy : "{}";
  if (options.method.empty()) options.method = "gluond.v1.OperatorService/Invoke";
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  GLUOND_ASSIGN_OR_RETURN(const Shot shot, options.inference.model.empty()
                                               ? CallOf(options.method, options.request)
                                               : InferenceOf(client, options.inference, server.timeout));
  grpc::GenericStub stub(client::ChannelOf(client));
  // A request that cannot work stops here.
  GLUOND_RETURN_IF_ERROR(Fire(stub, shot, server.timeout));

  const bool draws = isatty(STDOUT_FILENO) == 1 && !options.json;
  const LoadReport report = RunLoad(stub, shot, pace, [&](const LoadState& state) {
    if (!draws) return;
    std::cout << absl::StrFormat("\r[%s] %3.0f%%  %d answers  %d errors  %d under way\x1b[K", Bar(state.done), 100 * state.done,
                                 state.succeeded, state.failed, state.under_way)
              << std::flush;
  });
  std::cout << (draws ? "\r\x1b[K" : "") << (options.json ? report.Json() : report.Text());
  if (report.failed() == 0) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(report.failed(), " of ", report.succeeded() + report.failed(), " requests failed; the report says how."));
}

}  // namespace

absl::Status Load(const Arguments& arguments) {
  LoadOptions load;
  ServerOptions server;
  Options options("gluond load",
                  "Asks a served model for inferences of random inputs again and again, and tells how long the answers took "
                  "and which errors came. Without a MODEL it calls any method. All requests share one connection; the "
                  "first one is not counted. The exit status is 0 where all went well.");
  options.AddExample("gluond load lenet --rate=500 --duration=30s");
  options.AddExample("gluond load lenet --version=canary --concurrency=32 --batch=4 --json");
  options.AddExample("gluond load --rate=200 --method=gluond.v1.ModelService/Predict --request=@predict.json");
  options.AddPositional("MODEL", &load.inference.model, "The name that is asked for; `gluond versions` lists them.");
  options.Add("version", &load.inference.version, "A version's number or label. Default: the server chooses.");
  options.Add("rate", &load.pace.rate,
              "Requests per second, at random moments whatever becomes of others (an open loop); their latency counts from "
              "when they were due. 0: --concurrency.");
  options.Add("concurrency", &load.pace.concurrency,
              "Callers, each of which sends its next request when the last one is answered (a closed loop). 0: 8 of them.");
  options.Add("duration", &load.pace.duration, "How long requests are begun.");
  options.Add("batch", &load.inference.batch, "The size of the inputs' axes that may have any.");
  options.Add("max_integer", &load.inference.max_integer, "Values of integer inputs are 0 to this.");
  options.Add("seed", &load.pace.seed, "Chooses the random moments and values; the same seed gives the same.");
  options.Add("max_in_flight", &load.pace.most_under_way,
              "With --rate: a request that is due while so many are under way counts as not sent.");
  options.Add("timeout_ms", &load.timeout_ms, "A request's deadline in milliseconds. 0: --timeout.");
  options.Add("json", &load.json, "Prints one JSON object.");
  options.Add("method", &load.method,
              "Without a MODEL: any unary method of gluond.v1, as gluond.v1.ModelService/Predict. Default: an operator that "
              "copies a number.");
  options.Add("request", &load.request, "The method's request in JSON, or @FILE that holds it. Default: an empty one.");
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  return go_on ? Run(load, server) : absl::OkStatus();
}

}  // namespace gluond::cli
