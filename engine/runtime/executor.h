// Executor: a graph compiled for one input signature, mode and device, run again and again without planning or
// allocating anything.
//
//   ASSIGN_OR_RETURN(auto executor, Executor::Compile(graph, signatures, {.is_train = true}, lane, allocator));
//   Run run = executor->NewRun();
//   run.inputs[executor->input_index("data")] = batch; ...
//   executor->Start(std::move(run), [](absl::Status status) { ... });   // Called on the lane's thread.
//
// An Executor runs one Run at a time (ExecutorCache hands out another instance to a second caller). Start may be
// called from any thread; the work is done by the lane. A kAsync node suspends the run and frees the lane for other
// runs; it goes on, on the lane, when the node completes. The lane and the allocator outlive the executor.

#ifndef ENGINE_RUNTIME_EXECUTOR_H_
#define ENGINE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/compile/pass_set.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/tensor.h"
#include "engine/passes/infer.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"

namespace gluond {

class ConstantTensors;
class Execution;
class SharedArena;

struct ExecutorOptions {
  bool is_train = false;
  // A run pauses when it has computed so many of the graph's outputs, the first ones, and before it does anything for the
  // others. 0: no pause. Not with constants.
  uint32_t pause_after = 0;
  // Variables whose values stay the same for many runs, as parameters do between two steps of training. Null: there are none.
  // Only predictions have any. Values that follow from them alone are kept where the runs say so (Run::constants).
  std::shared_ptr<const absl::flat_hash_set<std::string>> constants = nullptr;
  // By output: whether runs will add to it (kAddTo). Its kernel is prepared for that. Null: runs write all outputs, and one that
  // adds all the same may make a kernel on the lane.
  std::shared_ptr<const std::vector<bool>> added = nullptr;
  PassSet left_out = LeftOutPasses();
};

// A Run is the caller's part of one execution. Vectors are indexed by the executor's inputs and outputs.
//
// An output may be bound to the memory of an input (an update in place): it is written when nothing of the run reads
// that input any more. Two outputs that overlap, or an input that overlaps one that an operator mutates, are refused.
struct Run {
  // The variables, in Executor::inputs() order. Those that an operator mutates (auxiliary states) are written.
  std::vector<Tensor> inputs;
  // Where each output goes, in the graph's output order: memory of the caller with a request. An undefined tensor
  // with kWriteTo asks the executor for memory. The next run uses that memory again unless somebody still holds
  // the tensor (of run().outputs). kNullOp: the output is not wanted.
  std::vector<Tensor> outputs;
  std::vector<OpReqType> output_reqs;          // Empty: all kWriteTo.
  uint64_t seed = 0;                           // The model's random state's,
  uint32_t random_run = 0;                     // and its count of runs.
  std::shared_ptr<Cancellation> cancellation;  // May be null. Looked at between nodes.
  std::shared_ptr<ClientTime> client_time;     // May be null. Added to.
  // May be null. It knows which of the inputs are constants now. (ExecutorOptions::constants are those that may be some.)
  std::shared_ptr<ConstantTensors> constants;
  // May be null. The lane's thread calls it with the number of a wanted output as soon as the device has the operators that
  // make the value, and those that read it. Nothing of the run changes the value later, and only the rest of a run that pauses
  // reads it.
  std::function<void(uint32_t output)> on_output;
};

// A run that waits between its parts (ExecutorOptions::pause_after): all that the rest needs of the first part. Its memory
// is its own, and goes with it.
struct PausedRun {
  Run run;                        // The inputs and first outputs that the rest reads.
  std::vector<Tensor> own;        // By first output: memory of an executor that holds it.
  std::shared_ptr<Buffer> arena;  // Null: the program needs none.
  size_t layout = 0;              // The program's that lays the arena out.
};

class Executor {
 public:
  using Done = std::function<void(absl::Status)>;

  // Runs the passes (engine/compile/pipeline.h), allocates the arena and prepares the kernels. Any thread; takes long. `arena` is
  // shared by programs of which one runs at a time; null: the program has an arena of its own. The allocator pays for what the
  // passes take before they take it, and for the program's tables as long as there is a program.
  //
  // The i-th node that draws random numbers, in the graph's topological order, draws from Philox stream i. So the same graph
  // always draws the same numbers, whatever the passes do.
  static absl::StatusOr<std::unique_ptr<Executor>> Compile(const Graph& graph, const Signatures& known,
                                                           const ExecutorOptions& options, Lane& lane, Allocator& allocator,
                                                           std::shared_ptr<SharedArena> arena = nullptr);
  // A run that has started goes on to its end without it.
  ~Executor();

  struct Variable {
    std::string name;
    Shape shape;
    DType dtype;
    bool mutated;
  };
  // One for each variable that the outputs depend on, in topological order.
  const std::vector<Variable>& inputs() const;
  const std::vector<Signature>& outputs() const;
  // -1 when the graph has no such variable.
  int input_index(absl::string_view name) const;

  // A Run with vectors of the right sizes, nothing bound.
  Run NewRun() const;

  // Starts `run`; it is checked against the signature first. `done` is called exactly once, on the lane's thread; it
  // must not block, and may start the next run. INVALID_ARGUMENT: an input or output of another shape, type or device
  // than compiled, or memory that overlaps (see Run). FAILED_PRECONDITION: not idle(). Otherwise an operator's error,
  // with the node in front, CANCELLED or DEADLINE_EXCEEDED; outputs are then unspecified.
  void Start(Run run, Done done);
  // The same within this call, as far as the first kAsync node, unless that completes at once. Requires: the caller is
  // the lane. From a `done`, Start is better: it lets others' work pass, and a chain of StartHere would nest.
  void StartHere(Run run, Done done);
  // The last run, with the outputs that the executor lent. Readable from `done` on, until the next Start or Ready.
  const Run& run() const;
  // The same, moved out: the executor lets go of its tensors, and its vectors may serve the next Start. Empty while the
  // executor is not idle().
  Run TakeRun();

  // No run is going on. A run that was cancelled while suspended leaves the executor not idle until the operator
  // completes, since that still uses its memory.
  bool idle() const;

  // The run that has paused (ExecutorOptions::pause_after). Such a run is started without the inputs that only its rest reads,
  // and without places for the outputs of the rest; `done` is called at the pause. The first outputs are there then, and the
  // executor is idle. A caller that wants the rest takes the run before the next one starts, and `outputs`, which may be null.
  PausedRun TakePaused(std::vector<Tensor>* outputs = nullptr);
  // A run that may go on as well: its values are copied, but for inputs and first outputs, which the rest leaves as they are.
  // RESOURCE_EXHAUSTED: there is no memory. FAILED_PRECONDITION: as Continue. Requires: the caller is the lane.
  absl::StatusOr<PausedRun> Copy(const PausedRun& paused);
  // Binds the rest of a run of this executor, or of another one of the same key: all its memory is there then, but for operators'
  // scratch space. `rest`: as for Start, with the outputs of the rest. An input that the first part has had stays, unless it is
  // given again. Where the run was copied, each input that the rest writes is given again. RESOURCE_EXHAUSTED: no memory for an
  // output; nothing has been written. FAILED_PRECONDITION: the other executor's operators have inferred other shapes. Requires:
  // idle(), and the caller is the lane.
  absl::Status Ready(PausedRun paused, Run rest);
  // Does the rest that is ready, unless TakeRun or another run has come in between. Within this call, as StartHere. Requires: the
  // caller is the lane.
  void Continue(Done done);

  // Start, and wait; `outputs` may be null. For callers that are not a lane or a gRPC thread (tests, tools).
  absl::Status RunAndWait(Run run, std::vector<Tensor>* outputs);

  // Its part of the arena, which others may share.
  int64_t arena_bytes() const;
  // Memory that the executor alone keeps between runs: its program's tables, outputs that it has lent, and an arena that it does
  // not share.
  // Requires: idle().
  int64_t own_bytes() const;

 private:
  explicit Executor(std::shared_ptr<Execution> execution);
  const std::shared_ptr<Execution> execution_;  // Shared with the lane while a run goes on.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_EXECUTOR_H_
