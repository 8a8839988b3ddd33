#include "engine/compile/pipeline.h"

#include "absl/strings/str_cat.h"
#include "engine/core/interruption.h"
#include "engine/core/status_macros.h"
#include "engine/passes/assign_streams.h"
#include "engine/passes/block_channels.h"
#include "engine/passes/constants.h"
#include "engine/passes/fold_affine.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/row_chains.h"
#include "engine/passes/simplify.h"
#include "engine/passes/validate.h"

namespace gluond {
namespace {

constexpr bool kRequired = false, kOptional = true;

constexpr Pass kPasses[] = {
    {"validate", Stage::kRewrite, kRequired, Pass::For::kAll,
     [](Unit* unit) -> absl::Status {
       RETURN_IF_ERROR(Validate(unit->order()));
       return CheckKernels(unit->order(), unit->options().device.type);
     }},
    {"assign_streams", Stage::kRewrite, kRequired, Pass::For::kAll,
     [](Unit* unit) -> absl::Status { return unit->Replace(AssignStreams(unit->order())); }},
    {"fold_affine", Stage::kRewrite, kOptional, Pass::For::kPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       return unit->Replace(
           FoldAffine(unit->order(), unit->indexed(), *inferred, *unit->options().constants, unit->options().checks_values));
     }},
    {"block_channels", Stage::kRewrite, kOptional, Pass::For::kCpuPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       return unit->Replace(BlockChannels(unit->graph(), unit->indexed(), *inferred));
     }},
    {"simplify", Stage::kRewrite, kOptional, Pass::For::kAll,
     [](Unit* unit) -> absl::Status { return unit->Replace(Simplify(unit->order())); }},
    {kKeepConstants, Stage::kPlan, kOptional, Pass::For::kPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       absl::StatusOr<std::vector<NodeEntry>> entries =
           ConstantEntries(unit->indexed(), *inferred, *unit->options().constants, unit->options().device.type);
       if (absl::IsResourceExhausted(entries.status())) {
         unit->note = absl::StrCat("each run computes what follows from constants: ", entries.status().message());
         return absl::OkStatus();
       }
       RETURN_IF_ERROR(entries.status());
       return unit->LeadWith(*std::move(entries));
     }},
    {"plan_memory", Stage::kPlan, kRequired, Pass::For::kAll,
     [](Unit* unit) -> absl::Status {
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       ASSIGN_OR_RETURN(unit->plan, PlanMemory(unit->indexed(), *inferred, unit->options().num_first));
       return absl::OkStatus();
     }},
    {"row_chains", Stage::kPlan, kOptional, Pass::For::kCpuPredictions,
     [](Unit* unit) -> absl::Status {
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       ASSIGN_OR_RETURN(unit->chains, FindRowChains(unit->indexed(), *inferred, unit->plan, unit->computes_constants()));
       return absl::OkStatus();
     }},
};

bool RunsFor(const Pass& pass, const UnitOptions& options) {
  switch (pass.runs_for) {
    case Pass::For::kAll: return true;
    case Pass::For::kPredictions: return !options.is_train;
    case Pass::For::kCpuPredictions: return !options.is_train && options.device.type == DeviceType::kCpu;
  }
  return false;
}

}  // namespace

absl::Span<const Pass> Passes() { return kPasses; }

absl::Status RunPasses(Stage last, PassSet left_out, Unit* unit, absl::FunctionRef<void(const Pass&, PassTurn)> after) {
  RETURN_IF_ERROR(CheckInterrupted());
  RETURN_IF_ERROR(unit->Pay());
  for (const Pass& pass : kPasses) {
    if (pass.stage > last) break;
    const PassTurn turn = !RunsFor(pass, unit->options()) ? PassTurn::kOfOtherPrograms
                          : left_out.Contains(pass.name)  ? PassTurn::kLeftOut
                                                          : PassTurn::kRan;
    if (turn == PassTurn::kRan) {
      RETURN_IF_ERROR(CheckInterrupted());
      RETURN_IF_ERROR(pass.run(unit));
    }
    after(pass, turn);
  }
  return absl::OkStatus();
}

}  // namespace gluond
