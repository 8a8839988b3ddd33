#include "server/serving/options_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr int64_t kLargestBatch = 65'536;
constexpr int64_t kMostPriorities = 1000;
constexpr int64_t kLongestWaitUs = 3'600'000'000;

absl::Status CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InField(absl::StrCat("options.", field), InvalidArgument(field, " is ", value, "; want ", least, " to ", most));
}

}  // namespace

absl::StatusOr<ServingOptions> FromProto(const v1::ServingOptions& proto) {
  ServingOptions options;
  options.max_batch_size = proto.max_batch_size();
  RETURN_IF_ERROR(CheckRange("max_batch_size", options.max_batch_size, 0, kLargestBatch));
  for (const int64_t size : proto.preferred_batch_sizes()) {
    RETURN_IF_ERROR(CheckRange("preferred_batch_sizes", size, 1, options.max_batch_size));
    options.preferred_batch_sizes.push_back(size);
  }
  if (proto.preferred_batch_sizes_size() > 64) {
    return absl::InvalidArgumentError("preferred_batch_sizes has more than 64 entries");
  }
  const auto delay = static_cast<int64_t>(std::min<uint64_t>(proto.max_queue_delay_us(), INT64_MAX));
  RETURN_IF_ERROR(CheckRange("max_queue_delay_us", delay, 0, kLongestWaitUs));
  options.max_queue_delay = std::chrono::microseconds(delay);
  options.max_queue_size = proto.max_queue_size();
  RETURN_IF_ERROR(CheckRange("max_queue_size", options.max_queue_size, 0, INT32_MAX));
  options.priority_levels = proto.priority_levels();
  RETURN_IF_ERROR(CheckRange("priority_levels", options.priority_levels, 0, kMostPriorities));
  options.default_priority = proto.default_priority() == 0 ? options.priority_levels : proto.default_priority();
  RETURN_IF_ERROR(CheckRange("default_priority", options.default_priority, 0, options.priority_levels));
  const auto timeout = static_cast<int64_t>(std::min<uint64_t>(proto.default_timeout_us(), INT64_MAX));
  RETURN_IF_ERROR(CheckRange("default_timeout_us", timeout, 0, kLongestWaitUs));
  options.default_timeout = std::chrono::microseconds(timeout);
  options.allow_timeout_override = proto.allow_timeout_override();
  options.delay_late_requests = proto.delay_late_requests();
  options.instances = proto.instances() == 0 ? 1 : proto.instances();
  RETURN_IF_ERROR(CheckRange("instances", options.instances, 1, 64));
  options.device = proto.device();
  options.batch_invariant = proto.batch_invariant();
  if (options.batch_invariant && options.max_batch_size == 0) {
    return InField("options.batch_invariant", absl::InvalidArgumentError("batch_invariant needs a max_batch_size above 0"));
  }
  return options;
}

void ToProto(const ServingOptions& options, v1::ServingOptions* proto) {
  proto->set_max_batch_size(static_cast<int32_t>(options.max_batch_size));
  for (const int64_t size : options.preferred_batch_sizes) proto->add_preferred_batch_sizes(static_cast<int32_t>(size));
  proto->set_max_queue_delay_us(static_cast<uint64_t>(options.max_queue_delay.count()));
  proto->set_max_queue_size(static_cast<int32_t>(options.max_queue_size));
  proto->set_priority_levels(static_cast<int32_t>(options.priority_levels));
  proto->set_default_priority(static_cast<int32_t>(options.default_priority));
  proto->set_default_timeout_us(static_cast<uint64_t>(options.default_timeout.count()));
  proto->set_allow_timeout_override(options.allow_timeout_override);
  proto->set_delay_late_requests(options.delay_late_requests);
  proto->set_instances(static_cast<int32_t>(options.instances));
  proto->set_device(options.device);
  proto->set_batch_invariant(options.batch_invariant);
}

}  // namespace gluond::server
