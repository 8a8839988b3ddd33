// The descriptions of a model and of its trainer for clients.

#ifndef SERVER_HOSTED_DESCRIBE_MODEL_H_
#define SERVER_HOSTED_DESCRIBE_MODEL_H_

#include "engine/nn/parameter.h"
#include "gluond/v1/graph.pb.h"
#include "gluond/v1/model.pb.h"
#include "gluond/v1/trainer.pb.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

void DescribeParameter(const Parameter& parameter, v1::Variable* proto);
void DescribeModel(const HostedModel& hosted, bool parameters, bool graph, v1::Model* proto);
void DescribeTrainer(const HostedModel& hosted, const Trainer& trainer, v1::Trainer* proto);

}  // namespace gluond::server

#endif  // SERVER_HOSTED_DESCRIBE_MODEL_H_
