// ModelRuns: the forward and backward passes of a model, as tasks for its strand.

#ifndef ENGINE_NN_MODEL_RUNS_H_
#define ENGINE_NN_MODEL_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/op_context.h"
#include "engine/nn/bound_graph.h"
#include "engine/nn/definition.h"
#include "engine/nn/named_tensor.h"
#include "engine/nn/parameter_memory.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/random_state.h"
#include "engine/runtime/task.h"

namespace gluond {

template <class Made>
class GraphTable;
class SparingMemory;

enum class Mode { kPredict, kTrain };

struct BackwardReport {
  std::vector<std::string> written;  // The parameters whose gradients were written.
  NamedTensors gradients;            // The requested ones, as this backward pass left them.
};

class ModelRuns {
 public:
  using CancellationPtr = std::shared_ptr<Cancellation>;

  // References must outlive it. `allocator`, which is that of the options, may free idle executors.
  ModelRuns(const ModelDefinition& definition, const std::vector<ModelOutput>& outputs, const ModelOptions& options,
            ParameterMemory& parameters, SparingMemory& allocator);
  ~ModelRuns();

  // See Model::Predict and Model::Forward.
  Task<absl::StatusOr<NamedTensors>> Forward(NamedTensors inputs, std::vector<std::string> outputs, Mode mode,
                                             CancellationPtr cancellation);
  // See Model::Backward.
  Task<absl::StatusOr<BackwardReport>> Backward(NamedTensors head_gradients, std::vector<std::string> gradients,
                                                CancellationPtr cancellation);
  // A graph over the model's parameters, compiled on demand.
  absl::StatusOr<std::unique_ptr<BoundGraph>> Bind(std::vector<GraphOutput> outputs, BoundGraphOptions options);

  // Parameters have changed: a remembered Forward is void.
  void ForgetForward() { forward_.reset(); }
  // Programs compiled so far.
  int64_t num_compiled() const { return cache_.num_compiled(); }
  // Counts training runs that succeeded.
  RandomState& random() { return random_; }
  const RandomState& random() const { return random_; }
  // The time that the last run spent on operators that clients compute. Null: the last call ran no operators.
  const std::shared_ptr<const ClientTime>& client_time() const { return client_time_; }
  void set_client_time(std::shared_ptr<const ClientTime> time) { client_time_ = std::move(time); }

 private:
  // The state from which Backward computes the last Forward again.
  struct RememberedForward {
    std::vector<Tensor> inputs;                        // On the device.
    std::vector<std::pair<size_t, Tensor>> auxiliary;  // States before the forward pass, by parameter.
    RandomState random;
  };

  absl::StatusOr<std::vector<size_t>> FindOutputs(const std::vector<std::string>& names) const;
  // A tensor of that type on the model's device with the values of `value`, which lies on the host; `value` itself if
  // it fits.
  absl::StatusOr<Tensor> ToDevice(const Tensor& value, DType dtype) const;
  absl::StatusOr<std::vector<Tensor>> PrepareInputs(NamedTensors inputs) const;
  // The outputs that have head gradients, and the head gradients on the device.
  absl::Status PrepareHeads(const NamedTensors& given, std::vector<size_t>* heads, std::vector<Tensor>* inputs) const;
  // Host memory for the gradients of these parameters, which have one.
  absl::StatusOr<NamedTensors> MemoryForGradients(const std::vector<std::string>& names) const;
  std::shared_ptr<const RememberedForward> Remember(const std::vector<Tensor>& inputs) const;
  absl::StatusOr<std::unique_ptr<BoundGraph>> ForwardGraph(Mode mode, const std::vector<size_t>& outputs);
  absl::StatusOr<std::unique_ptr<BoundGraph>> BackwardGraph(const std::vector<size_t>& heads);
  absl::StatusOr<NamedTensors> CollectOutputs(const BoundGraph& graph, const std::vector<size_t>& outputs) const;
  absl::Status CopyGradients(const NamedTensors& to) const;

  const ModelDefinition& definition_;
  const std::vector<ModelOutput>& outputs_;
  const ModelOptions& options_;
  ParameterMemory& memory_;
  const ParameterStore& parameters_;

  RandomState random_;
  RandomState predict_random_;  // Separate, so that predictions change no training.
  std::shared_ptr<const RememberedForward> forward_;
  std::shared_ptr<const ClientTime> client_time_;
  SparingMemory& allocator_;
  ExecutorCache cache_;
  const std::unique_ptr<GraphTable<BoundGraph>> graphs_;
};

}  // namespace gluond

#endif  // ENGINE_NN_MODEL_RUNS_H_
