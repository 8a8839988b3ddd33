// Model: a graph with parameters and random state on one device, shared by clients. It predicts, and it computes
// gradients; a Trainer (engine/train) steps it.
//
//   ASSIGN_OR_RETURN(auto model, Model::Create(std::move(definition), {"lenet", /*seed=*/1, &lane, memory, memory}));
//   model->Initialize({}, [](absl::Status status) { ... });
//   model->Predict({{"data", batch}}, {}, nullptr, [](absl::StatusOr<NamedTensors> outputs) { ... });
//
// Thread-safe; no call waits. Every call but the getters runs on the model's strand: in the order of arrival, one at a
// time, on the lane. A call therefore sees the effects of all earlier calls and of no later one. Predict reads
// parameters between two steps, never in the middle of a step, and needs no copy of the parameters. One exception lets
// a model be served while it is trained: a Predict that is next in line behind a call of many steps runs between two of
// the steps. A callback runs once, on the lane's thread; it must not block, and may call the model again.
//
// Tensors from callers lie on the host and are copied to the model's device where that is another; values of parameters
// may lie on the device, too. Tensors given to callbacks lie on the host and belong to the receiver. An input of
// another dtype than the model's is converted.

#ifndef ENGINE_NN_MODEL_H_
#define ENGINE_NN_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/definition.h"
#include "engine/nn/model_runs.h"
#include "engine/nn/named_tensor.h"
#include "engine/nn/parameter_memory.h"
#include "engine/nn/strand.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/random_state.h"

namespace gluond {

class SparingMemory;

struct InitializeOptions {
  Spec initializer = {"Uniform", {}};  // For parameters without one of their own.
  bool force_reinit = false;           // Also initializes parameters that have values; otherwise they keep them.
};

// A model as a checkpoint keeps it.
struct ModelState {
  ModelDefinition definition;
  NamedTensors parameters;  // The initialized ones; on the host, unless a function says otherwise.
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

  const std::string& name() const { return options_.name; }
  const ModelOptions& options() const { return options_; }
  const std::vector<ModelInput>& inputs() const { return definition_.inputs; }
  const std::vector<ModelOutput>& outputs() const { return outputs_; }
  // The definition has no tensors; its shapes are those given at creation.
  const ModelDefinition& definition() const { return definition_; }
  // The parameter table: names, shapes, requests. Their memory belongs to the strand.
  const ParameterStore& parameters() const { return memory_.store(); }

  // Parameters whose shape is not known yet get their values when the first batch tells it (MXNet's deferred
  // initialization). The values depend on the model's seed, the parameter's name and shape, and nothing else.
  void Initialize(const InitializeOptions& options, OnStatus done);
  // All or none. NOT_FOUND: no such parameter. INVALID_ARGUMENT: another shape or dtype.
  void SetParameters(NamedTensors values, OnStatus done);
  // The same without a copy: the tensors, on the device, are the values from here on, and other models may have them, too.
  // A model that writes to one makes a copy of its own first. `constants` may be null, or have some of them: what kernels make
  // of those is kept there.
  void AdoptParameters(NamedTensors values, std::shared_ptr<ConstantTensors> constants, OnStatus done);
  // Empty `names`: all initialized parameters. FAILED_PRECONDITION: one is not initialized (or has no gradient).
  void GetParameters(std::vector<std::string> names, OnTensors done);
  void GetGradients(std::vector<std::string> names, OnTensors done);
  void ZeroGradients(OnStatus done);
  void Configure(std::string name, ParameterOptions options, OnStatus done);

  // `outputs`: names of the outputs; empty: all. INVALID_ARGUMENT: a missing or unknown input, a wrong shape.
  // FAILED_PRECONDITION: parameters are not initialized.
  void Predict(NamedTensors inputs, std::vector<std::string> outputs, CancellationPtr cancellation, OnTensors done);

  // Forward in kTrain mode remembers the inputs, the auxiliary states as they were, and the number of its random run.
  // Backward computes forward and backward again from these in one graph: with the same dropout masks, and without a
  // second update of running means. That costs a second forward pass, but no activations are kept between the calls;
  // Trainer::TrainStep is faster. A Backward consumes its Forward, as does any change of parameters. A Forward or Backward
  // that failed or was cancelled has changed no state, no sum of gradients and no random number, and can be called again.
  // Gradients that such a Backward has written belong to no pass.
  void Forward(NamedTensors inputs, Mode mode, CancellationPtr cancellation, OnTensors done);
  // Head gradients by output name; an output without one contributes nothing; none at all: ones for every output.
  // `gradients`: names of parameters whose gradients the report will have.
  // FAILED_PRECONDITION: no Forward in kTrain mode to go back from; one of `gradients` has none. NOT_FOUND: no such
  // parameter.
  using OnBackward = std::function<void(absl::StatusOr<BackwardReport>)>;
  void Backward(NamedTensors head_gradients, std::vector<std::string> gradients, CancellationPtr cancellation, OnBackward done);

  // The state at one moment; callers only read it. The state holds the parameters' own memory, or is copied to the host
  // beside the lane. Later calls wait for a copy of one tensor at most; they write to other memory (or fail with
  // RESOURCE_EXHAUSTED).
  void Snapshot(std::function<void(absl::StatusOr<ModelState>)> done);
  // Values, on the host or on the device, and random state of a model of the same definition. All or none, but gradients
  // are zero afterwards. `then` runs when the values are there, before any other call: it restores the trainer that belongs
  // to them. If it fails, the values are as before; those that were not initialized keep the new ones. Old values take
  // memory until then.
  void Restore(ModelState state, OnStatus done, std::function<absl::Status()> then = nullptr);

  // Trainer and other users of the model's memory run on this strand, in order with the calls.
  Strand& strand() { return strand_; }

  // Only work on the strand uses the functions below.
  ParameterMemory& memory() { return memory_; }
  ModelRuns& runs() { return runs_; }
  // A snapshot whose tensors lie on the device.
  ModelState SnapshotNow() const;

  // Any thread: puts copies on the host in the place of tensors on the device, beside the lane, and calls `done`.
  void BringToHost(std::vector<NamedTensors*> tensors, OnStatus done);

 private:
  Model(ModelDefinition definition, const ModelOptions& options);
  absl::Status InferAtDefinition();
  absl::Status CheckInputsAreOnlyRead() const;
  absl::Status RestoreNow(const ModelState& state);

  const ModelDefinition definition_;
  const std::shared_ptr<SparingMemory> memory_of_device_;
  const ModelOptions options_;
  std::vector<ModelOutput> outputs_;
  ParameterMemory memory_;
  ModelRuns runs_;
  Strand strand_;
};

}  // namespace gluond

#endif  // ENGINE_NN_MODEL_H_
