// DescribeOp writes the registry's description of an operator as clients see it.

#ifndef SERVER_CODEC_DESCRIBE_OPERATOR_H_
#define SERVER_CODEC_DESCRIBE_OPERATOR_H_

#include "engine/core/op.h"
#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// Inputs, outputs and parameters only when `full`.
void DescribeOp(const Op& op, bool full, v1::Operator* proto);

// One attribute of an operator or component.
void DescribeParameter(const ArgumentDoc& doc, v1::Operator::Parameter* proto);

}  // namespace gluond::server

#endif  // SERVER_CODEC_DESCRIBE_OPERATOR_H_
