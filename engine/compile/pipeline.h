// The passes that make a program of a graph, in one list. A pass is required, or optional: without it a program computes the
// same, up to rounding, with more work. Passes know operators by their facts, and not by their names; block_channels alone has
// some by name, until layouts take its place.
//
//   Unit unit(graph, signatures, {.device = device});
//   RETURN_IF_ERROR(RunPasses(Stage::kPlan, LeftOutPasses(), &unit));
//
// A pass fails where the graph is wrong, and never in silence: its error is the compilation's. Unit::note tells what an
// optional pass leaves undone, and reports show that.

#ifndef ENGINE_COMPILE_PIPELINE_H_
#define ENGINE_COMPILE_PIPELINE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/compile/pass_set.h"
#include "engine/compile/unit.h"

namespace gluond {

// Passes of the first stage make another graph of the same values; those of the second say how it is run.
enum class Stage { kRewrite, kPlan };

struct Pass {
  absl::string_view name;
  Stage stage;
  bool optional;
  enum class For { kAll, kPredictions, kCpuPredictions } runs_for;
  absl::Status (*run)(Unit* unit);
};

// The pass that keeps what follows from constants. ForInference (engine/nn) does its work for programs of all shapes.
inline constexpr absl::string_view kKeepConstants = "keep_constants";

// All of them, in the order in which they run.
absl::Span<const Pass> Passes();

enum class PassTurn { kRan, kLeftOut, kOfOtherPrograms };
// Runs the passes of the unit's mode and device, up to those of `last`. Errors of a pass, and Validate's and CheckKernels'.
// RESOURCE_EXHAUSTED: Unit::Pay. CANCELLED or DEADLINE_EXCEEDED: whoever waits for the graph has given it up (interruption.h). `after` hears of each pass in its
// turn, also where the pass does not run.
absl::Status RunPasses(
    Stage last, PassSet left_out, Unit* unit,
    absl::FunctionRef<void(const Pass& pass, PassTurn turn)> after = [](const Pass&, PassTurn) {});

}  // namespace gluond

#endif  // ENGINE_COMPILE_PIPELINE_H_
