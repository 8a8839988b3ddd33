// BoundGraph: a graph over a model's parameters and some inputs, compiled once for each signature of the inputs and
// bound to the parameters' memory. For work on the model's strand only.

#ifndef ENGINE_NN_BOUND_GRAPH_H_
#define ENGINE_NN_BOUND_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/nn/parameter.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/random_state.h"

namespace gluond {

struct GraphOutput {
  enum Kind {
    kValue,     // In memory on the device that is reused by later calls, unless somebody holds the tensor.
    kGradient,  // The gradient of `parameter`, with its grad_req.
    kUnwanted,  // Only its place in the order of nodes counts.
  };
  NodeEntry entry;
  Kind kind = kValue;
  size_t parameter = 0;
};

struct BoundGraphOptions {
  bool is_train = false;
  std::vector<std::string> inputs;  // The variables that Start feeds, in its order; all others are parameters.
  int max_compiled = 8;             // The least recently used one goes first.
};

class BoundGraph {
 public:
  // `initialize` gives values to parameters whose shape has become known. References must outlive the graph.
  // INVALID_ARGUMENT: an operator has no kernel on the lane's device.
  static absl::StatusOr<std::unique_ptr<BoundGraph>> Create(std::vector<GraphOutput> outputs, BoundGraphOptions options,
                                                            ParameterStore& parameters,
                                                            std::function<absl::Status()> initialize, Lane& lane,
                                                            Allocator& allocator);

  ~BoundGraph();

  struct Call {
    std::vector<Tensor> inputs;  // On the device.
    // Parameters (by index) that are read from, or written to, other memory in this call.
    std::vector<std::pair<size_t, Tensor>> instead;
    RandomState random;
    std::shared_ptr<Cancellation> cancellation;
    std::shared_ptr<ClientTime> client_time;  // May be null.
  };
  // Compiles for inputs like these, unless that is done already; a client may have to be asked for the shapes of its
  // operators first. `ready` is called once, on the lane, possibly within this call; until then nothing else, and the
  // graph must live. FAILED_PRECONDITION: a parameter is not initialized, or a shape cannot be inferred.
  void Prepare(std::vector<Tensor> inputs, std::shared_ptr<Cancellation> cancellation,
               std::function<void(absl::Status)> ready);
  // Prepares and starts. `done` is called once, on the lane, possibly within this call. Until then no other Start.
  void Start(Call call, std::function<void(absl::Status)> done);
  // Output i of the last call, until the next one.
  const Tensor& output(size_t i) const;

  // The parameters whose gradients it writes.
  const std::vector<size_t>& gradients() const { return gradients_; }

  // Bytes of the arenas, and what the same values would take unshared, of the signature used last.
  int64_t arena_bytes() const;
  int64_t unshared_bytes() const;

 private:
  struct Compiled;

  BoundGraph(std::vector<GraphOutput> outputs, BoundGraphOptions options, ParameterStore& parameters,
             std::function<absl::Status()> initialize, Lane& lane, Allocator& allocator);
  absl::StatusOr<Compiled*> Find(absl::Span<const Tensor> inputs);
  absl::StatusOr<std::unique_ptr<Compiled>> Compile(absl::Span<const Tensor> inputs);
  void StartNow(Compiled& compiled, Call call, std::function<void(absl::Status)> done);
  absl::StatusOr<Signatures> CompleteSignatures(absl::Span<const Tensor> inputs);
  void FillRun(const Compiled& compiled, Call* call, Run* run) const;

  const std::vector<GraphOutput> outputs_;
  const BoundGraphOptions options_;
  ParameterStore& parameters_;
  const std::function<absl::Status()> initialize_;
  Lane& lane_;
  Allocator& allocator_;
  Graph graph_;
  std::vector<size_t> gradients_;
  std::vector<std::unique_ptr<Compiled>> compiled_;  // The most recently used last.
};

}  // namespace gluond

#endif  // ENGINE_NN_BOUND_GRAPH_H_
