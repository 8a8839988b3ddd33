#include "server/rpc/dispatch.h"

#include "server/wire/wire_message.h"

namespace gluond::server {

static_assert(Dispatch::kLargeMessage <= static_cast<int64_t>(kLongText),
              "a message that waits for its turn to be parsed does so on a worker");

Weight Dispatch::OfCall(Weight method, int64_t bytes, bool takes_turn) {
  const bool is_light = method == Weight::kLight || method == Weight::kAlways;
  return is_light && (takes_turn || OfMessage(bytes) == Weight::kHeavy) ? Weight::kHeavy : method;
}

std::vector<Dispatch::Queue> Dispatch::queues() {
  std::vector<Queue> all = {{"worker", workers_.load()}, {"disk", disk_.load()}};
  for (const auto& [name, load] : others_) all.push_back({name, load()});
  return all;
}

}  // namespace gluond::server
