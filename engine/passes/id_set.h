// IdSet is a set of numbers below a bound, which tells its first and its last. Each costs a few words, however many numbers there are.
//
//   IdSet set(graph.num_nodes());
//   set.Insert(7), set.Insert(3);
//   set.First();  // 3

#ifndef ENGINE_PASSES_ID_SET_H_
#define ENGINE_PASSES_ID_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gluond {

class IdSet {
 public:
  // For numbers below `bound`.
  explicit IdSet(uint32_t bound) {
    do {
      bound = bound / 64 + 1;
      levels_.emplace_back(bound);
    } while (bound > 1);
  }

  bool empty() const { return levels_.back()[0] == 0; }

  void Insert(uint32_t id) {
    for (std::vector<uint64_t>& level : levels_) {
      level[id / 64] |= uint64_t{1} << id % 64;
      id /= 64;
    }
  }

  void Erase(uint32_t id) {
    for (std::vector<uint64_t>& level : levels_) {
      uint64_t& word = level[id / 64];
      word &= ~(uint64_t{1} << id % 64);
      if (word != 0) return;
      id /= 64;
    }
  }

  // Requires: the set is not empty.
  uint32_t First() const {
    return Descend([](uint64_t word) { return std::countr_zero(word); });
  }
  uint32_t Last() const {
    return Descend([](uint64_t word) { return 63 - std::countl_zero(word); });
  }

 private:
  template <class Choose>
  uint32_t Descend(Choose choose) const {
    uint32_t id = 0;
    for (size_t i = levels_.size(); i-- > 0;) id = 64 * id + static_cast<uint32_t>(choose(levels_[i][id]));
    return id;
  }

  std::vector<std::vector<uint64_t>> levels_;  // A bit of each level but the first tells that a word below it is not 0.
};

}  // namespace gluond

#endif  // ENGINE_PASSES_ID_SET_H_
