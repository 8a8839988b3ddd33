// SparingMemory: the memory of somebody who holds a part of it only to be faster, in idle executors and in what predictions
// have made of constants. Before the allocator refuses, it frees that part. Thread-safe.

#ifndef ENGINE_RUNTIME_SPARING_MEMORY_H_
#define ENGINE_RUNTIME_SPARING_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "engine/core/tensor.h"
#include "engine/runtime/constant_tensors.h"

namespace gluond {

class ExecutorCache;

class SparingMemory final : public Allocator {
 public:
  explicit SparingMemory(std::shared_ptr<Allocator> memory)
      : memory_(std::move(memory)), constants_(std::make_shared<ConstantTensors>(memory_)) {}

  // The constants of this memory's owner. They keep things in memory that is left, and end nobody's idle executor for it.
  const std::shared_ptr<ConstantTensors>& constants() const { return constants_; }
  // The cache whose idle executors may go; null: there is none. It is there until another one is named.
  void Spare(ExecutorCache* cache) { cache_ = cache; }

  Device device() const override { return memory_->device(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  // Frees nothing: most of what is charged makes its owner faster, too.
  absl::StatusOr<std::shared_ptr<Buffer>> Charge(size_t bytes) override { return memory_->Charge(bytes); }
  bool LetGo() override;

 private:
  const std::shared_ptr<Allocator> memory_;
  const std::shared_ptr<ConstantTensors> constants_;
  std::atomic<ExecutorCache*> cache_ = nullptr;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_SPARING_MEMORY_H_
