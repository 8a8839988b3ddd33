// KernelCache keeps what kernels and their libraries (oneDNN, cuDNN) prepare for one geometry: chosen layouts, algorithms,
// generated code. A program has one for its steps, and a session one for its single calls. The memory's owner pays for it.
//
//   ASSIGN_OR_RETURN(auto pieces, Prepared<Pieces>(ctx.kernels, size, [&] { return Pieces::Create(size); }));
//
// The least recently used goes first. Not thread-safe: calls that take place at once have caches of their own.

#ifndef ENGINE_CORE_KERNEL_CACHE_H_
#define ENGINE_CORE_KERNEL_CACHE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "engine/core/lru_map.h"
#include "engine/core/status_macros.h"
#include "engine/core/tensor.h"

namespace gluond {

class KernelCache {
 public:
  // Keeps at most `most` values that `payer` pays for, and kMostUnpaid that it refuses to pay for. `payer`, which outlives the
  // cache, may be null: nobody pays then.
  explicit KernelCache(size_t most, Allocator* payer = nullptr) : payer_(payer), values_(most), unpaid_(kMostUnpaid) {}

  // The value of `key`, from make() -> StatusOr<std::unique_ptr<Value>> at first use. Value::kept_bytes() is what it takes of
  // the host's memory, as far as its library tells.
  template <class Value, class Key, class Make>
  absl::StatusOr<std::shared_ptr<Value>> Get(const Key& key, const Make& make) {
    using Pair = std::pair<Key, std::shared_ptr<Value>>;
    const void* const type = &kTypeOf<Pair>;
    const size_t hash = absl::HashOf(type, key);
    for (LruMap<size_t, Slot>* const map : {&values_, &unpaid_}) {
      const Slot* const found = map->Find(hash);
      if (found == nullptr || found->type != type) continue;
      const Pair& pair = *static_cast<const Pair*>(found->pair.get());
      if (pair.first == key) return pair.second;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Value> made, make());
    const std::shared_ptr<Value> value = std::move(made);
    Keep(hash, {type, std::make_shared<Pair>(key, value), nullptr}, value->kept_bytes());
    return value;
  }

  size_t size() const { return values_.size() + unpaid_.size(); }

  // Few: they are for a budget that is full, whose owner would else wait for each kernel at each call.
  static constexpr size_t kMostUnpaid = 64;

 private:
  struct Slot {
    const void* type;
    std::shared_ptr<const void> pair;  // The key and the value.
    std::shared_ptr<Buffer> charge;    // Null: nobody pays.
  };
  template <class Pair>
  static constexpr char kTypeOf = 0;  // Its address stands for the type.

  void Keep(size_t hash, Slot slot, size_t bytes) {
    bool paid = true;
    if (payer_ != nullptr) {
      absl::StatusOr<std::shared_ptr<Buffer>> charge = payer_->Charge(bytes);
      paid = charge.ok();
      if (paid) slot.charge = *std::move(charge);
    }
    LruMap<size_t, Slot>& map = paid ? values_ : unpaid_;
    if (Slot* const other = map.Find(hash)) {
      *other = std::move(slot);
    } else {
      map.Insert(hash, std::move(slot));
    }
  }

  Allocator* const payer_;
  LruMap<size_t, Slot> values_, unpaid_;  // By hash: of two keys with one hash, the later one is kept.
};

// KernelCache::Get, or, where there is no cache, a value for one call.
template <class Value, class Key, class Make>
absl::StatusOr<std::shared_ptr<Value>> Prepared(KernelCache* cache, const Key& key, const Make& make) {
  if (cache != nullptr) return cache->Get<Value>(key, make);
  ASSIGN_OR_RETURN(std::unique_ptr<Value> made, make());
  return std::shared_ptr<Value>(std::move(made));
}

}  // namespace gluond

#endif  // ENGINE_CORE_KERNEL_CACHE_H_
