// All reachable states of a group of four ranks and two steps, breadth first (group_world.h). The name of a state is a hash.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/group_world.h"

namespace gluond::server::group_walk {
namespace {

// The states that have been reached, by their numbers.
class Walk {
 public:
  explicit Walk(const World& first) : first_(first) { Reach(first, 0, {}); }

  // Empty: all states keep their promises, and each can come to rest.
  std::string Run() {
    for (; !frontier_.empty(); frontier_.pop_front(), ++head_) {
      World& world = frontier_.front();
      if (world.IsAtRest()) at_rest_.push_back(head_);
      const std::vector<Move> moves = world.Moves();
      for (const Move& move : moves) {
        World next = &move == &moves.back() ? std::move(world) : world;
        next.Do(move);
        if (!next.problem().empty()) return absl::StrCat(next.problem(), Story(head_, &move));
        const uint32_t reached = Reach(next, head_, move);
        if (move.is_sure) sure_.emplace_back(reached, head_);
      }
    }
    return FindStuck();
  }
  size_t states() const { return from_.size(); }

 private:
  struct From {
    uint32_t state;
    Move move;
  };

  uint32_t Reach(const World& world, uint32_t from, const Move& move) {
    const auto [found, is_new] = numbers_.try_emplace(world.Hash(), static_cast<uint32_t>(from_.size()));
    if (is_new) {
      from_.push_back({from, move});
      frontier_.push_back(world);
    }
    return found->second;
  }

  // From where no sure moves lead to rest.
  std::string FindStuck() {
    std::sort(sure_.begin(), sure_.end());
    std::vector<bool> ends(states());
    std::vector<uint32_t> open = at_rest_;
    for (const uint32_t state : open) ends[state] = true;
    while (!open.empty()) {
      const uint32_t state = open.back();
      open.pop_back();
      for (auto edge = std::lower_bound(sure_.begin(), sure_.end(), std::pair(state, 0u));
           edge != sure_.end() && edge->first == state; ++edge) {
        if (!ends[edge->second]) open.push_back(edge->second);
        ends[edge->second] = true;
      }
    }
    const auto stuck = std::find(ends.begin(), ends.end(), false);
    return stuck == ends.end() ? "" : absl::StrCat("the client waits for ever, or the group does", Story(stuck - ends.begin()));
  }

  // The moves that lead to a state, and perhaps one more.
  std::string Story(uint32_t state, const Move* last = nullptr) const {
    std::vector<Move> moves;
    if (last != nullptr) moves.push_back(*last);
    for (; state != 0; state = from_[state].state) moves.push_back(from_[state].move);
    std::string story = absl::StrCat(", after ", moves.size(), " moves:\n");
    World world = first_;
    for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
      world.Do(*move);
      absl::StrAppend(&story, move->Describe(), "    ", world.Describe(), "\n");
    }
    return story;
  }

  const World first_;
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;  // By the hash.
  std::deque<World> frontier_;                       // States whose moves are not yet tried.
  uint32_t head_ = 0;                                // The number of the first one.
  std::vector<From> from_;
  std::vector<std::pair<uint32_t, uint32_t>> sure_;  // (to, from).
  std::vector<uint32_t> at_rest_;
};

struct WalkCase {
  const char* name;
  Faults faults;
  int64_t min;
  size_t states;  // At least.
};

class GroupWalk : public testing::TestWithParam<WalkCase> {};

TEST_P(GroupWalk, AnswersEqualHistory) {
  Walk walk(World(GetParam().faults, GetParam().min));
  EXPECT_EQ(walk.Run(), "");
  EXPECT_GE(walk.states(), GetParam().states) << "the walk has become shorter";
  RecordProperty("states", static_cast<int64_t>(walk.states()));
}

INSTANTIATE_TEST_SUITE_P(All, GroupWalk,
                         testing::ValuesIn<WalkCase>({
                             {"NothingHappens", {}, 3, 400},
                             {"TwoDeathsOfWhichTwoAreTooFew", {.deaths = 2, .returns = 1}, 3, 350'000},
                             {"TwoDeathsThatLeaveEnough", {.deaths = 2, .returns = 1}, 2, 650'000},
                             {"ADeathAReturnAndAFailure", {.deaths = 1, .returns = 1, .failures = 1}, 3, 60'000},
                             {"ADeathAndADrain", {.deaths = 1, .drains = 1}, 2, 150'000},
                             {"ADeathAndARenewal", {.deaths = 1, .renewals = 1}, 3, 20'000},
                             {"AFailureAndTwoDrains", {.failures = 1, .drains = 2}, 3, 20'000},
                         }),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace gluond::server::group_walk
