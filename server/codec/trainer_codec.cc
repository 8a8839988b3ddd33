#include "server/codec/trainer_codec.h"

#include <utility>

#include "engine/core/status_macros.h"
#include "engine/nn/loss.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "server/codec/components.h"

namespace gluond::server {

absl::StatusOr<TrainerOptions> TrainerOptionsFromProto(const v1::CreateTrainerRequest& request) {
  TrainerOptions options;
  options.prediction = request.prediction();
  switch (request.objective_case()) {
    case v1::CreateTrainerRequest::kLoss: {
      ASSIGN_OR_RETURN(options.loss, SpecFromProto(request.loss(), Losses()));
      if (options.loss.type.empty()) return Invalid("`loss` needs a name");
      break;
    }
    case v1::CreateTrainerRequest::kLossOutput:
      if (!request.prediction().empty()) return Invalid("want `prediction` with a loss, or `loss_output`, got both");
      options.loss = {};
      options.prediction = request.loss_output();
      break;
    case v1::CreateTrainerRequest::OBJECTIVE_NOT_SET: return Invalid("want `loss` or `loss_output`, got neither");
  }
  if (request.has_optimizer()) {
    ASSIGN_OR_RETURN(Spec optimizer, SpecFromProto(request.optimizer(), Optimizers()));
    if (!optimizer.type.empty()) options.optimizer = std::move(optimizer);
  }
  ASSIGN_OR_RETURN(options.lr_schedule, SpecFromProto(request.lr_scheduler(), LrSchedules()));
  for (const v1::Component& metric : request.metrics()) {
    ASSIGN_OR_RETURN(options.metrics.emplace_back(), SpecFromProto(metric, Metrics()));
  }
  if (request.has_clip_global_norm() && !(request.clip_global_norm() > 0)) {
    return Invalid("clip_global_norm is ", request.clip_global_norm(), "; want a norm above 0, or leave it out for none");
  }
  options.clip_global_norm = request.clip_global_norm();
  options.skip_nonfinite = !request.has_skip_nonfinite() || request.skip_nonfinite();
  options.report_norm = !request.has_report_gradient_norm() || request.report_gradient_norm();
  return options;
}

}  // namespace gluond::server
