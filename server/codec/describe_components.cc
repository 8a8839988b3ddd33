#include "server/codec/describe_components.h"

#include <string>

#include "engine/core/status_macros.h"
#include "engine/nn/block.h"
#include "engine/nn/initializer.h"
#include "engine/nn/loss.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "server/codec/describe_operator.h"

namespace gluond::server {
namespace {

using Request = v1::ListComponentsRequest;

class Listing {
 public:
  Listing(Request::Family wanted, v1::ListComponentsResponse* response) : wanted_(wanted), response_(response) {}

  template <class C>
  void Add(Request::Family family, const C& catalog) {
    if (wanted_ != Request::ALL && wanted_ != family) return;
    for (const auto& entry : catalog.entries()) {
      v1::ListComponentsResponse::Entry* proto = response_->add_components();
      proto->set_family(family);
      proto->set_name(entry.name);
      for (const std::string& alias : entry.aliases) proto->add_aliases(alias);
      proto->set_description(entry.description);
      for (const ArgumentDoc& doc : entry.attributes) DescribeParameter(doc, proto->add_arguments());
    }
  }

 private:
  const Request::Family wanted_;
  v1::ListComponentsResponse* const response_;
};

}  // namespace

absl::Status DescribeComponents(Request::Family family, v1::ListComponentsResponse* response) {
  if (!Request::Family_IsValid(family)) {
    return Invalid("family is ", static_cast<int>(family), "; want ", Request::ALL, " (all) to ", Request::Family_MAX);
  }
  Listing listing(family, response);
  listing.Add(Request::OPTIMIZER, Optimizers());
  listing.Add(Request::LOSS, Losses());
  listing.Add(Request::INITIALIZER, Initializers());
  listing.Add(Request::METRIC, Metrics());
  listing.Add(Request::LR_SCHEDULE, LrSchedules());
  listing.Add(Request::BLOCK, Blocks());
  return absl::OkStatus();
}

}  // namespace gluond::server
