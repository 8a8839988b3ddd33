#include "server/hosted/describe_model.h"

#include "engine/nn/initializer.h"
#include "engine/nn/loss.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "server/codec/components.h"
#include "server/codec/definition_codec.h"
#include "server/codec/duration.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

void DescribeVariable(const std::string& name, const Shape& shape, DType dtype, v1::Variable* proto) {
  proto->set_name(name);
  for (const int64_t dim : shape) proto->add_shape(dim);
  if (dtype != DType::kUnknown) proto->set_dtype(ToProto(dtype));
}

}  // namespace

void DescribeParameter(const Parameter& parameter, v1::Variable* proto) {
  DescribeVariable(parameter.name, parameter.shape, parameter.dtype, proto);
  proto->set_kind(parameter.auxiliary ? v1::Variable::AUXILIARY : v1::Variable::PARAMETER);
  if (!parameter.initializer.type.empty()) {
    SpecToProto(parameter.initializer, Initializers(), proto->mutable_initializer());
  }
  proto->set_lr_mult(parameter.lr_mult);
  proto->set_wd_mult(parameter.wd_mult);
  proto->set_grad_req(parameter.grad_req == GradReq::kAdd     ? v1::Variable::ADD
                      : parameter.grad_req == GradReq::kWrite ? v1::Variable::WRITE
                                                              : v1::Variable::NULL_);
  proto->set_initialized(parameter.initialized);
}

void DescribeModel(const HostedModel& hosted, bool parameters, bool graph, v1::Model* proto) {
  const Model& model = hosted.model();
  proto->set_name(model.name());
  proto->set_device(hosted.place().device.ToString());
  for (const ModelInput& input : model.inputs()) {
    v1::Variable* variable = proto->add_inputs();
    DescribeVariable(input.name, input.shape, input.dtype, variable);
    variable->set_kind(v1::Variable::INPUT);
  }
  for (const ModelOutput& output : model.outputs()) {
    DescribeVariable(output.name, output.signature.shape, output.signature.dtype, proto->add_outputs());
  }
  int64_t elements = 0;
  for (const Parameter& parameter : model.parameters().List()) {
    if (parameters) DescribeParameter(parameter, proto->add_parameters());
    if (!parameter.auxiliary && parameter.shape.known()) elements += parameter.shape.Size();
  }
  proto->set_node_count(CountOperators(model.definition()));
  proto->set_parameter_elements(elements);
  proto->set_tensor_bytes(hosted.tensor_bytes());
  proto->set_version(hosted.version());
  const std::shared_ptr<Trainer> trainer = hosted.trainer();
  proto->set_has_trainer(trainer != nullptr);
  proto->set_step(trainer == nullptr ? 0 : trainer->step());
  SetTime(hosted.created(), proto->mutable_created());
  if (hosted.virtual_shards().has_value()) {
    proto->mutable_placement()->set_group(true);
    proto->mutable_placement()->set_virtual_shards(*hosted.virtual_shards());
  }
  if (graph) GraphToProto(model.definition(), proto->mutable_graph());
}

void DescribeTrainer(const HostedModel& hosted, const Trainer& trainer, v1::Trainer* proto) {
  const TrainerOptions& options = trainer.options();
  const std::string& first = hosted.model().outputs()[0].name;
  const std::string& prediction = options.prediction.empty() ? first : options.prediction;
  proto->set_model(hosted.model().name());
  if (options.loss.type.empty()) {
    proto->set_loss_output(prediction);
  } else {
    SpecToProto(options.loss, Losses(), proto->mutable_loss());
  }
  proto->set_prediction(prediction);
  SpecToProto(options.optimizer, Optimizers(), proto->mutable_optimizer());
  if (!options.lr_schedule.type.empty()) {
    SpecToProto(options.lr_schedule, LrSchedules(), proto->mutable_lr_scheduler());
  }
  for (const Spec& metric : options.metrics) SpecToProto(metric, Metrics(), proto->add_metrics());
  proto->set_step(trainer.step());
  proto->set_learning_rate(trainer.learning_rate());
}

}  // namespace gluond::server
