// LruMap: a map that holds a bounded number of values and drops the least recently used one first. Not thread-safe.

#ifndef ENGINE_CORE_LRU_MAP_H_
#define ENGINE_CORE_LRU_MAP_H_

#include <cstddef>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace gluond {

template <class Key, class Value>
class LruMap {
 public:
  // `most`: at least 1.
  explicit LruMap(size_t most) : most_(most) {}

  size_t size() const { return values_.size(); }

  // Null: there is none. Valid until the next Insert.
  template <class K>
  Value* Find(const K& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    values_.splice(values_.begin(), values_, found->second);
    return &values_.front().second;
  }

  // Requires: the key is not there.
  Value& Insert(Key key, Value value) {
    if (values_.size() >= most_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    values_.emplace_front(std::move(key), std::move(value));
    places_.emplace(values_.front().first, values_.begin());
    return values_.front().second;
  }

  void Clear() {
    places_.clear();
    values_.clear();
  }

 private:
  using Values = std::list<std::pair<Key, Value>>;

  const size_t most_;
  Values values_;  // The most recently used first.
  absl::flat_hash_map<Key, typename Values::iterator> places_;
};

}  // namespace gluond

#endif  // ENGINE_CORE_LRU_MAP_H_
