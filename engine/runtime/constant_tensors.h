// ConstantTensors holds tensors that never change, and the forms in which kernels want them: a filter in another layout is
// made once, and not for each run. Thread-safe.
//
//   auto constants = std::make_shared<ConstantTensors>(tensors, allocator);
//   run.constants = constants;
//
// Tensors keep their contents here: an owner that wants to write to one moves to other memory first, which is no constant.

#ifndef ENGINE_RUNTIME_CONSTANT_TENSORS_H_
#define ENGINE_RUNTIME_CONSTANT_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/core/mutex.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"

namespace gluond {

class ConstantTensors final : public Constants {
 public:
  // `allocator` pays for the forms, which take at most twice the memory of the tensors.
  ConstantTensors(const std::vector<Tensor>& tensors, std::shared_ptr<Allocator> allocator);

  absl::StatusOr<const void*> Find(const void* data, absl::string_view form, size_t bytes,
                                   absl::FunctionRef<absl::Status(void*)> make) override;

 private:
  struct Entry {
    Tensor tensor;
    absl::flat_hash_map<std::string, std::shared_ptr<Buffer>> forms;  // Null: there was no memory.
  };
  const std::shared_ptr<Allocator> allocator_;
  Mutex mu_;  // Held while a form is made: others may be about to ask for it.
  absl::flat_hash_map<const void*, Entry> entries_ ABSL_GUARDED_BY(mu_);
  size_t left_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes that forms may take.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_CONSTANT_TENSORS_H_
