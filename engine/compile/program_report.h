// ProgramReport tells what a graph is compiled to: the program's steps in their order, what each pass did, and where each tensor
// lies. Reports are made by the passes that make programs, and allocate no tensor: a program that has no room can be looked at.
//
//   ASSIGN_OR_RETURN(const ProgramReport report, ReportProgram(graph, signatures, {.device = device}, LeftOutPasses()));
//   for (const ProgramReport::Step& step : report.steps) ... step.name ... step.flop ...

#ifndef ENGINE_COMPILE_PROGRAM_REPORT_H_
#define ENGINE_COMPILE_PROGRAM_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/compile/pass_set.h"
#include "engine/compile/pass_watcher.h"
#include "engine/compile/unit.h"
#include "engine/core/graph.h"
#include "engine/core/shape.h"

namespace gluond {

struct ProgramReport {
  enum class Place {
    kNowhere,   // Nobody reads the tensor.
    kArena,     // In the program's own memory.
    kCaller,    // A variable, or an output of the graph.
    kConstant,  // Kept from run to run: the tensor follows from constant variables.
  };
  struct Tensor {
    std::string name;  // Its maker's, or the variable's.
    Shape shape;
    DType dtype = DType::kUnknown;
    int64_t bytes = 0;
    Place place = Place::kNowhere;
    int64_t offset = 0;      // kArena.
    uint32_t last_step = 0;  // The last step that needs an output in the arena.
  };
  struct Step {
    std::string name, op;
    std::vector<Tensor> inputs, outputs;
    // Multiplications and additions of products; of a call without a product, the elements of its largest tensor.
    double flop = 0;
    bool has_product = false;
    int64_t bytes_read = 0, bytes_written = 0;
    int chain = -1;                   // Index in `chains`.
    std::string pass;                 // The last pass that has made, or changed, the call. Empty: the call is the graph's own.
    bool computes_constants = false;  // Only runs that have not yet the constants do the step.
  };
  // Steps [first, last), which are computed for a part of the batch's rows at a time.
  struct Chain {
    uint32_t first = 0, last = 0;
    int64_t rows = 0, chunks = 0;
  };

  std::vector<Tensor> variables;
  std::vector<Step> steps;
  std::vector<Chain> chains;
  std::vector<PassReport> passes;

  // Sums over the steps of a run that has its constants.
  double flop = 0;
  int64_t bytes_read = 0, bytes_written = 0;

  int64_t arena_bytes = 0;
  int64_t unshared_bytes = 0;  // The arena's, if each tensor had its own place.
  int64_t variable_bytes = 0;  // Parameters, states and inputs.
  int64_t output_bytes = 0;
  int64_t constant_bytes = 0;
  // All of these but unshared_bytes: what a run holds at most, beside what kernels take for themselves while they run.
  int64_t peak_bytes = 0;
};

// `before`: what has been done to `graph`. Errors as RunPasses'. INVALID_ARGUMENT: the tensors together have more than 2^62 bytes.
absl::StatusOr<ProgramReport> ReportProgram(const Graph& graph, const Signatures& known, const UnitOptions& options,
                                            PassSet left_out, PassHistory before = {});

}  // namespace gluond

#endif  // ENGINE_COMPILE_PROGRAM_REPORT_H_
