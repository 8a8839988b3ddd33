// gluond health: for people, and as a container's probe.

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"
#include "client/cpp/channel.h"
#include "gluond/status_macros.h"
#include "proto/health/v1/health.grpc.pb.h"

namespace gluond::cli {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr absl::Duration kAgain = absl::Milliseconds(100);

absl::Status Ask(const ServerOptions& server, const std::string& service) {
  GLUOND_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, client::NewChannel(server.address, server.access));
  // Without a wait there is one try, which has a call's time.
  const bool waits = server.wait > absl::ZeroDuration();
  const absl::Duration patience = waits ? std::min(server.wait, server.timeout) : server.timeout;
  const absl::Time end = absl::Now() + patience;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  grpc::Status status;
  grpc::Status why(grpc::StatusCode::UNAVAILABLE, "nothing that speaks gRPC has answered");
  const auto has_answered = [&] {
    return !client::IsUnreachable(status) && status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
  };
  do {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(end));
    status = grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &response);
    if (has_answered()) break;
    // The reason is that of the last try that had an end of its own.
    if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) why = status;
    absl::SleepFor(std::min(kAgain, end - absl::Now()));
  } while (waits && absl::Now() < end);
  if (!has_answered()) {
    return absl::UnavailableError(absl::StrCat("no answer from ", server.address,
                                               waits ? absl::StrCat(" within ", absl::FormatDuration(patience)) : "", ": ",
                                               why.error_message(), ". ", client::WayOut(why)));
  }
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat(server.address, ": ", status.error_message()));
  }
  std::cout << HealthCheckResponse::ServingStatus_Name(response.status()) << "\n";
  if (response.status() == HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(server.address, " does not serve now."));
}

absl::Status DescribeServer(const ServerOptions& server) {
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  GLUOND_ASSIGN_OR_RETURN(const client::GetServerInfoResponse info, client.GetServerInfo());
  Table rows = {{"version", info.version},
                {"uptime", absl::FormatDuration(absl::Trunc(info.uptime, absl::Seconds(1)))},
                {"models", absl::StrCat(info.models, ", ", Bytes(info.tensor_bytes), " of tensors")},
                {"store", info.has_store ? "yes" : "none (--store_dir names one)"}};
  for (const client::DeviceDescription& device : info.devices) {
    rows.push_back({"device", absl::StrCat(device.name, ": ", device.description, ", ", Bytes(device.memory_bytes), ", of which ",
                                           Bytes(device.memory_used_bytes), " are used; tensors ", Bytes(device.tensor_bytes),
                                           ", at most ", Bytes(device.memory_peak_bytes))});
  }
  std::cout << Aligned(rows);
  return absl::OkStatus();
}

}  // namespace

absl::Status Health(const Arguments& arguments) {
  std::string service;
  bool quiet = false;
  ServerOptions server;
  Options options("gluond health",
                  "Asks a server whether it serves, through the standard grpc.health.v1. The exit status "
                  "is 0 where it does, else 1; what else it says of itself changes nothing of that.");
  options.AddExample("gluond health --address=127.0.0.1:50051");
  options.AddExample("gluond health --quiet --service=gluond.v1.TrainingService");
  options.Add("service", &service, "Asks for one service, as gluond.v1.TrainingService. Default: the server as a whole.");
  options.Add("quiet", &quiet, "Leaves out version, devices and memory.");
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();

  GLUOND_RETURN_IF_ERROR(Ask(server, service));
  if (quiet) return absl::OkStatus();
  // The server serves, even if it is too busy to describe itself, or forbids it.
  if (const absl::Status status = DescribeServer(server); !status.ok()) {
    std::cout << "no more is known of it: " << status.message() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace gluond::cli
