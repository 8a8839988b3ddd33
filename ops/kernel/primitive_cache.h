// PrimitiveCache keeps what a library (oneDNN, cuDNN) prepares for one geometry: chosen layouts, algorithms, generated
// code. Kernels hold one per thread: lanes share nothing, so there is no lock, and a primitive fits the number of
// compute threads of its lane.
//
//   thread_local PrimitiveCache<ConvKey, Forward> cache;
//   ASSIGN_OR_RETURN(Forward* forward, cache.Get(key, [&] { return Forward::Create(geometry); }));

#ifndef OPS_KERNEL_PRIMITIVE_CACHE_H_
#define OPS_KERNEL_PRIMITIVE_CACHE_H_

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace gluond::ops {

template <class Key, class Value>
class PrimitiveCache {
 public:
  // The value of `key`, from make() -> StatusOr<std::unique_ptr<Value>> at first use. Valid until the next Get.
  template <class Make>
  absl::StatusOr<Value*> Get(const Key& key, Make make) {
    if (const auto it = values_.find(key); it != values_.end()) return it->second.get();
    absl::StatusOr<std::unique_ptr<Value>> made = make();
    if (!made.ok()) return made.status();
    if (values_.size() >= kMaxEntries) values_.clear();
    return values_.emplace(key, *std::move(made)).first->second.get();
  }

 private:
  // Far more than a model's layers; bounds what a client that varies its shapes can make the server keep.
  static constexpr size_t kMaxEntries = 512;

  absl::flat_hash_map<Key, std::unique_ptr<Value>> values_;
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_PRIMITIVE_CACHE_H_
