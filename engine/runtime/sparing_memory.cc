#include "engine/runtime/sparing_memory.h"

#include "engine/runtime/executor_cache.h"

namespace gluond {

absl::StatusOr<std::shared_ptr<Buffer>> SparingMemory::Allocate(size_t bytes) {
  absl::StatusOr<std::shared_ptr<Buffer>> buffer = memory_->Allocate(bytes);
  if (buffer.ok() || !absl::IsResourceExhausted(buffer.status())) return buffer;
  return LetGo() ? memory_->Allocate(bytes) : std::move(buffer);
}

bool SparingMemory::LetGo() {
  const bool spared = constants_->Spare();
  ExecutorCache* const cache = cache_;
  const bool idle = cache != nullptr && cache->num_idle() > 0;
  if (idle) cache->Clear();
  return spared || idle;
}

}  // namespace gluond
