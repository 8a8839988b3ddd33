#include "client/cli/load_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/table.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace gluond::cli {
namespace {

using google::protobuf::Struct;

constexpr double kPercentiles[] = {50, 90, 95, 99, 99.9, 100};

std::string Milliseconds(absl::Duration duration) { return absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(duration)); }

void Put(const std::string& name, double value, Struct* to) { (*to->mutable_fields())[name].set_number_value(value); }

Struct* PutObject(const std::string& name, Struct* to) { return (*to->mutable_fields())[name].mutable_struct_value(); }

void Put(const std::string& name, const Latencies& latencies, Struct* to) {
  Struct* const object = PutObject(name, to);
  for (const double percent : kPercentiles) {
    Put(percent == 100 ? "max" : absl::StrCat("p", percent), absl::ToDoubleMilliseconds(latencies.Percentile(percent)), object);
  }
}

}  // namespace

void LoadReport::Answered(absl::Duration latency, const absl::Status& status) {
  if (status.ok()) return latencies_.Add(latency);
  Failure& failure = failures_[status.code()];
  if (failure.count == 0) failure.message = std::string(status.message());
  ++failure.count;
  ++failed_;
}

double LoadReport::throughput() const {
  return elapsed_ > absl::ZeroDuration() ? static_cast<double>(succeeded()) / absl::ToDoubleSeconds(elapsed_) : 0;
}

std::string LoadReport::Text() const {
  Table rows = {{"requests", absl::StrFormat("%d in %.1f s", requests(), absl::ToDoubleSeconds(elapsed_))},
                {"succeeded", absl::StrFormat("%d, %.1f per second", succeeded(), throughput())},
                {"failed", absl::StrCat(failed_)}};
  for (const auto& [code, failure] : failures_) {
    rows.push_back({absl::StrCat("  ", absl::StatusCodeToString(code)), absl::StrCat(failure.count, ", first: ", failure.message)});
  }
  if (not_sent_ > 0) rows.push_back({"not sent", absl::StrCat(not_sent_)});
  for (const double percent : kPercentiles) {
    rows.push_back({percent == 100 ? "longest" : absl::StrCat("p", percent), Milliseconds(latencies_.Percentile(percent))});
  }
  if (lateness_.size() > 0) {
    rows.push_back({"sent late by",
                    absl::StrCat("p50 ", Milliseconds(lateness_.Percentile(50)), ", p99 ", Milliseconds(lateness_.Percentile(99)),
                                 ", longest ", Milliseconds(lateness_.Percentile(100)))});
  }
  return Aligned(rows);
}

std::string LoadReport::Json() const {
  Struct report;
  Put("requests", static_cast<double>(requests()), &report);
  Put("succeeded", static_cast<double>(succeeded()), &report);
  Put("failed", static_cast<double>(failed_), &report);
  Put("not_sent", static_cast<double>(not_sent_), &report);
  Put("seconds", absl::ToDoubleSeconds(elapsed_), &report);
  Put("throughput", throughput(), &report);
  Put("latency_ms", latencies_, &report);
  if (lateness_.size() > 0) Put("lateness_ms", lateness_, &report);
  Struct* const errors = PutObject("errors", &report);
  for (const auto& [code, failure] : failures_) {
    Struct* const error = PutObject(absl::StatusCodeToString(code), errors);
    Put("count", static_cast<double>(failure.count), error);
    (*error->mutable_fields())["message"].set_string_value(failure.message);
  }
  std::string json;
  // A message that is no UTF-8 would make it fail; those of gRPC are.
  (void)google::protobuf::util::MessageToJsonString(report, &json);
  return json + "\n";
}

}  // namespace gluond::cli
