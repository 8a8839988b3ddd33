// ArenaLayout hands out ranges of bytes in an arena that grows as needed: the smallest free range that fits, else the
// arena's end. Only offsets: there is no memory here.
//
//   ArenaLayout layout;
//   const int64_t a = layout.Take(256);   // 0
//   layout.GiveBack(a, 256);

#ifndef ENGINE_PASSES_ARENA_LAYOUT_H_
#define ENGINE_PASSES_ARENA_LAYOUT_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace gluond {

class ArenaLayout {
 public:
  // Requires: bytes > 0. The offset of a range that nobody has.
  int64_t Take(int64_t bytes);
  // Requires: Take(bytes) returned `offset`. Joins the range with its free neighbours.
  void GiveBack(int64_t offset, int64_t bytes);
  // The most that was in use up to now, gaps included.
  int64_t bytes() const { return bytes_; }

 private:
  using Free = std::map<int64_t, int64_t>;  // Bytes by offset. No two touch.

  void Insert(int64_t offset, int64_t bytes);
  void Erase(Free::iterator range);

  Free free_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // The same ranges as (bytes, offset).
  int64_t bytes_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_PASSES_ARENA_LAYOUT_H_
