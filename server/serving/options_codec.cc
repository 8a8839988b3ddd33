#include "server/serving/options_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/start/limits.h"

namespace gluond::server {
namespace {

constexpr int64_t kLargestBatch = 65'536;
constexpr int64_t kMostPriorities = 1000;
constexpr int64_t kLongestWaitUs = 3'600'000'000;

absl::StatusOr<int64_t> InRange(const std::string& field, int64_t value, int64_t least, int64_t most) {
  RETURN_IF_ERROR(InField(absl::StrCat("options.", field), CheckInRange(field, value, least, most)));
  return value;
}

absl::StatusOr<std::chrono::microseconds> WaitInRange(const std::string& field, uint64_t us) {
  const auto countable = static_cast<int64_t>(std::min<uint64_t>(us, INT64_MAX));
  ASSIGN_OR_RETURN(const int64_t value, InRange(field, countable, 0, kLongestWaitUs));
  return std::chrono::microseconds(value);
}

}  // namespace

absl::StatusOr<ServingOptions> FromProto(const v1::ServingOptions& proto) {
  ServingOptions options;
  ASSIGN_OR_RETURN(options.max_batch_size, InRange("max_batch_size", proto.max_batch_size(), 0, kLargestBatch));
  for (const int64_t size : proto.preferred_batch_sizes()) {
    ASSIGN_OR_RETURN(options.preferred_batch_sizes.emplace_back(),
                     InRange("preferred_batch_sizes", size, 1, options.max_batch_size));
  }
  if (proto.preferred_batch_sizes_size() > 64) {
    return Invalid("preferred_batch_sizes has more than 64 entries");
  }
  ASSIGN_OR_RETURN(options.max_queue_delay, WaitInRange("max_queue_delay_us", proto.max_queue_delay_us()));
  ASSIGN_OR_RETURN(options.max_queue_size, InRange("max_queue_size", proto.max_queue_size(), 0, INT32_MAX));
  ASSIGN_OR_RETURN(options.priority_levels, InRange("priority_levels", proto.priority_levels(), 0, kMostPriorities));
  const int64_t priority = proto.default_priority() == 0 ? options.priority_levels : proto.default_priority();
  ASSIGN_OR_RETURN(options.default_priority, InRange("default_priority", priority, 0, options.priority_levels));
  ASSIGN_OR_RETURN(options.default_timeout, WaitInRange("default_timeout_us", proto.default_timeout_us()));
  options.allow_timeout_override = proto.allow_timeout_override();
  options.delay_late_requests = proto.delay_late_requests();
  ASSIGN_OR_RETURN(options.instances, InRange("instances", proto.instances() == 0 ? 1 : proto.instances(), 1, 64));
  options.device = proto.device();
  options.batch_invariant = proto.batch_invariant();
  if (options.batch_invariant && options.max_batch_size == 0) {
    return InField("options.batch_invariant", Invalid("batch_invariant needs a max_batch_size above 0"));
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
