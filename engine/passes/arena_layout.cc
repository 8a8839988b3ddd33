#include "engine/passes/arena_layout.h"

#include <iterator>

namespace gluond {

int64_t ArenaLayout::Take(int64_t bytes) {
  if (const auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end()) {
    const auto [size, offset] = *fit;
    Erase(free_.find(offset));
    if (size > bytes) Insert(offset + bytes, size - bytes);
    return offset;
  }
  int64_t offset = bytes_;
  if (!free_.empty()) {  // A free range at the end needs only the rest.
    const auto last = std::prev(free_.end());
    if (last->first + last->second == bytes_) {
      offset = last->first;
      Erase(last);
    }
  }
  bytes_ = offset + bytes;
  return offset;
}

void ArenaLayout::GiveBack(int64_t offset, int64_t bytes) {
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      Erase(previous);
    }
  }
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    Erase(next);
  }
  Insert(offset, bytes);
}

void ArenaLayout::Insert(int64_t offset, int64_t bytes) {
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void ArenaLayout::Erase(Free::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

}  // namespace gluond
