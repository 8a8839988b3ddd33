// BoundGraph: a graph over a model's parameters and some inputs, and the way from their names to their memory. The
// model's cache compiles it, once for each signature of the inputs. Only the model's strand uses it.

#ifndef ENGINE_NN_BOUND_GRAPH_H_
#define ENGINE_NN_BOUND_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/nn/parameter_memory.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/random_state.h"
#include "engine/runtime/task.h"

namespace gluond {

struct GraphOutput {
  enum Kind {
    kValue,        // Later calls reuse its memory on the device, unless somebody holds the tensor.
    kGradient,     // The gradient of `parameter`, with its grad_req.
    kGradientSum,  // The sum of `parameter`'s gradients, whose grad_req is kAdd, with the new one.
    kUnwanted,     // Only its place in the order of nodes counts.
    kMemory,       // Written to `memory()`.
  };
  NodeEntry entry;
  Kind kind = kValue;
  size_t parameter = 0;
  std::function<Tensor()> memory = nullptr;
};

// A variable that is neither an input nor a parameter.
struct BoundVariable {
  std::string name;
  std::function<Signature()> signature;
  std::function<Tensor()> memory;  // Asked for each run.
};

// The part of a graph that a run computes after a pause.
struct GraphRest {
  std::vector<GraphOutput> outputs;
  std::vector<BoundVariable> variables;
};

struct BoundGraphOptions {
  bool is_train = false;
  std::vector<std::string> inputs;  // The variables that Run feeds, in its order.
  std::vector<BoundVariable> variables = {};
  // May be null. The rest of the graph; without outputs before it there is no pause. Called once, beside the lane, as soon as the
  // parameters' shapes are known.
  std::function<absl::StatusOr<GraphRest>()> rest = nullptr;
};

class BoundGraph {
 public:
  // `initialize` gives values to parameters whose shape has become known. References must outlive the graph.
  // INVALID_ARGUMENT: an operator has no kernel on the lane's device.
  static absl::StatusOr<std::unique_ptr<BoundGraph>> Create(std::vector<GraphOutput> outputs, BoundGraphOptions options,
                                                            ParameterMemory& memory, std::function<absl::Status()> initialize,
                                                            ExecutorCache& cache, Lane& lane);

  struct Request {
    std::vector<Tensor> inputs;  // On the device.
    // Parameters (by index) that are read from, or written to, other memory in this run.
    std::vector<std::pair<size_t, Tensor>> instead;
    RandomState random;
    std::shared_ptr<Cancellation> cancellation;
    std::shared_ptr<ClientTime> client_time;            // May be null.
    std::function<void(uint32_t)> on_output = nullptr;  // May be null. See gluond::Run. Not after the pause.
  };
  // Compiles for inputs like these, unless that is done; the server may have to ask a client for the shapes of its
  // operators first. Begins and ends on the lane; until the end, no other function may be called. FAILED_PRECONDITION:
  // a parameter is not initialized, or a shape cannot be inferred.
  Task<absl::Status> Prepare(std::vector<Tensor> inputs, std::shared_ptr<Cancellation> cancellation);
  // Prepares and runs, as far as the pause, if there is one. In training the auxiliary states and the sums of grad_req add stay
  // as they are until Swap.
  Task<absl::Status> Run(Request request);
  // Has the memory for the rest, so that Continue asks for none within the same piece of the lane's work, but for scratch space of
  // more than Lane::kReservedScratch. Where the run has not paused, nothing happens. RESOURCE_EXHAUSTED: there is none; the run has
  // ended, and nothing of the rest is written.
  absl::Status ReadyRest();
  // Runs the rest that is ready, or ends the run without that. For the lane. Requires: no operator of the rest waits.
  absl::Status Continue();
  void Abandon();
  // Gives the parameters what the last run has made of their states, or of their sums. A second call takes that back.
  void Swap() {
    for (const auto& [parameter, part] : drafts_) memory_.Swap(parameter, part);
  }
  // Output i of the last run; valid until the next run, Continue or Abandon.
  const Tensor& output(size_t i) const { return run_.outputs[i]; }

  // The parameters whose gradients the graph writes.
  const std::vector<size_t>& gradients() const { return gradients_; }

 private:
  // A source tells which of Request::inputs, of the parameters, or of the other variables an executor's input is.
  struct Source {
    enum { kInput, kParameter, kVariable } kind;
    size_t index;
  };

  BoundGraph(std::vector<GraphOutput> outputs, BoundGraphOptions options, ParameterMemory& memory,
             std::function<absl::Status()> initialize, ExecutorCache& cache, Lane& lane);
  // The signatures of all variables. Stores the parameter shapes that follow from the inputs, and initializes these
  // parameters.
  absl::StatusOr<Signatures> CompleteSignatures(absl::Span<const Tensor> inputs);
  absl::Status AddRest();
  ExecutorQuery QueryFor(absl::Span<const Tensor> inputs) const;
  // Lets go of the run's tensors that are not values.
  void EndRun();
  Task<absl::Status> RunOnce(Request request);
  // Fills in sources_. FAILED_PRECONDITION: a parameter has no value.
  absl::Status FindSources();
  absl::Status FillRun(Request* request);
  absl::StatusOr<Tensor> Draft(size_t parameter, ParameterMemory::Part part, bool copied = true);

  std::vector<GraphOutput> outputs_;
  BoundGraphOptions options_;
  const size_t num_first_, num_variables_;  // The outputs before the pause, and the other variables that these need.
  ParameterMemory& memory_;
  const ParameterStore& parameters_;
  const std::function<absl::Status()> initialize_;
  ExecutorCache& cache_;
  Lane& lane_;
  std::shared_ptr<const Graph> graph_;
  std::shared_ptr<const absl::flat_hash_set<std::string>> constants_;  // The parameters that no run writes; null in training.
  std::shared_ptr<const std::vector<bool>> added_;                     // The outputs that runs add to; null: none.
  bool skips_constants_ = false;                                       // The run under way leaves them out.
  std::vector<size_t> gradients_;
  ExecutorLease executor_;                                        // For the last prepared inputs; empty if that failed.
  std::vector<Source> sources_;                                   // The executor's, by input.
  gluond::Run run_;                                               // The executor's last run. Holds no inputs between runs.
  std::optional<PausedRun> paused_;                               // The same, between its parts,
  bool is_ready_ = false;                                         // or the executor has it, with the rest bound.
  std::vector<std::pair<size_t, ParameterMemory::Part>> drafts_;  // The last run's, by parameter.
};

}  // namespace gluond

#endif  // ENGINE_NN_BOUND_GRAPH_H_
