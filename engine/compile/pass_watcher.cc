#include "engine/compile/pass_watcher.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"

namespace gluond {
namespace {

ChangedCall KeyOf(const Node& node) {
  ChangedCall key{node.name(), node.op(), ""};
  for (const auto& [name, value] : node.attrs.dict) absl::StrAppend(&key.attributes, name, "=", value.size(), ":", value, ",");
  return key;
}

void AddEffect(PassReport* report, const std::string& effect) {
  absl::StrAppend(&report->effect, report->effect.empty() ? "" : "; ", effect);
}

}  // namespace

std::string PassHistory::PassOf(const Node& node) const {
  const auto made = made_by.find(KeyOf(node));
  return made == made_by.end() ? "" : made->second;
}

void PassHistory::TakeBack(absl::string_view why) {
  made_by.clear();
  for (PassReport& pass : passes) {
    pass.calls_before = pass.calls_after = passes.front().calls_before;
    pass.changes.clear();
    pass.num_changes = 0;
    if (!pass.effect.empty()) pass.effect = absl::StrCat("taken back: ", why);
  }
}

PassWatcher::PassWatcher(Unit& unit, PassHistory before) : unit_(unit), history_(std::move(before)), calls_(Calls()) {
  for (PassReport& pass : history_.passes) pass.once = true;
}

void PassWatcher::After(const Pass& pass, PassTurn turn) {
  PassReport& report = history_.passes.emplace_back();
  report.name = std::string(pass.name);
  report.optional = pass.optional;
  report.turn = turn;
  report.calls_before = report.calls_after = num_calls_;
  if (turn != PassTurn::kRan) return;
  AddChanges(&report);
  if (!unit_.note.empty()) AddEffect(&report, std::exchange(unit_.note, {}));
  if (unit_.num_constants() != num_constants_) {
    num_constants_ = unit_.num_constants();
    AddEffect(&report, absl::StrCat(num_constants_, " values follow from constants and are kept"));
  }
  if (unit_.plan.offset.size() != num_planned_) {
    num_planned_ = unit_.plan.offset.size();
    AddEffect(&report, absl::StrCat("an arena of ", unit_.plan.arena_bytes, " bytes; tensors have ", unit_.plan.unshared_bytes));
  }
  if (!unit_.chains.empty()) {
    uint32_t steps = 0;
    for (const RowChain& chain : unit_.chains) steps += chain.last - chain.first;
    AddEffect(&report, absl::StrCat(unit_.chains.size(), " chains of ", steps, " steps"));
  }
}

PassHistory PassWatcher::Take() {
  absl::erase_if(history_.made_by, [this](const auto& made) { return !calls_.contains(made.first); });
  return std::move(history_);
}

PassWatcher::CallCounts PassWatcher::Calls() {
  CallCounts calls;
  num_calls_ = 0;
  PostOrderVisit(unit_.graph().outputs, [&](const NodePtr& node) {
    if (node->is_variable()) return;
    ++calls[KeyOf(*node)];
    ++num_calls_;
  });
  return calls;
}

void PassWatcher::AddChanges(PassReport* report) {
  const CallCounts before = std::exchange(calls_, Calls());
  report->calls_after = num_calls_;
  struct Calls {
    std::vector<const Op*> gone, made;
  };
  absl::btree_map<std::string, Calls> changes;
  const auto count = [](const CallCounts& calls, const ChangedCall& key) {
    const auto found = calls.find(key);
    return found == calls.end() ? 0 : found->second;
  };
  for (const auto& [key, number] : before) {
    for (int64_t i = count(calls_, key); i < number; ++i) changes[key.name].gone.push_back(key.op);
  }
  for (const auto& [key, number] : calls_) {
    for (int64_t i = count(before, key); i < number; ++i) changes[key.name].made.push_back(key.op);
    if (count(before, key) < number) history_.made_by[key] = report->name;
  }
  int64_t gone = 0, made = 0, changed = 0;
  std::vector<PassReport::Change> news;
  for (const auto& [name, calls] : changes) {
    for (size_t i = 0; i < std::max(calls.gone.size(), calls.made.size()); ++i) {
      const Op* const was = i < calls.gone.size() ? calls.gone[i] : nullptr;
      const Op* const is = i < calls.made.size() ? calls.made[i] : nullptr;
      ++(is == nullptr ? gone : was == nullptr ? made : changed);
      (was == nullptr ? news : report->changes)
          .push_back({name, was == nullptr ? "" : was->name(), is == nullptr ? "" : is->name()});
    }
  }
  report->num_changes = gone + made + changed;
  report->changes.insert(report->changes.end(), news.begin(), news.end());
  if (report->changes.size() > PassReport::kMostChanges) report->changes.resize(PassReport::kMostChanges);
  if (report->num_changes > 0) AddEffect(report, absl::StrCat(gone, " calls gone, ", changed, " changed, ", made, " new"));
}

}  // namespace gluond
