// ParameterMemory: the values and gradients of a model's parameters, on its device. Only the model's strand uses it;
// the thread-safe functions of store() are the exception.
//
// A snapshot, or a session's array, holds the values' tensors as they are. Values are written in place; while somebody
// else holds their tensor, they move to other memory first. A run that may fail after it has written writes drafts.

#ifndef ENGINE_NN_PARAMETER_MEMORY_H_
#define ENGINE_NN_PARAMETER_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "engine/core/tensor.h"
#include "engine/nn/named_tensor.h"
#include "engine/nn/parameter.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/transfer.h"

namespace gluond {

class ConstantTensors;

class ParameterMemory {
 public:
  // Values are made on the host, by `host`. The lane must outlive it.
  // `constants` are for what predictions make of the values.
  ParameterMemory(Lane& lane, std::shared_ptr<Allocator> device, std::shared_ptr<Allocator> host,
                  std::shared_ptr<ConstantTensors> constants)
      : lane_(lane), device_(std::move(device)), host_(std::move(host)), own_constants_(std::move(constants)) {}

  absl::Status Add(const Parameter& parameter);
  // The parameter table.
  const ParameterStore& store() const { return store_; }
  ParameterStore& mutable_store() { return store_; }

  // Gives values to the parameters that have none, or with `again` to all. A parameter of unknown shape gets its values
  // from InitializeDeferred once the shape is known. Values depend on `seed`, the parameter's name and shape only.
  absl::Status Initialize(const Spec& initializer, bool again, uint64_t seed);
  absl::Status InitializeDeferred(uint64_t seed);
  // Copies values that lie on the host or on the device. All or none. NOT_FOUND: no such parameter. INVALID_ARGUMENT:
  // another shape or dtype.
  absl::Status Set(const NamedTensors& values);
  // Takes the tensors themselves, which lie on the device and keep their contents. `constants`, which may be null, has them for
  // all models that took them. Errors as Set's; RESOURCE_EXHAUSTED: no memory for a gradient.
  absl::Status Adopt(const NamedTensors& values, std::shared_ptr<ConstantTensors> constants);
  // The values, for a run that only predicts, and what earlier ones have made of them.
  std::shared_ptr<ConstantTensors> Constants();
  // To be called before the values change.
  void ForgetConstants();
  // Copies on the host. Empty `names`: all there are. FAILED_PRECONDITION: one is not initialized (has no gradient).
  absl::StatusOr<NamedTensors> Values(std::vector<std::string> names) const { return Read(std::move(names), false); }
  absl::StatusOr<NamedTensors> Gradients(std::vector<std::string> names) const { return Read(std::move(names), true); }
  // The tensors of all parameters with values. A tensor keeps its contents as long as somebody holds it.
  NamedTensors Hold() const;
  // Likewise of these. NOT_FOUND: no such parameter. FAILED_PRECONDITION: one is not initialized.
  absl::StatusOr<NamedTensors> Hold(const std::vector<std::string>& names) const;
  // To be called before anything but this class writes the parameter's values. RESOURCE_EXHAUSTED: somebody else holds
  // them, and there is no memory for a copy.
  absl::Status Own(size_t parameter) {
    ForgetConstants();
    return Annotate(gluond::Own(&store_.data(parameter), lane_.lanes(), *device_), kHeld);
  }
  // A draft is a copy of what a parameter has, or with `copied` false memory for it, for a run to write. Swap gives the parameter
  // the draft in place of what it has, which becomes the draft: a second Swap takes the first one back. A later Draft ends this
  // one, and takes its memory if nobody else holds it. Errors as Own's.
  enum class Part { kValues, kGradient };
  absl::StatusOr<Tensor> Draft(size_t parameter, Part part, bool copied = true);
  void Swap(size_t parameter, Part part) {
    if (part == Part::kValues) ForgetConstants();
    std::swap(PartOf(parameter, part), DraftOf(parameter, part));
  }
  absl::Status Configure(const std::string& name, const ParameterOptions& options);
  absl::Status ZeroGradients();
  // A sum of gradients that somebody holds stays as it is; zeros take other memory then. RESOURCE_EXHAUSTED: there is none.
  absl::Status ZeroGradient(size_t parameter);
  // Afterwards the gradients are as if no backward pass had run.
  absl::Status ForgetGradients();

  // Whether the parameter's gradient was written since the last step.
  bool fresh(size_t parameter) const { return fresh_[parameter]; }
  void set_fresh(size_t parameter, bool fresh) { fresh_[parameter] = fresh; }

 private:
  static constexpr char kHeld[] =
      "a checkpoint being saved, or a session that has opened the model, holds the values, "
      "and a change of them needs other memory";

  struct Memory {
    Tensor data;
    Tensor grad;
  };
  Tensor& PartOf(size_t parameter, Part part) { return part == Part::kValues ? store_.data(parameter) : store_.grad(parameter); }
  Tensor& DraftOf(size_t parameter, Part part) { return part == Part::kValues ? drafts_[parameter].data : drafts_[parameter].grad; }
  // The parameters of these names. Errors as Set's.
  absl::StatusOr<std::vector<size_t>> FindFor(const NamedTensors& values) const;
  // Uninitialized memory for new values, and the gradient. The parameter gets it from SetTensors once the values are
  // written: nobody may see the memory's old contents.
  absl::StatusOr<Memory> MemoryFor(size_t parameter, const Shape& shape);
  // The parameter's gradient, or zeros where it has none yet. Undefined where grad_req is null.
  absl::StatusOr<Tensor> GradientOf(size_t parameter, const Shape& shape);
  absl::Status Fill(size_t parameter, const Spec& initializer, uint64_t seed);
  absl::Status Zero(const Tensor& tensor);
  // The value, or the gradient, of the parameter. FAILED_PRECONDITION: it has none.
  absl::StatusOr<Tensor> Find(const std::string& name, bool gradients) const;
  absl::StatusOr<NamedTensors> Read(std::vector<std::string> names, bool gradients) const;

  Lane& lane_;
  const std::shared_ptr<Allocator> device_, host_;
  const std::shared_ptr<ConstantTensors> own_constants_;
  bool has_own_constants_ = false;                     // They have all values, as these are now.
  std::shared_ptr<ConstantTensors> shared_constants_;  // In place of the own ones, for values that nobody writes.
  ParameterStore store_;
  std::vector<bool> fresh_;
  std::vector<Memory> drafts_;  // By parameter.
};

}  // namespace gluond

#endif  // ENGINE_NN_PARAMETER_MEMORY_H_
