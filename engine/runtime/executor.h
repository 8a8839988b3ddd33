// Executor: a graph compiled for one input signature, mode and device, run again and again without planning or
// allocating anything.
//
//   ASSIGN_OR_RETURN(auto executor, Executor::Compile(graph, signatures, {.is_train = true}, lane, allocator));
//   Executor::Run run;
//   run.inputs[executor->input_index("data")] = batch; ...
//   executor->Start(std::move(run), [](absl::Status status) { ... });   // Called on the lane's thread.
//
// An Executor runs one Run at a time (ExecutorCache hands out another instance to a second caller). Start may be
// called from any thread; the work is done by the lane. A kAsync node suspends the run and frees the lane for other
// runs; it goes on, on the lane, when the node completes.

#ifndef ENGINE_RUNTIME_EXECUTOR_H_
#define ENGINE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/tensor.h"
#include "engine/passes/infer.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"

namespace gluond {

struct ExecutorOptions {
  bool is_train = false;
};

// What a caller gives to one execution. Vectors are indexed by the executor's inputs and outputs.
struct Run {
  // The variables, in Executor::inputs() order. Those that an operator mutates (auxiliary states) are written.
  std::vector<Tensor> inputs;
  // Where each output goes, in the graph's output order: memory of the caller with a request. An undefined tensor
  // with kWriteTo asks the executor for memory of its own, valid until the next Start on it; kNullOp: not wanted.
  std::vector<Tensor> outputs;
  std::vector<OpReqType> output_reqs;  // Empty: all kWriteTo.
  uint64_t seed = 0;                   // Of the model's random state,
  uint32_t random_run = 0;             // and its count of runs.
  std::shared_ptr<Cancellation> cancellation;  // May be null. Looked at between nodes.
};

class Executor {
 public:
  // Validates, simplifies, infers, checks kernels, plans memory and allocates the arena.
  static absl::StatusOr<std::unique_ptr<Executor>> Compile(const Graph& graph, const Signatures& known,
                                                           const ExecutorOptions& options, Lane& lane,
                                                           Allocator& allocator);
  ~Executor();

  struct Variable {
    std::string name;
    Shape shape;
    DType dtype;
    bool mutated;
  };
  const std::vector<Variable>& inputs() const;   // One for each variable, in topological order.
  const std::vector<Signature>& outputs() const;
  // -1 when the graph has no such variable.
  int input_index(absl::string_view name) const;

  // Checks `run` against the signature, then starts it. `done` is called exactly once, on the lane's thread; it must
  // not block. The run (with the outputs that the executor lent) is readable through `run()` until the next Start.
  void Start(Run run, std::function<void(absl::Status)> done);
  const Run& run() const;

  // Start, and wait: for callers that are not a lane or a gRPC thread (tests, tools).
  absl::Status RunAndWait(Run run, std::vector<Tensor>* outputs);

  int64_t arena_bytes() const;
  int64_t unshared_bytes() const;

 private:
  struct Compiled;
  explicit Executor(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_EXECUTOR_H_
