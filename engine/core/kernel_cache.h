// KernelCache keeps what kernels and their libraries (oneDNN, cuDNN) prepare for one geometry: chosen layouts, algorithms,
// generated code. A program has one for its steps, and a session one for its single calls. The memory's owner pays for it.
//
//   ASSIGN_OR_RETURN(auto pieces, Prepared<Pieces>(ctx.kernels, size, [&] { return Pieces::Create(size); }));
//
// The least recently used goes first. A value for which the owner's memory has no room serves one call, and is not kept.
// Not thread-safe: calls that take place at once have caches of their own.

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
  // Keeps at most `most` values, for which `payer` pays. `payer`, which outlives the cache, may be null: nobody pays then.
  explicit KernelCache(size_t most, Allocator* payer = nullptr) : payer_(payer), values_(most) {}

  // The value of `key`, from make() -> StatusOr<std::unique_ptr<Value>> at first use. Value::kept_bytes() is what it takes of
  // the host's memory, as far as its library tells.
  template <class Value, class Key, class Make>
  absl::StatusOr<std::shared_ptr<Value>> Get(const Key& key, const Make& make) {
    using Pair = std::pair<Key, std::shared_ptr<Value>>;
    const void* const type = &kTypeOf<Pair>;
    const size_t hash = absl::HashOf(type, key);
    if (const Slot* const found = values_.Find(hash); found != nullptr && found->type == type) {
      const Pair& pair = *static_cast<const Pair*>(found->pair.get());
      if (pair.first == key) return pair.second;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Value> made, make());
    const std::shared_ptr<Value> value = std::move(made);
    Keep(hash, {type, std::make_shared<Pair>(key, value), nullptr}, value->kept_bytes());
    return value;
  }

  size_t size() const { return values_.size(); }

 private:
  struct Slot {
    const void* type;
    std::shared_ptr<const void> pair;  // The key and the value.
    std::shared_ptr<Buffer> charge;    // Null: nobody pays.
  };
  template <class Pair>
  static constexpr char kTypeOf = 0;  // Its address stands for the type.

  void Keep(size_t hash, Slot slot, size_t bytes) {
    if (payer_ != nullptr) {
      absl::StatusOr<std::shared_ptr<Buffer>> charge = payer_->Charge(bytes);
      if (!charge.ok()) return;
      slot.charge = *std::move(charge);
    }
    if (Slot* const other = values_.Find(hash)) {
      *other = std::move(slot);
    } else {
      values_.Insert(hash, std::move(slot));
    }
  }

  Allocator* const payer_;
  LruMap<size_t, Slot> values_;  // By hash: of two keys with one hash, the later one is kept.
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
