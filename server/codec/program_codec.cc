#include "server/codec/program_codec.h"

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

v1::ProgramTensor::Place PlaceToProto(ProgramReport::Place place) {
  switch (place) {
    case ProgramReport::Place::kNowhere: return v1::ProgramTensor::NOWHERE;
    case ProgramReport::Place::kArena: return v1::ProgramTensor::ARENA;
    case ProgramReport::Place::kCaller: return v1::ProgramTensor::CALLER;
    case ProgramReport::Place::kConstant: return v1::ProgramTensor::CONSTANT;
  }
  return v1::ProgramTensor::NOWHERE;
}

v1::ProgramPass::Turn TurnToProto(PassTurn turn) {
  switch (turn) {
    case PassTurn::kRan: return v1::ProgramPass::RAN;
    case PassTurn::kLeftOut: return v1::ProgramPass::LEFT_OUT;
    case PassTurn::kOfOtherPrograms: return v1::ProgramPass::OF_OTHER_PROGRAMS;
  }
  return v1::ProgramPass::RAN;
}

void StepToProto(const ProgramReport::Step& step, v1::ProgramStep* proto) {
  proto->set_name(step.name);
  proto->set_op(step.op);
  for (const ProgramReport::Tensor& input : step.inputs) ProgramTensorToProto(input, proto->add_inputs());
  for (const ProgramReport::Tensor& output : step.outputs) ProgramTensorToProto(output, proto->add_outputs());
  proto->set_flop(step.flop);
  proto->set_has_product(step.has_product);
  proto->set_bytes_read(step.bytes_read);
  proto->set_bytes_written(step.bytes_written);
  if (step.chain >= 0) proto->set_chain(step.chain);
  proto->set_made_by(step.pass);
  proto->set_computes_constants(step.computes_constants);
}

void PassToProto(const PassReport& pass, v1::ProgramPass* proto) {
  proto->set_name(pass.name);
  proto->set_optional(pass.optional);
  proto->set_once(pass.once);
  proto->set_turn(TurnToProto(pass.turn));
  proto->set_calls_before(pass.calls_before);
  proto->set_calls_after(pass.calls_after);
  for (const PassReport::Change& change : pass.changes) {
    v1::ProgramPass::Change* const its = proto->add_changes();
    its->set_node(change.node);
    its->set_before(change.before);
    its->set_after(change.after);
  }
  proto->set_num_changes(pass.num_changes);
  proto->set_effect(pass.effect);
}

}  // namespace

absl::StatusOr<InputShapes> InputShapesFromProto(const google::protobuf::RepeatedPtrField<v1::ExplainRequest::Input>& inputs) {
  InputShapes shapes;
  for (const v1::ExplainRequest::Input& input : inputs) {
    absl::StatusOr<Shape> shape = ShapeFromProto(input.shape(), /*known=*/true);
    if (!shape.ok()) return Annotate(shape.status(), absl::StrCat("input '", Excerpt(input.name()), "'"));
    if (shapes.try_emplace(input.name(), *shape).second) continue;
    return InField("inputs", Invalid("input '", Excerpt(input.name()), "' has two shapes; tell one"));
  }
  return shapes;
}

void ProgramTensorToProto(const ProgramReport::Tensor& tensor, v1::ProgramTensor* proto) {
  proto->set_name(tensor.name);
  for (const int64_t dim : tensor.shape) proto->add_shape(dim);
  proto->set_dtype(ToProto(tensor.dtype));
  proto->set_bytes(tensor.bytes);
  proto->set_place(PlaceToProto(tensor.place));
  proto->set_offset(tensor.offset);
  proto->set_last_step(static_cast<int32_t>(tensor.last_step));
}

void ProgramToProto(const ProgramReport& report, v1::ExplainResponse* proto) {
  for (const ProgramReport::Step& step : report.steps) StepToProto(step, proto->add_steps());
  for (const PassReport& pass : report.passes) PassToProto(pass, proto->add_passes());
  for (const ProgramReport::Chain& chain : report.chains) {
    v1::ProgramChain* const its = proto->add_chains();
    its->set_first(static_cast<int32_t>(chain.first));
    its->set_end(static_cast<int32_t>(chain.last));
    its->set_rows(chain.rows);
    its->set_chunks(chain.chunks);
  }
  v1::ProgramTotals* const totals = proto->mutable_totals();
  totals->set_flop(report.flop);
  totals->set_bytes_read(report.bytes_read);
  totals->set_bytes_written(report.bytes_written);
  totals->set_arena_bytes(report.arena_bytes);
  totals->set_unshared_bytes(report.unshared_bytes);
  totals->set_variable_bytes(report.variable_bytes);
  totals->set_output_bytes(report.output_bytes);
  totals->set_constant_bytes(report.constant_bytes);
  totals->set_peak_bytes(report.peak_bytes);
}

}  // namespace gluond::server
