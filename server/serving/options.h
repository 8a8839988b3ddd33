// ServingOptions: how requests to a version are put together and computed, as gluond.v1.ServingOptions.

#ifndef SERVER_SERVING_OPTIONS_H_
#define SERVER_SERVING_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gluond::server {

struct ServingOptions {
  int64_t max_batch_size = 0;  // In rows. 0: each request is computed alone.
  std::vector<int64_t> preferred_batch_sizes;
  std::chrono::microseconds max_queue_delay{0};
  int64_t max_queue_size = 0;   // 0: --max_requests.
  int64_t priority_levels = 0;  // 0: there are no priorities.
  int64_t default_priority = 0;
  std::chrono::microseconds default_timeout{0};  // 0: none.
  bool allow_timeout_override = false;
  bool delay_late_requests = false;
  int64_t instances = 1;
  std::string device;  // A name of Devices.
  bool batch_invariant = false;
  std::map<std::string, std::string> operator_owners;  // They alone compute its shared operators.

  bool operator==(const ServingOptions&) const = default;
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_OPTIONS_H_
