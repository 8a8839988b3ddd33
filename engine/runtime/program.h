// A Program is a compiled graph: the steps in order, with kernels and blobs resolved. A run only puts the caller's
// pointers where they are used (binding.h) and calls one kernel after the other (execution.h). Private to
// engine/runtime.

#ifndef ENGINE_RUNTIME_PROGRAM_H_
#define ENGINE_RUNTIME_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/kernel_cache.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/tensor.h"
#include "engine/passes/row_chains.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/shared_arena.h"

namespace gluond {

class HostCharge;

// An input that an async step mutates. The operator writes `copy`, and the run copies that back: an operator that goes
// on after its run was cancelled writes nothing that others use.
struct StagedInput {
  void* memory = nullptr;  // Where the input lies.
  Tensor copy;
};

// One call of an operator.
struct Step {
  const Node* node = nullptr;
  uint32_t first_in = 0, num_in = 0;          // In Program::ins.
  uint32_t first_out = 0, num_out = 0;        // In Program::outs and reqs.
  uint32_t first_staged = 0, num_staged = 0;  // In Program::staged.
  bool async = false;
  bool computes_constants = false;  // Only Program::constants need it.
};

// Memory that is chosen for each run, and the pointers to it.
struct Slot {
  std::vector<void**> uses;
  void* memory = nullptr;

  void Bind(void* to) {
    if (to == memory) return;
    memory = to;
    for (void** use : uses) *use = to;
  }
};

// A pointer into the arena.
struct ArenaUse {
  void** use;
  int64_t offset;
};

// One output of the graph. Either a step writes the output to a slot of the output's own, with the caller's request,
// and nothing else writes there. Or the output is copied when all steps have run: from a variable, from the arena, or
// from an earlier output of the same value, or from a constant.
struct ProgramOutput {
  enum Kind { kOwnSlot, kVariable, kArena, kRepeat, kConstant } kind = kArena;
  uint32_t slot = 0;   // Index in Program::slots; not for kArena.
  int64_t offset = 0;  // kArena.
  uint32_t first = 0;  // kRepeat: the earlier output.
  // For kOwnSlot:
  uint32_t step = 0;
  uint32_t req = 0;                // Index in Program::reqs.
  bool async = false;              // The step may write it after the run has been cancelled.
  bool read = false;               // By other steps: the slot must hold this value, and nothing that it was added to.
  bool read_rest = false;          // By the rest of a run, whose first part makes it.
  std::vector<uint32_t> in_place;  // Variables whose last reader is the step, which may overwrite them as it reads.
};

// A value that follows from the program's constant variables. Steps write it to its slot, unless the value is there already.
struct ProgramConstant {
  Signature signature;
  uint32_t slot = 0;  // Index in Program::slots.
};

struct Program {
  static constexpr uint32_t kNever = static_cast<uint32_t>(-1);
  // Far more than a large network's kernels; bounds what operators keep whose sizes vary from run to run.
  static constexpr size_t kMostKernels = 1024;

  // `payer`: as of KernelCache.
  explicit Program(Allocator* payer) : kernels(kMostKernels, payer), kernels_payer(payer) {}

  // See Executor::Compile; the kernels are not prepared yet. `arena` may be null. A program with async steps has one of its own in any case: their operators
  // may write to it while others run.
  static absl::StatusOr<std::unique_ptr<Program>> Compile(const Graph& graph, const Signatures& known,
                                                          const ExecutorOptions& options, const Lane& lane, Allocator& allocator,
                                                          std::shared_ptr<SharedArena> arena);

  // Makes what the kernels will look for. CANCELLED or DEADLINE_EXCEEDED: nobody waits for the program any more. Otherwise a
  // preparation's error, with the node in front.
  absl::Status Prepare(const ExecutorOptions& options, const Lane& lane);
  // The same for one call. The runs tell what a library does not have, or has no memory for: some may not need it.
  static absl::Status PrepareCall(const Node& node, const OpContext& context, absl::Span<const TBlob> in,
                                  absl::Span<const OpReqType> req, absl::Span<const TBlob> out);
  // Has caches for so many chunks at once.
  void GrowChunkKernels(int chunks) {
    while (chunk_kernels.size() < static_cast<size_t>(chunks)) chunk_kernels.emplace_back(kMostKernels, kernels_payer);
  }

  // Where the arena lies in the next run. Null: nothing lies there.
  void BindArena(void* to) {
    if (to == arena_memory) return;
    arena_memory = to;
    for (const ArenaUse& each : arena_uses) *each.use = static_cast<char*>(to) + each.offset;
  }

  // Whether output `o`, while it is computed, may lie in the memory of variable `v`.
  bool MayOverwrite(const ProgramOutput& o, uint32_t v) const;

  // The parts of a run: steps [0, pause) compute the first outputs, the others the rest. Without a pause there is one part.
  struct Part {
    uint32_t first_step = 0, last_step = 0;      // Steps [first_step, last_step).
    uint32_t first_output = 0, last_output = 0;  // Outputs likewise.
  };
  Part first() const { return {0, pause, 0, num_first}; }
  Part rest() const { return {pause, static_cast<uint32_t>(steps.size()), num_first, static_cast<uint32_t>(outputs.size())}; }

  // The host's memory that the program's tables take, with nodes that it alone has; without what kernels keep.
  int64_t HostBytes() const;

  std::shared_ptr<HostCharge> charge;  // For all that compiling takes, and then for what stays of it.

  std::vector<Step> steps;
  uint32_t pause = 0;      // The first step of the rest; without a pause, the number of steps.
  uint32_t num_first = 0;  // The outputs of the first part; without a pause, all.
  std::vector<TBlob> ins;
  std::vector<TBlob> outs;
  std::vector<OpReqType> reqs;     // One for each of outs.
  std::deque<StagedInput> staged;  // Slots point into it: they must not move.

  std::vector<Executor::Variable> inputs;
  absl::flat_hash_map<std::string, int> input_index;
  std::vector<Signature> outputs;
  std::vector<ProgramOutput> output_places;
  std::vector<ProgramConstant> constants;
  std::vector<uint32_t> constant_inputs;     // The variables that they follow from.
  uint32_t after_constants = 0;              // The first step after those that compute them.
  std::vector<uint32_t> constant_variables;  // All that are constants.
  std::string constants_text;                // How they follow: programs of equal texts have equal constants.
  std::vector<RowChain> chains;              // In the order of their steps.
  KernelCache kernels;                       // The steps', of which one runs at a time.
  std::deque<KernelCache> chunk_kernels;     // The chains' steps, by chunks that are computed at once.
  Allocator* const kernels_payer;
  std::vector<Slot> slots;            // The variables', then those of outputs and constants.
  std::vector<uint32_t> last_reader;  // By slot: a step, or kNever.
  std::vector<bool> read_at_end;      // By variable: it is an output.
  std::vector<bool> read_first;       // By variable: the first part of a run needs it.
  std::vector<bool> read_rest;        // By variable: the rest needs it.
  size_t layout = 0;                  // Equal for programs of which each may go on with a run of the other.

  ArenaClaim arena;
  bool shares_arena = false;
  std::vector<ArenaUse> arena_uses;
  void* arena_memory = nullptr;  // In this run.

  std::shared_ptr<const std::vector<NodePtr>> nodes;  // Keeps them alive.
  int64_t made_bytes = 0;                             // Those nodes take it that the passes have made.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_PROGRAM_H_
