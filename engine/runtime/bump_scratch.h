// BumpScratch: the scratch space of a lane. A BumpScratch hands out pieces of one block by moving a mark, and Reset
// moves the mark back. A piece that does not fit gets an overflow block, and the next Reset makes one block that
// would have held everything. So after the first runs nothing is allocated any more. On a CPU the block stays small:
// the next client does not pay for this client's operator, and host_blocks.h keeps large pieces ready. Not
// thread-safe: a BumpScratch belongs to one lane.

#ifndef ENGINE_RUNTIME_BUMP_SCRATCH_H_
#define ENGINE_RUNTIME_BUMP_SCRATCH_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"

namespace gluond {

class BumpScratch final : public Scratch {
 public:
  // On a CPU, Reset keeps no larger block than this for the next operators.
  static constexpr size_t kMostKeptBytes = 1 << 20;

  // Both must outlive it. `stream` uses the space: before a block is freed, the scratch waits for the stream.
  BumpScratch(Allocator& allocator, DeviceDriver& driver, void* stream) : allocator_(allocator), driver_(driver), stream_(stream) {}

  absl::StatusOr<void*> Get(size_t bytes) override;
  // Makes sure that after the next Reset pieces of so many bytes together can be had, whatever becomes of the allocator,
  // until Release. RESOURCE_EXHAUSTED: they cannot.
  absl::Status Reserve(size_t bytes);
  // Frees all pieces at once. On a GPU the next ones may be the same memory: the stream's order keeps them apart.
  void Reset();
  // Frees all pieces and the memory that is kept for the next ones.
  void Release();

  // The bytes of all blocks.
  size_t capacity() const { return (block_ == nullptr ? 0 : block_->bytes()) + overflow_bytes(); }

 private:
  size_t overflow_bytes() const;

  Allocator& allocator_;
  DeviceDriver& driver_;
  void* const stream_;
  std::shared_ptr<Buffer> block_;                  // May be null.
  std::vector<std::shared_ptr<Buffer>> overflow_;  // Pieces that block_ had no room for since the last Reset.
  size_t mark_ = 0;                                // In block_.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BUMP_SCRATCH_H_
