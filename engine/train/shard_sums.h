// ShardSums: adds up what shards have made, in a binary tree, and hands the sums to a reducer as soon as they are final. Items are
// gradients, in the order in which they are reduced, and last a message of numbers. Only the model's strand uses it.
//
//   RETURN_IF_ERROR(sums.Begin(items, /*count=*/4, reducer));
//   for (int64_t s = 0; s < 4; ++s) {
//     for (size_t i = 0; i < items.size(); ++i) Write(sums.Part(i)), sums.Made(i);   // In any order.
//     RETURN_IF_ERROR(sums.EndShard());
//   }
//
// The memory is levels of equal layout. A shard writes the level behind the sums that wait for others. An item that is made is
// added to those of the levels below that have as many shards. So log2(count) + 1 levels are enough. A level of zeros alone, those
// of shards without rows, is remembered as such and costs nothing: what is added to it is copied there.
// Levels lie on the lane's device. A GPU's buckets are copied to the host for the reducer, and back when it has finished.

#ifndef ENGINE_TRAIN_SHARD_SUMS_H_
#define ENGINE_TRAIN_SHARD_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "engine/passes/infer.h"
#include "engine/runtime/lane.h"
#include "engine/train/gradient_reducer.h"

namespace gluond {

class ShardSums {
 public:
  // Items of one type are reduced together until they have so many bytes.
  static constexpr size_t kBucketBytes = size_t{1} << 18;

  // References must outlive it.
  ShardSums(Lane& lane, Allocator& allocator, Allocator& host_allocator)
      : lane_(lane), allocator_(allocator), host_allocator_(host_allocator) {}

  // The type in which tensors of `type` are added up: float32 for float types of 32 bits at most, otherwise float64.
  static DType SumType(DType type);
  // The bytes of the memory for `count` shards. INVALID_ARGUMENT: a shape is unknown, or huge.
  static absl::StatusOr<int64_t> Bytes(absl::Span<const Signature> items, int64_t count);

  // The needs of steps to come.
  struct Needs {
    int64_t sums = 0;      // Bytes on the lane's device, within which Begin allocates its levels.
    int64_t at_first = 0;  // Bytes that have to be there, too, and are charged up to the first Begin alone.
    int64_t level = 0;     // The host's copy of one level, where levels lie elsewhere.
    int64_t reducer = 0;   // The reducer's own bytes, on the host.
  };
  // Charges this until the end. Before others have this. RESOURCE_EXHAUSTED: there is not so much.
  absl::Status Reserve(const Needs& needs);
  // Begins with the first of `count` shards, a power of two; 0: one of zeros stands for them. Memory stays from step to step while
  // items and count do. The last item is a bucket of its own. `reducer` may be null; it is told the buckets. RESOURCE_EXHAUSTED: no
  // memory.
  absl::Status Begin(std::vector<Signature> items, int64_t count, GradientReducer* reducer);
  // Where the shard leaves the item.
  Tensor Part(size_t item) const { return At(level_, item); }
  // Where the host may write the item, before PutPart leaves it in Part: Part itself, if that lies on the host.
  Tensor HostPart(size_t item) const { return IsOnHost() ? Part(item) : HostCopy(item); }
  absl::Status PutPart(size_t item);
  // The shard has left the item there. EndShard tells errors.
  void Made(size_t item);
  // The shard has no rows: its items are zeros, the ones that change no number they are added to, -0 among them.
  void MadeZeros();
  // All items of the shard are made; the next shard begins.
  absl::Status EndShard();
  // The reducer has finished without an error: its sums go to the device.
  absl::Status Reduced();
  // The sum of the item on the host, after EndShard and Reduced.
  absl::StatusOr<Tensor> SumOnHost(size_t item);
  // The sum over all shards, and, when the reducer has finished, over all processes.
  Tensor Sum(size_t item) const { return At(0, item); }
  // Whether the reducer has been handed anything since Begin.
  bool has_started() const { return next_bucket_ > 0; }

 private:
  struct Bucket {
    size_t first, last;  // Items [first, last).
    size_t missing;      // Items that are not made yet.
  };

  static absl::StatusOr<std::vector<size_t>> Offsets(absl::Span<const Signature> items);
  Tensor At(size_t level, size_t item) const {
    return Tensor(levels_[level], offsets_[item], items_[item].shape, items_[item].dtype);
  }
  bool IsOnHost() const { return lane_.device().type == DeviceType::kCpu; }
  Tensor HostCopy(size_t item) const { return Tensor(host_, offsets_[item], items_[item].shape, items_[item].dtype); }
  void MakeBuckets();
  GradientReducer::View ViewOf(const Bucket& bucket) const;
  // Charges what is reserved and not allocated.
  absl::Status ChargeRest();
  // Adds the shard's item up, as far as others wait for it.
  absl::Status AddUp(size_t item);
  absl::Status FillWithZeros(size_t item);
  // An item of the last shard is final.
  void Ended(size_t item);
  absl::Status StartBuckets();

  Lane& lane_;
  Allocator& allocator_;
  Allocator& host_allocator_;
  GradientReducer* reducer_ = nullptr;
  std::vector<Signature> items_;
  std::vector<size_t> offsets_;  // By item, and the end of all.
  std::vector<std::shared_ptr<Buffer>> levels_;
  std::shared_ptr<Buffer> host_;  // One level's items on the host, if levels lie elsewhere.
  size_t reserved_ = 0;           // Bytes, those of the levels among them.
  std::shared_ptr<Buffer> rest_;  // Charged for them beside the levels.
  size_t reserved_on_host_ = 0;   // The same for the host, where levels lie elsewhere.
  std::shared_ptr<Buffer> rest_on_host_;
  int64_t count_ = 0;

  int64_t shard_ = 0;            // The shard under way,
  size_t level_ = 0;             // which writes this level
  size_t sums_ = 0;              // and is the end of so many sums.
  bool is_zero_ = false;         // Its items are zeros that nobody has written,
  std::vector<bool> are_zeros_;  // and so are those of these levels.
  OpContext context_;
  absl::Status status_;
  std::vector<Bucket> buckets_;
  size_t next_bucket_ = 0;  // To be handed over.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_SHARD_SUMS_H_
