// The report of a program as clients see it.

#ifndef SERVER_CODEC_PROGRAM_CODEC_H_
#define SERVER_CODEC_PROGRAM_CODEC_H_

#include "absl/status/statusor.h"
#include "engine/compile/program_report.h"
#include "engine/nn/model_report.h"
#include "gluond/v1/explain.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: a name that comes twice, or no such shape.
absl::StatusOr<InputShapes> InputShapesFromProto(const google::protobuf::RepeatedPtrField<v1::ExplainRequest::Input>& inputs);

void ProgramTensorToProto(const ProgramReport::Tensor& tensor, v1::ProgramTensor* proto);
// All but name, version, device, mode and inputs.
void ProgramToProto(const ProgramReport& report, v1::ExplainResponse* proto);

}  // namespace gluond::server

#endif  // SERVER_CODEC_PROGRAM_CODEC_H_
