// A Binding puts the memory of one Run where a Program uses it, and copies outputs that could not be written where the
// caller wants them. For the lane's thread. Private to engine/runtime.

#ifndef ENGINE_RUNTIME_BINDING_H_
#define ENGINE_RUNTIME_BINDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/op_context.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/program.h"

namespace gluond {

class Binding {
 public:
  // All must outlive it.
  Binding(Program& program, const Lanes& lanes, Allocator& allocator);

  // Checks what the part of `run` needs, points the program's blobs to that memory, and fills in the outputs that are lent.
  // The first part comes first. INVALID_ARGUMENT: see Executor::Start. RESOURCE_EXHAUSTED: no memory for an output.
  absl::Status Bind(const Program::Part& part, Run* run);
  // The memory of ours in which lie those first outputs of this run that the rest reads, by output, for that binding. After Bind.
  std::vector<Tensor> TakeFirst() const;
  // The first outputs of a run that goes on. Before Bind of the rest.
  void PutFirst(std::vector<Tensor> own, const Run& run);
  // Whether the program's constants are there, so that the steps that compute them need not run. After Bind.
  bool has_constants() const { return kept_ != nullptr; }
  // The constants that the run's kernels know; null: none. After Bind.
  Constants* constants() { return run_constants_.empty() ? nullptr : &run_constants_; }
  // To be called when the constants have been computed. IsByConstants: one is not finite. On a GPU, waits for them.
  absl::Status CheckConstants(const OpContext& context) const;
  // The step of the part after which output `k` is where the caller wants it, and nobody reads it; Program::kNever: CopyOutputs
  // puts it there. After Bind of the part.
  uint32_t FinalAfter(uint32_t k) const;
  // To be called when all steps of the part have run. Offers the constants that they have computed to the run's ConstantTensors.
  absl::Status CopyOutputs(const OpContext& context, ConstantTensors* constants);

  // To be called when the run is over, however it has ended. Lets go of the constants' memory, but for `in_use`: an operator
  // that a failed run has left reads them until the next run.
  void End(ConstantTensors* constants, bool in_use);

  // The bytes of the outputs' memory that the binding made and keeps.
  int64_t own_bytes() const;
  // The host's memory of its tables.
  int64_t host_bytes() const;

 private:
  // One output, as the caller wants it.
  struct Target {
    void* to = nullptr;  // Null: lent, or not wanted.
    OpReqType req = kWriteTo;
    bool staged = false;    // Computed in memory of our own, then copied.
    bool in_place = false;  // Computed in the memory of an input.
  };
  struct OutputCopy {
    const void* from;
    void* to;
    OpReqType req;
    uint32_t output;
  };
  struct Range {
    const char* begin;
    const char* end;
    bool output;
    uint32_t index;  // The variable's or output's.
  };

  absl::Status CheckInputs(const Run& run) const;
  // Whether the part needs the variable.
  bool IsBound(uint32_t v) const { return part_.first_output > 0 ? program_.read_rest[v] : program_.read_first[v]; }
  bool IsInPart(uint32_t k) const { return k >= part_.first_output && k < part_.last_output; }
  absl::Status CheckOutputs(Run* run);
  absl::Status CheckOverlaps(const Run& run);
  absl::Status OnOverlap(const Range& a, const Range& b);
  bool IsWritten(const Range& range) const { return range.output || program_.inputs[range.index].mutated; }
  absl::Status BindConstants(const Run& run);
  absl::Status BindOwnSlot(uint32_t output, Run* run);
  absl::Status AddCopy(uint32_t output, const void* from, Run* run);
  absl::StatusOr<void*> OwnMemory(uint32_t output);

  Program& program_;
  const Lanes& lanes_;
  Allocator& allocator_;
  std::vector<Tensor> own_;  // By output: memory that is lent, or computed in. Made when first needed.

  ConstantTensors::Values kept_;   // The program's constants, or null: the run computes them,
  std::vector<Tensor> constants_;  // in this memory.
  RunConstants run_constants_;

  Program::Part part_;  // Bound last.

  // The current run's; kept for their capacity.
  std::vector<const void*> constant_inputs_;
  std::vector<Target> targets_;
  std::vector<OutputCopy> copies_;
  std::vector<Range> ranges_;
  std::vector<Range> open_read_, open_written_;  // Those that reach the current one; heaps, the end that comes first in front.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BINDING_H_
