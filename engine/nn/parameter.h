// Parameter: a trainable tensor of a model, or one of its auxiliary states (a running mean).
// ParameterStore: all parameters of one model, by structural name ("features.0.weight"), in the order of definition.

#ifndef ENGINE_NN_PARAMETER_H_
#define ENGINE_NN_PARAMETER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/core/tensor.h"
#include "engine/nn/catalog.h"

namespace gluond {

// How a backward pass stores a gradient.
enum class GradReq : int8_t { kNull = 0, kWrite = 1, kAdd = 3 };  // MXNet's numbers.

absl::string_view Name(GradReq req);  // "null", "write", "add".
absl::StatusOr<GradReq> ParseGradReq(absl::string_view text);

struct Parameter {
  std::string name;
  Shape shape;  // Unknown dimensions are filled in by inference, at the latest from the first batch.
  DType dtype = DType::kFloat32;
  GradReq grad_req = GradReq::kWrite;  // kNull when it is auxiliary or not differentiable.
  double lr_mult = 1;
  double wd_mult = 1;
  bool differentiable = true;
  bool auxiliary = false;  // Written by the forward pass, never by a trainer.
  Spec initializer;        // An empty type stands for the default of Model::Initialize.
  Spec deferred;           // With a type: the initializer that waits for the shape to be known.

  bool initialized = false;  // The parameter has values.
};

// A parameter with its memory on the model's device.
struct LiveParameter : Parameter {
  Tensor data;  // Undefined until it is initialized. A snapshot may hold it, too: ParameterMemory::Own.
  Tensor grad;  // Undefined unless `data` is there and grad_req is not kNull.
};

// Changes of a parameter after its definition.
struct ParameterOptions {
  std::optional<GradReq> grad_req;
  std::optional<double> lr_mult;
  std::optional<double> wd_mult;
};

// Thread-safe. Parameters are added while the model is defined, and never removed. Afterwards only the model's strand
// changes them, and only it may read their memory; a Parameter from Get or List is a copy without memory.
class ParameterStore {
 public:
  // ALREADY_EXISTS; INVALID_ARGUMENT: an empty name, or one of over 1,024 bytes.
  absl::Status Add(Parameter parameter);

  // NOT_FOUND lists the closest names.
  absl::StatusOr<Parameter> Get(absl::string_view name) const;
  absl::StatusOr<size_t> Find(absl::string_view name) const;
  std::vector<Parameter> List() const;
  size_t size() const;

  // Fills in unknown dimensions. INVALID_ARGUMENT: the shapes contradict each other.
  absl::Status MergeShape(size_t index, const Shape& shape);
  // Gives the parameter its memory. Requires: the tensors have its shape and dtype.
  void SetTensors(size_t index, Tensor data, Tensor grad);
  void SetDeferred(size_t index, Spec deferred);
  // INVALID_ARGUMENT: a gradient is asked of a parameter that has none, or a multiplier is negative or not finite.
  absl::Status Configure(absl::string_view name, const ParameterOptions& options);

  // For the strand, which needs no copy: valid while the store lives. Once the strand works, no parameter is added, and
  // only the strand changes one, so that it reads without the lock.
  const LiveParameter& operator[](size_t index) const ABSL_NO_THREAD_SAFETY_ANALYSIS { return *parameters_[index]; }
  // The tensor of a parameter with values. It may be replaced only by one of the same shape and dtype.
  Tensor& data(size_t index) ABSL_NO_THREAD_SAFETY_ANALYSIS { return parameters_[index]->data; }
  // Likewise of one with a gradient.
  Tensor& grad(size_t index) ABSL_NO_THREAD_SAFETY_ANALYSIS { return parameters_[index]->grad; }
  // Grows whenever a grad_req changes: compiled graphs then make the wrong set of gradients.
  uint64_t version() const;

 private:
  mutable Mutex mu_;
  std::vector<std::unique_ptr<LiveParameter>> parameters_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, size_t> index_ ABSL_GUARDED_BY(mu_);
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace gluond

#endif  // ENGINE_NN_PARAMETER_H_
