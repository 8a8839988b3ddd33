// Model: a graph with parameters and random state on one device, shared by clients. It predicts, and it computes
// gradients; a Trainer (engine/train) steps it.
//
//   ASSIGN_OR_RETURN(auto model, Model::Create(std::move(definition), {"lenet", /*seed=*/1, &lane, memory, memory}));
//   model->Initialize({}, [](absl::Status status) { ... });
//   model->Predict({{"data", batch}}, {}, nullptr, [](absl::StatusOr<NamedTensors> outputs) { ... });
//
// Thread-safe; no call waits. Every call but the getters runs on the model's strand: in the order of arrival, one at a
// time, on the lane. A call therefore sees all that came before it and nothing of what came after: Predict reads
// parameters between two steps, never in the middle of one, and needs no copy of them. One exception lets a model be
// served while it is trained: a Predict that is next in line behind a call of many steps runs between two of these.
// A callback runs once, on the lane's thread; it must not block, and may call the model again.
//
// Tensors from callers lie on the host and are copied to the device if that is another; those given to callbacks lie on
// the host and belong to the receiver. An input of another dtype than the model's is converted.

#ifndef ENGINE_NN_MODEL_H_
#define ENGINE_NN_MODEL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "engine/nn/bound_graph.h"
#include "engine/nn/definition.h"
#include "engine/nn/named_tensor.h"
#include "engine/nn/parameter.h"
#include "engine/passes/infer.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/random_state.h"

namespace gluond {

class Strand;

enum class Mode { kPredict, kTrain };

struct ModelOptions {
  std::string name;
  uint64_t seed = 0;
  Lane* lane = nullptr;                       // Must outlive the model.
  std::shared_ptr<Allocator> allocator;       // Of the lane's device: parameters, gradients, arenas.
  std::shared_ptr<Allocator> host_allocator;  // Of the CPU; may be the same.
  int max_compiled = 8;                       // Compiled graphs kept per purpose, one for each input signature.
};

struct ModelOutput {
  std::string name;
  Signature signature;  // As far as it is known without a batch; -1 for the batch's axis.
};

struct InitializeOptions {
  Spec initializer = {"Uniform", {}};  // For parameters without one of their own.
  bool force_reinit = false;           // Also those that have values; otherwise they keep them.
};

struct BackwardReport {
  std::vector<std::string> written;  // The parameters whose gradients were written.
  NamedTensors gradients;            // Those that were asked for, as this backward pass left them.
};

// Everything that makes a model itself; what a checkpoint keeps of it.
struct ModelState {
  ModelDefinition definition;
  NamedTensors parameters;  // Of those that are initialized; on the host.
  RandomState random;
};

class Model : public std::enable_shared_from_this<Model> {
 public:
  using OnStatus = std::function<void(absl::Status)>;
  using OnTensors = std::function<void(absl::StatusOr<NamedTensors>)>;
  using CancellationPtr = std::shared_ptr<Cancellation>;

  // Validates, infers what can be inferred, and checks that the device has every kernel.
  // INVALID_ARGUMENT: as Validate, CheckKernels, InferPartially; an input that the graph does not have.
  static absl::StatusOr<std::shared_ptr<Model>> Create(ModelDefinition definition, const ModelOptions& options);
  ~Model();

  const std::string& name() const { return options_.name; }
  const ModelOptions& options() const { return options_; }
  const std::vector<ModelInput>& inputs() const { return definition_.inputs; }
  const std::vector<ModelOutput>& outputs() const { return outputs_; }
  // Without tensors; shapes as they were at definition.
  const ModelDefinition& definition() const { return definition_; }
  // The parameter table: names, shapes, requests. Their memory belongs to the strand.
  const ParameterStore& parameters() const { return parameters_; }

  // Parameters whose shape is not known yet get their values when the first batch tells it (MXNet's deferred
  // initialization). The values depend on the model's seed, the parameter's name and shape, and nothing else.
  void Initialize(const InitializeOptions& options, OnStatus done);
  // All or none. NOT_FOUND: no such parameter. INVALID_ARGUMENT: another shape or dtype.
  void SetParameters(NamedTensors values, OnStatus done);
  // Empty `names`: all that are initialized. FAILED_PRECONDITION: one is not initialized (has no gradient).
  void GetParameters(std::vector<std::string> names, OnTensors done);
  void GetGradients(std::vector<std::string> names, OnTensors done);
  void ZeroGradients(OnStatus done);
  void Configure(std::string name, ParameterOptions options, OnStatus done);

  // `outputs`: which; empty: all. INVALID_ARGUMENT: a missing or unknown input, a wrong shape.
  // FAILED_PRECONDITION: parameters are not initialized.
  void Predict(NamedTensors inputs, std::vector<std::string> outputs, CancellationPtr cancellation, OnTensors done);

  // Forward in kTrain mode remembers the inputs, the auxiliary states as they were, and the number of its random run;
  // Backward computes forward and backward again from these in one graph, so that it sees the same dropout masks and
  // updates no running mean twice. That costs a second forward pass, and nothing is kept alive between the calls but
  // inputs; who wants speed calls Trainer::TrainStep. A Backward consumes its Forward, as does any change of
  // parameters. One that failed or was cancelled can be called again, unless it may have added to a gradient already.
  void Forward(NamedTensors inputs, Mode mode, CancellationPtr cancellation, OnTensors done);
  // Head gradients by output name; an output without one contributes nothing; none at all: ones for every output.
  // `gradients`: names of parameters whose gradients the report is to have.
  // FAILED_PRECONDITION: no Forward in kTrain mode to go back from; one of `gradients` has none. NOT_FOUND: no such
  // parameter.
  using OnBackward = std::function<void(absl::StatusOr<BackwardReport>)>;
  void Backward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation,
                OnBackward done);

  void Snapshot(std::function<void(absl::StatusOr<ModelState>)> done);
  // Values and random state of a model of the same definition. All or none.
  // `then` goes on where the values are there, before any other call: with the trainer that belongs to them.
  void Restore(ModelState state, OnStatus done, std::function<absl::Status()> then = nullptr);

  // For Trainer and other parts that work on the model's memory. `work` runs on the lane when everything before it is
  // done; the next piece waits until `finished` is called (from any thread, once).
  using Finished = std::function<void()>;
  void Enqueue(std::function<void(Finished finished)> work);
  // For long work on the strand, between two parts: goes on with `resume`, on the lane, after the Predicts in line.
  void Yield(std::function<void()> resume);

  // The rest is for work on the strand.
  // When the call began that runs, or whose callback runs: until then it had waited for its turn and for the lane.
  std::chrono::steady_clock::time_point begun() const;
  // What that call has spent on operators that clients compute. Null: it runs no operators.
  const std::shared_ptr<const ClientTime>& client_time() const { return client_time_; }
  void set_client_time(std::shared_ptr<const ClientTime> time) { client_time_ = std::move(time); }
  ParameterStore& mutable_parameters() { return parameters_; }
  RandomState& random() { return random_; }
  // Parameters have changed: a remembered Forward is void.
  void ForgetForward() { forward_.reset(); }
  absl::StatusOr<ModelState> SnapshotNow();
  // Parameters whose gradient was written since the last step, by index.
  std::vector<bool>& fresh_gradients() { return fresh_; }
  // Gives memory and initial values to parameters that wait for their shape.
  absl::Status InitializeDeferred();
  // A compiled-on-demand graph over this model's parameters.
  absl::StatusOr<std::unique_ptr<BoundGraph>> Bind(std::vector<GraphOutput> outputs, BoundGraphOptions options);

 private:
  // What Backward needs to compute the last Forward again.
  struct RememberedForward {
    std::vector<Tensor> inputs;                        // On the device.
    std::vector<std::pair<size_t, Tensor>> auxiliary;  // Copies from before the forward pass, by parameter.
    RandomState random;
  };
  // A run from its preparation to its end.
  struct ForwardPass {
    std::vector<size_t> outputs;
    BoundGraph* graph = nullptr;
    BoundGraph::Call call;
    std::shared_ptr<const RememberedForward> remembered;  // In training mode.
    OnTensors done;
    Finished finished;
  };
  struct BackwardPass {
    BoundGraph* graph = nullptr;
    BoundGraph::Call call;
    BackwardReport report;
    OnBackward done;
    Finished finished;
  };

  Model(ModelDefinition definition, const ModelOptions& options);
  absl::Status InferAtDefinition();
  struct Memory {
    Tensor data;
    Tensor grad;  // Undefined where grad_req is null.
  };
  absl::StatusOr<Memory> MemoryOf(size_t parameter, const Shape& shape);
  absl::Status Fill(size_t parameter, const Spec& initializer);
  absl::Status ForgetGradient(size_t parameter);
  absl::Status RestoreNow(const ModelState& state);
  absl::Status CheckInputsAreOnlyRead() const;
  absl::Status InitializeNow(const InitializeOptions& options);
  absl::Status SetNow(const NamedTensors& values);
  absl::StatusOr<NamedTensors> ReadNow(std::vector<std::string> names, bool gradients);
  absl::Status ConfigureNow(const std::string& name, const ParameterOptions& options);

  absl::StatusOr<std::vector<Tensor>> PrepareInputs(NamedTensors inputs);
  absl::StatusOr<std::shared_ptr<const RememberedForward>> Remember(const std::vector<Tensor>& inputs);
  void RunForward(NamedTensors inputs, std::vector<std::string> outputs, Mode mode, CancellationPtr cancellation,
                  OnTensors done, Finished finished);
  void StartForward(ForwardPass pass);
  void RunBackward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation,
                   OnBackward done, Finished finished);
  void StartBackward(BackwardPass pass);
  absl::Status EndBackward(BackwardPass& pass);
  absl::StatusOr<Tensor> Copied(const Tensor& tensor) const;
  absl::StatusOr<NamedTensors> MemoryForGradients(const std::vector<std::string>& names);
  absl::StatusOr<BoundGraph*> ForwardGraph(Mode mode, const std::vector<size_t>& outputs);
  absl::StatusOr<BoundGraph*> BackwardGraph(const std::vector<size_t>& heads);
  absl::StatusOr<NamedTensors> CollectOutputs(const BoundGraph& graph, const std::vector<size_t>& outputs);
  absl::Status PrepareHeads(NamedTensors given, std::vector<size_t>* heads, std::vector<Tensor>* inputs);
  absl::StatusOr<std::vector<size_t>> FindOutputs(const std::vector<std::string>& names) const;

  const ModelDefinition definition_;
  const ModelOptions options_;
  std::vector<ModelOutput> outputs_;
  ParameterStore parameters_;
  const std::unique_ptr<Strand> strand_;

  // The rest belongs to the strand.
  RandomState random_;          // Counts training runs that succeeded.
  RandomState predict_random_;  // Apart from it, so that predictions change no training.
  std::vector<bool> fresh_;
  std::shared_ptr<const RememberedForward> forward_;
  std::shared_ptr<const ClientTime> client_time_;
  absl::flat_hash_map<std::string, std::unique_ptr<BoundGraph>> graphs_;  // By purpose.
  uint64_t graphs_version_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_NN_MODEL_H_
