#include "engine/compile/pipeline.h"

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
       RETURN_IF_ERROR(Validate(unit->graph()));
       return CheckKernels(unit->graph(), unit->options().device.type);
     }},
    {"assign_streams", Stage::kRewrite, kRequired, Pass::For::kAll,
     [](Unit* unit) -> absl::Status {
       unit->Replace(AssignStreams(unit->graph()));
       return absl::OkStatus();
     }},
    {"fold_affine", Stage::kRewrite, kOptional, Pass::For::kPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       unit->Replace(
           FoldAffine(unit->graph(), unit->indexed(), *inferred, *unit->options().constants, unit->options().checks_values));
       return absl::OkStatus();
     }},
    {"block_channels", Stage::kRewrite, kOptional, Pass::For::kCpuPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       unit->Replace(BlockChannels(unit->graph(), unit->indexed(), *inferred));
       return absl::OkStatus();
     }},
    {"simplify", Stage::kRewrite, kOptional, Pass::For::kAll,
     [](Unit* unit) -> absl::Status {
       unit->Replace(Simplify(unit->graph()));
       return absl::OkStatus();
     }},
    {"keep_constants", Stage::kPlan, kOptional, Pass::For::kPredictions,
     [](Unit* unit) -> absl::Status {
       if (!unit->has_constants()) return absl::OkStatus();
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       absl::StatusOr<std::vector<NodeEntry>> entries =
           ConstantEntries(unit->indexed(), *inferred, *unit->options().constants, unit->options().device.type);
       if (entries.ok()) unit->LeadWith(*std::move(entries));  // Others are computed in each run.
       return absl::OkStatus();
     }},
    {"plan_memory", Stage::kPlan, kRequired, Pass::For::kAll,
     [](Unit* unit) -> absl::Status {
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       ASSIGN_OR_RETURN(unit->plan, PlanMemory(unit->indexed(), *inferred));
       return absl::OkStatus();
     }},
    {"row_chains", Stage::kPlan, kOptional, Pass::For::kCpuPredictions,
     [](Unit* unit) -> absl::Status {
       ASSIGN_OR_RETURN(const Inferred* const inferred, unit->inferred());
       unit->chains = FindRowChains(unit->indexed(), *inferred, unit->plan, unit->computes_constants());
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

absl::Status RunPasses(Stage last, PassSet left_out, Unit* unit) {
  for (const Pass& pass : kPasses) {
    if (pass.stage > last) break;
    if (RunsFor(pass, unit->options()) && !left_out.Contains(pass.name)) RETURN_IF_ERROR(pass.run(unit));
  }
  return absl::OkStatus();
}

}  // namespace gluond
