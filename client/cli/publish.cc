// gluond publish: makes an immutable version of a model, which the server serves.
// gluond versions: lists the versions, routes requests to them, and retires one.

#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

std::vector<std::string> Words(const std::string& list) { return absl::StrSplit(list, ',', absl::SkipEmpty()); }

void Print(const std::vector<client::ServedVersion>& versions) {
  Table rows = {{"name", "version", "state", "labels", "weight", "from", "batch", "requests", "memory"}};
  for (const client::ServedVersion& version : versions) {
    rows.push_back({version.served, absl::StrCat(version.version), client::ToString(version.state),
                    absl::StrJoin(version.labels, ","), version.weight == 0 ? "" : absl::StrCat(version.weight), version.source,
                    absl::StrCat(version.options.max_batch_size), absl::StrCat(version.requests), Bytes(version.tensor_bytes)});
  }
  std::cout << (versions.empty() ? "no versions; `gluond publish` makes one\n" : Aligned(rows));
}

// "name=number,..."
absl::Status ParseLabels(const std::string& text, client::RouteVersionsRequest* routes) {
  for (const std::string& each : Words(text)) {
    const std::vector<std::string> parts = absl::StrSplit(each, '=');
    int64_t number = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--labels wants LABEL=VERSION,... and got '", each, "'; version 0 takes a label away."));
    }
    routes->labels[parts[0]] = number;
  }
  return absl::OkStatus();
}

// "number:weight,..." or "none".
absl::Status ParseWeights(const std::string& text, client::RouteVersionsRequest* routes) {
  if (text == "none") {
    routes->clear_weights = true;
    return absl::OkStatus();
  }
  for (const std::string& each : Words(text)) {
    const std::vector<std::string> parts = absl::StrSplit(each, ':');
    int64_t number = 0;
    uint32_t weight = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &number) || !absl::SimpleAtoi(parts[1], &weight)) {
      return absl::InvalidArgumentError(absl::StrCat("--weights wants VERSION:WEIGHT,... or `none`, and got '", each, "'."));
    }
    routes->weights[number] = weight;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Publish(const Arguments& arguments) {
  std::string model, served, labels = "stable", device;
  int64_t max_batch_size = 0, max_queue_delay_us = 0, instances = 1;
  ServerOptions server;
  Options options("gluond publish",
                  "Serves a version of a model as it is now, which stays so: training goes on "
                  "meanwhile. Clients ask it by the open inference protocol (KServe's and Triton's).");
  options.AddExample("gluond publish lenet");
  options.AddExample("gluond publish lenet --labels=canary --max_batch_size=32");
  options.AddPositional("MODEL", &model, "The model.");
  options.Add("served", &served, "The name that is asked for. Default: the model's.");
  options.Add("labels", &labels,
              "Labels of the version, with commas between. `stable` is the one that requests without a "
              "version get.");
  options.Add("max_batch_size", &max_batch_size, "Rows of several requests that are computed together. 0: each request alone.");
  options.Add("max_queue_delay_us", &max_queue_delay_us, "A request waits for others so long at most, in microseconds.");
  options.Add("instances", &instances, "Batches that are computed at once.");
  options.Add("device", &device, "Where it computes. Default: where the model is.");
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (model.empty()) {
    return absl::InvalidArgumentError("which MODEL? `gluond models` lists them.");
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const auto& [option, number, most] :
       {std::tuple("--max_batch_size", max_batch_size, kMost), std::tuple("--instances", instances, kMost),
        std::tuple("--max_queue_delay_us", max_queue_delay_us, std::numeric_limits<int64_t>::max())}) {
    if (number < 0 || number > most) {
      return absl::InvalidArgumentError(absl::StrCat(option, " is ", number, "; want 0 to ", most));
    }
  }
  client::ServingOptions serving;
  serving.max_batch_size = static_cast<int32_t>(max_batch_size);
  serving.max_queue_delay_us = static_cast<uint64_t>(max_queue_delay_us);
  serving.instances = static_cast<int32_t>(instances);
  serving.device = device;
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  GLUOND_ASSIGN_OR_RETURN(const client::ServedVersion version, client.GetModel(model).Publish(Words(labels), serving, served));
  std::cout << "published " << model << " as version " << version.version << " of " << version.served << "\n";
  return absl::OkStatus();
}

absl::Status Versions(const Arguments& arguments) {
  std::string name, labels, weights;
  int64_t retire = 0;
  bool json = false;
  ServerOptions server;
  Options options("gluond versions", "Lists published versions, routes requests to them or retires one.");
  options.AddExample("gluond versions");
  options.AddExample("gluond versions lenet --labels=stable=2");
  options.AddExample("gluond versions lenet --weights=2:95,3:5");
  options.AddExample("gluond versions lenet --retire=1");
  options.AddPositional("NAME", &name, "The name that is asked for.");
  options.Add("labels", &labels, "Gives labels to versions: LABEL=VERSION,...; version 0 takes a label away.");
  options.Add("weights", &weights, "Splits the requests that name no version: VERSION:WEIGHT,..., or `none`.");
  options.Add("retire", &retire, "Ends this version for good, when its last request is answered.");
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  client::RouteVersionsRequest routes;
  routes.served = name;
  GLUOND_RETURN_IF_ERROR(ParseLabels(labels, &routes));
  GLUOND_RETURN_IF_ERROR(ParseWeights(weights, &routes));
  const bool changes = !labels.empty() || !weights.empty();
  if (name.empty() && (changes || retire != 0)) {
    return options.Fail("--labels, --weights and --retire want a NAME, and `gluond versions` lists them");
  }
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (changes) {
    GLUOND_RETURN_IF_ERROR(client.RouteVersions(routes).status());
  }
  if (retire != 0) {
    GLUOND_RETURN_IF_ERROR(client.RetireVersion(name, retire));
  }
  GLUOND_ASSIGN_OR_RETURN(const auto versions, client.ListVersions(name));
  if (versions.empty() && !name.empty() && retire == 0) {
    GLUOND_ASSIGN_OR_RETURN(const auto all, client.ListVersions(""));
    std::set<std::string> names;
    for (const client::ServedVersion& version : all) names.insert(version.served);
    return absl::NotFoundError(
        absl::StrCat("no model is served as '", name, "'; served: ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  if (json) {
    PrintJson(versions);
    return absl::OkStatus();
  }
  Print(versions);
  return absl::OkStatus();
}

}  // namespace gluond::cli
