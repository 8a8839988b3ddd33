#include "engine/runtime/fair_order.h"
#include "engine/runtime/tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gluond {
namespace {

double Seconds(FairOrder::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void WorkQueue::Push(Work* work) {
  work->next_ = nullptr;
  *tail_ = work;
  tail_ = &work->next_;
}

Work* WorkQueue::Pop() {
  Work* const work = head_;
  head_ = work->next_;
  if (head_ == nullptr) tail_ = &head_;
  return work;
}

bool WorkQueue::Remove(Work* work) {
  for (Work** link = &head_; *link != nullptr; link = &(*link)->next_) {
    if (*link != work) continue;
    *link = work->next_;
    if (work->next_ == nullptr) tail_ = link;
    return true;
  }
  return false;
}

double FairOrder::Usage::Used(Clock::time_point now) const { return used * std::exp(-Seconds(now - at) / tuning::kUsageMemory); }

void FairOrder::Usage::Add(double seconds, Clock::time_point now) {
  used = Used(now) + seconds;
  at = now;
  length = (length + seconds) / 2;
}

void FairOrder::Add(WorkQueue& queue, Work* work, AccountPtr account, Clock::time_point now) {
  work->account_ = std::move(account);
  work->posted_at_ = now;
  const bool first = queue.empty();
  queue.Push(work);
  ++load_.waiting;
  if (first && !queue.running_) MakeReady(queue, now);
}

void FairOrder::Add(Work* work, AccountPtr account, Clock::time_point now) {
  WorkQueue& own = Find(account, now).own;
  Add(own, work, std::move(account), now);
}

bool FairOrder::Remove(WorkQueue& queue, Work* work) {
  if (queue.empty()) return false;
  Work* const first = queue.head_;
  const AccountPtr account = first->account_;
  if (!queue.Remove(work)) return false;
  work->account_.reset();
  --load_.waiting;
  if (first == work && !queue.running_) {  // The queue was in its account's list, and may be another account's now.
    Member& member = *members_.at(account.get());
    std::erase(member.ready, &queue);
    Refresh(member);
    if (!queue.empty()) MakeReady(queue, Clock::now());
  }
  return true;
}

bool FairOrder::ComesFirst(double used, uint64_t arrival, double least, uint64_t first) {
  return used < least - tuning::kEqualUsage || (used < least + tuning::kEqualUsage && arrival < first);
}

double FairOrder::UsedAfterNext(const Usage& usage, Clock::time_point now) const {
  return usage.Used(now) + std::min(usage.length, longest_.count());
}

FairOrder::Member& FairOrder::FirstOf(const Group& group, Clock::time_point now) const {
  Member* best = group.candidates.front();
  double least = UsedAfterNext(*best, now);
  for (Member* member : group.candidates) {
    const double used = UsedAfterNext(*member, now);
    if (!ComesFirst(used, member->arrival(), least, best->arrival())) continue;
    best = member;
    least = used;
  }
  return *best;
}

FairOrder::Least FairOrder::FindLeast() const {
  Least least;
  if (active_.size() < 2) return least;
  for (const Group* group : active_) {
    const double works = static_cast<double>(group->running) / group->share();
    least.others = std::min(least.others, std::max(works, least.works));
    if (works >= least.works) continue;
    least.works = works;
    least.whose = group;
  }
  return least;
}

bool FairOrder::MayBegin(const Group& group, const Least& least) {
  const double others = least.whose == &group ? least.others : least.works;
  return group.running == 0 || static_cast<double>(group.running + 1) / group.share() <= others;
}

bool FairOrder::ready() const {
  const Least least = FindLeast();
  return std::any_of(candidate_groups_.begin(), candidate_groups_.end(),
                     [&least](const Group* group) { return MayBegin(*group, least); });
}

std::optional<FairOrder::Piece> FairOrder::Take(Clock::time_point now) {
  const Least under_way = FindLeast();
  Member* best = nullptr;
  double least = 0;
  for (const Group* group : candidate_groups_) {
    if (!MayBegin(*group, under_way)) continue;
    Member& member = FirstOf(*group, now);
    const double used = UsedAfterNext(*group, now) / group->share();
    if (best != nullptr && !ComesFirst(used, member.arrival(), least, best->arrival())) continue;
    best = &member;
    least = used;
  }
  if (best == nullptr) return std::nullopt;
  best->group->starting = {best->Used(now), now};
  starting_ = {best->group->Used(now) / best->group->share(), now};
  WorkQueue* const queue = best->ready.front();
  best->ready.erase(best->ready.begin());
  best->running = true;
  ++best->group->running;
  Refresh(*best);
  queue->running_ = true;
  Work* const work = queue->Pop();
  const Clock::duration waited = now - work->posted_at_;
  --load_.waiting;
  ++load_.taken;
  load_.waited += waited;
  load_.longest = std::max(load_.longest, waited);
  ++running_;
  ++open_;
  return Piece{queue, work, std::move(work->account_), now};
}

void FairOrder::Done(const Piece& piece, Clock::time_point now) {
  Leave(piece, now);
  End(*piece.queue, now);
}

void FairOrder::Leave(const Piece& piece, Clock::time_point now) {
  Member& member = *members_.at(piece.account.get());
  const double length = Seconds(now - piece.begun);
  load_.worked += now - piece.begun;
  member.Add(length, now);
  member.group->Add(length, now);
  member.running = false;
  --member.group->running;
  --running_;
  Refresh(member);
}

void FairOrder::End(WorkQueue& queue, Clock::time_point now) {
  queue.running_ = false;
  --open_;
  if (!queue.empty()) MakeReady(queue, now);
}

FairOrder::Group& FairOrder::FindGroup(const AccountPtr& account, Clock::time_point now) {
  const AccountGroupPtr group = account == nullptr ? nullptr : account->group();
  std::unique_ptr<Group>& found = groups_[group.get()];
  if (found == nullptr) {
    found = std::make_unique<Group>();
    found->group = group;
    found->at = now;
    found->length = longest_.count();
  }
  return *found;
}

FairOrder::Member& FairOrder::Find(const AccountPtr& account, Clock::time_point now) {
  const auto found = members_.find(account.get());
  if (found != members_.end()) return *found->second;
  ForgetIdle(now);
  auto member = std::make_unique<Member>();
  member->account = account;
  member->group = &FindGroup(account, now);
  member->at = now;
  member->length = longest_.count();
  ++member->group->members;
  return *(members_[account.get()] = std::move(member));
}

void FairOrder::ForgetIdle(Clock::time_point now) {
  if (members_.size() < forget_at_) return;
  absl::erase_if(members_, [now](const auto& entry) {
    const Member& member = *entry.second;
    const bool idle = !member.active && member.own.empty() && Seconds(now - member.at) > tuning::kForgetIdle;
    member.group->members -= idle;
    return idle;
  });
  absl::erase_if(groups_, [](const auto& entry) { return entry.second->members == 0; });
  forget_at_ = std::max<size_t>(64, 2 * members_.size());
}

void FairOrder::MakeReady(WorkQueue& queue, Clock::time_point now) {
  queue.arrival_ = ++arrivals_;
  Member& member = Find(queue.head_->account_, now);
  const auto catch_up = [now](Usage& usage, const Usage& starting, double share) {
    usage.used = std::max(usage.Used(now), share * starting.Used(now));
    usage.at = now;
  };
  if (member.group->active == 0) catch_up(*member.group, starting_, member.group->share());
  if (!member.active) catch_up(member, member.group->starting, /*share=*/1);
  member.ready.push_back(&queue);
  Refresh(member);
}

// Notes whether the member has work, and puts it and its group into the lists of those that may begin, or takes them
// out.
void FairOrder::Refresh(Member& member) {
  Group& group = *member.group;
  const auto keep = [](auto& list, auto* each, bool wanted) {
    const auto found = std::find(list.begin(), list.end(), each);
    if (wanted == (found != list.end())) return;
    if (wanted) {
      list.push_back(each);
    } else {
      *found = list.back();
      list.pop_back();
    }
  };
  const bool active = member.running || !member.ready.empty();
  group.active += static_cast<int64_t>(active) - static_cast<int64_t>(member.active);
  member.active = active;
  keep(active_, &group, group.active > 0);
  keep(group.candidates, &member, member.may_begin());
  keep(candidate_groups_, &group, !group.candidates.empty());
}

}  // namespace gluond
