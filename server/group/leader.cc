#include "server/group/leader.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"

namespace gluond::server {
namespace {

bool IsPresent(const GroupLeader::Seat& seat) { return seat.place != GroupLeader::Seat::Place::kPreparing; }

bool IsRank(const GroupLeader::Seat& seat) { return seat.place == GroupLeader::Seat::Place::kRank; }

bool IsAsFar(const Standing& a, const Standing& b) { return a.incarnation == b.incarnation && a.applied == b.applied; }

absl::Status OutOfOrder(absl::string_view message, uint64_t generation) {
  return absl::FailedPreconditionError(
      absl::StrCat("the member's ", message, " is out of order in generation ", generation, "; join again"));
}

absl::Status TooFew(int64_t present, const GroupLeader::Options& options) {
  return WithInfo(absl::UnavailableError(absl::StrCat("the group has ", present, " processes, and needs ", options.min,
                                                      " (--group_size); try again when others have joined")),
                  reason::kLimit,
                  {{"flag", "--group_size"}, {"wait_ms", absl::StrCat(std::min<int64_t>(options.timeout.count(), 1000))}});
}

// How an answer about a ring comes: late ones are about a ring that has ended, and cross with its End.
enum class Timing : uint8_t { kInTime, kLate, kOutOfOrder };

Timing TimingOf(const GroupLeader::Seat& seat, bool is_current, bool is_its_phase) {
  if (!is_current || !seat.owes) return Timing::kOutOfOrder;
  if (seat.place == GroupLeader::Seat::Place::kWaiting) return Timing::kLate;
  return IsRank(seat) && is_its_phase ? Timing::kInTime : Timing::kOutOfOrder;
}

}  // namespace

absl::StatusOr<GroupLeader> GroupLeader::Create(Options options) {
  const auto [min, max] = std::pair(options.min, options.max);
  if (min < 1 || max < min || max > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("--group_size=", min, ":", max, ": MIN is 1 or more, MAX is MIN or more, and at most ", kMost));
  }
  if (2 * min <= max && !options.allow_solo) {
    return absl::InvalidArgumentError(absl::StrCat("--group_size=", min, ":", max,
                                                   ": a leader that is cut off from the others would go on",
                                                   " alone; make MIN more than half of MAX, or give --group_allow_solo"));
  }
  return GroupLeader(std::move(options));
}

GroupLeader::Deeds GroupLeader::Heard(MemberId member, const FromMember::Any& message, Time now) {
  const auto found = seats_.find(member);
  if (found == seats_.end() && !std::holds_alternative<FromMember::Hello>(message)) {
    Part(member, OutOfOrder("first message", generation_), now);
    return Advance(now);
  }
  if (found != seats_.end()) found->second.heard = now;
  if (absl::Status status = std::visit([&](const auto& word) { return On(member, word, now); }, message); !status.ok()) {
    Part(member, std::move(status), now);
  }
  return Advance(now);
}

GroupLeader::Deeds GroupLeader::Lost(MemberId member, Time now) {
  Remove(member, now);
  return Advance(now);
}

GroupLeader::Deeds GroupLeader::Run(Time now) {
  command_ = CommandState::kWaits;
  return Advance(now);
}

bool GroupLeader::Withdraw() {
  if (command_ == CommandState::kSent && phase_ >= Phase::kComputing) return false;
  command_ = CommandState::kNone;
  return true;
}

GroupLeader::Deeds GroupLeader::Renew(Time now) {
  has_changed_ = true;
  return Advance(now);
}

GroupLeader::Deeds GroupLeader::Drain(MemberId member, Time now) {
  if (const auto found = seats_.find(member); found != seats_.end()) found->second.is_leaving = true;
  return Advance(now);
}

GroupLeader::Deeds GroupLeader::Tick(Time now) {
  waits_for_tick_ = false;
  std::erase_if(losses_, [&](const auto& each) {
    const Loss& loss = each.second;
    // A process that comes back and answers nothing again has had its patience by then.
    return now - std::max(loss.last, loss.out_until) > (loss.strikes > 0 ? 2 * kPatience : 1) * options_.timeout;
  });
  std::vector<std::pair<MemberId, absl::Status>> lost, silent;
  for (const auto& [member, seat] : seats_) {
    if (member == kOwn) continue;
    deeds_.emplace_back(Send{member, Heartbeat()});
    const bool computes = IsRank(seat) && phase_ == Phase::kComputing && seats_.at(kOwn).owes;
    if (now - seat.heard > options_.timeout) {
      lost.emplace_back(member, absl::UnavailableError(absl::StrCat("the leader has heard nothing for ", options_.timeout.count(),
                                                                    " ms (--group_timeout); join again")));
    } else if (seat.owes && !computes && now - seat.asked > kPatience * options_.timeout) {
      silent.emplace_back(member,
                          absl::UnavailableError(absl::StrCat("the member has not answered for ", kPatience, " times ",
                                                              options_.timeout.count(), " ms (--group_timeout); join again")));
    }
  }
  for (auto& [member, status] : lost) Part(member, std::move(status), now);
  for (auto& [member, status] : silent) Strike(member, std::move(status), kPatience * options_.timeout, now);
  return Advance(now);
}

int64_t GroupLeader::present() const {
  return absl::c_count_if(seats_, [](const auto& seat) { return IsPresent(seat.second); });
}

absl::Status GroupLeader::On(MemberId member, const FromMember::Hello& hello, Time now) {
  if (seats_.contains(member)) return OutOfOrder("Hello", generation_);
  if (hello.fingerprint != options_.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat("this member would compute other bits than the leader. It is '",
                                                      hello.fingerprint, "', the leader is '", options_.fingerprint,
                                                      "'; start the same build alike"));
  }
  const auto loss = losses_.find(hello.process);
  if (loss != losses_.end() && now < loss->second.out_until) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(loss->second.out_until - now);
    const std::string why = loss->second.strikes > 0 ? "the others have waited in vain for this process"
                                                     : absl::StrCat("this process was lost twice within ", options_.timeout.count(),
                                                                    " ms (--group_timeout)");
    return absl::UnavailableError(absl::StrCat(why, "; join again after ", wait.count(), " ms"));
  }
  // A process has one seat: its last Join has ended, though the leader has not heard so.
  const auto former =
      absl::c_find_if(seats_, [&](const auto& seat) { return seat.first != kOwn && seat.second.process == hello.process; });
  if (former != seats_.end()) Part(former->first, absl::AbortedError("the process has joined again"), now);
  if (static_cast<int64_t>(seats_.size()) >= options_.max) {
    return OverLimit("--group_size", "the group has ", options_.max,
                     " processes, which is its MAX; start the leader with a larger one");
  }
  Seat& seat = seats_[member];
  seat.process = hello.process;
  seat.heard = seat.asked = now;
  deeds_.emplace_back(Send{member, FromLeader::Prepare()});
  if (member == kOwn) paused_ = now;
  return absl::OkStatus();
}

absl::Status GroupLeader::On(MemberId member, const Standing& standing, Time) {
  Seat& seat = seats_.at(member);
  const bool is_asked = seat.place != Seat::Place::kRank || phase_ == Phase::kApplying;
  if (!seat.owes || !is_asked) return OutOfOrder("Standing", generation_);
  seat.owes = false;
  seat.standing = standing;
  if (seat.place == Seat::Place::kPreparing) {
    Admit();
  } else if (member == kOwn && phase_ == Phase::kApplying) {
    Finish(absl::OkStatus());
    lost_forming_ = 0;
    held_back_ = std::max<int64_t>(held_back_ - 1, 0);
    Admit();
  }
  return absl::OkStatus();
}

void GroupLeader::Admit() {
  if (held_back_ > 0 && present() >= options_.min) return;
  for (auto& [member, seat] : seats_) {
    if (seat.place != Seat::Place::kPreparing || seat.owes) continue;
    seat.place = Seat::Place::kWaiting;
    has_changed_ = true;
  }
}

absl::Status GroupLeader::On(MemberId member, const FromMember::Ready& ready, Time) {
  Seat& seat = seats_.at(member);
  const Timing timing = TimingOf(seat, ready.generation == generation_, phase_ == Phase::kForming);
  if (timing == Timing::kOutOfOrder) return OutOfOrder("Ready", generation_);
  if (timing == Timing::kInTime) seat.owes = false;
  return absl::OkStatus();
}

absl::Status GroupLeader::On(MemberId member, const FromMember::Computed& computed, Time now) {
  Seat& seat = seats_.at(member);
  const Timing timing = TimingOf(seat, computed.generation == generation_, phase_ == Phase::kComputing);
  if (timing == Timing::kOutOfOrder) return OutOfOrder("Computed", generation_);
  if (!computed.status.ok() && command_ == CommandState::kSent) Finish(computed.status);
  if (timing == Timing::kLate) return absl::OkStatus();
  seat.owes = false;
  if (!computed.status.ok()) {
    EndGeneration(now);
  } else if (member == kOwn) {
    for (auto& [other, rank] : seats_) {
      if (IsRank(rank) && rank.owes) rank.asked = now;
    }
  }
  return absl::OkStatus();
}

absl::Status GroupLeader::On(MemberId member, const FromMember::Broken& broken, Time now) {
  const bool forms = phase_ == Phase::kForming;
  const Timing timing = TimingOf(seats_.at(member), broken.generation == generation_, forms || phase_ == Phase::kComputing);
  if (timing == Timing::kOutOfOrder) return OutOfOrder("Broken", generation_);
  if (timing == Timing::kLate) return absl::OkStatus();
  EndGeneration(now);
  waits_for_tick_ = forms;
  if (forms) Unformed(member, broken, now);
  return absl::OkStatus();
}

void GroupLeader::Unformed(MemberId member, const FromMember::Broken& broken, Time now) {
  if (++unformed_ == 1) accused_.clear();
  why_unformed_ = broken.text;
  deeds_.emplace_back(Warn{absl::StrCat("no ring has formed: member ", member, ": ", broken.text), /*differs=*/false});
  // The ranks' order is that of the ids. Where nobody says who it is, the last one that came is suspected: it went without.
  MemberId suspect = kOwn, last = kOwn;
  int64_t rank = 0;
  for (const auto& [id, seat] : seats_) {
    if (!IsPresent(seat)) continue;
    if (rank++ == broken.rank) suspect = id;
    last = id;
  }
  const bool is_named = suspect != kOwn;
  if (!is_named) suspect = last;
  if (suspect == kOwn) return;
  std::set<uint64_t>& tellers = accused_[seats_.at(suspect).process];
  tellers.insert(seats_.at(member).process);
  if (unformed_ < kMostUnformed) return;
  const absl::Status status = absl::FailedPreconditionError(absl::StrCat("no ring forms with this member: ", broken.text));
  // Nobody else has said so of the other one: who tells may be the cause.
  const bool is_doubtful = is_named && tellers.size() == 1 && member != suspect && member != kOwn;
  Strike(suspect, status, options_.timeout, now);
  if (is_doubtful) Strike(member, status, options_.timeout, now);
}

void GroupLeader::Strike(MemberId member, absl::Status status, Clock::duration pause, Time now) {
  Loss& loss = losses_[seats_.at(member).process];
  const int strikes = std::min(loss.strikes + 1, 5);
  Part(member, std::move(status), now);
  loss = {.last = now, .out_until = now + (1 << strikes) * pause, .strikes = strikes};
}

absl::Status GroupLeader::On(MemberId, const FromMember::Failed& failed, Time) { return failed.status; }

absl::Status GroupLeader::On(MemberId member, FromMember::Leaving, Time) {
  seats_.at(member).is_leaving = true;
  return absl::OkStatus();
}

GroupLeader::Deeds GroupLeader::Advance(Time now) {
  while (EndPhase(now)) continue;
  return std::exchange(deeds_, {});
}

bool GroupLeader::EndPhase(Time now) {
  if (phase_ == Phase::kStanding || phase_ == Phase::kFormed) {
    for (auto next = seats_.begin(); next != seats_.end();) {
      const auto& [member, seat] = *next++;  // Part erases it.
      if (seat.is_leaving) Part(member, absl::OkStatus(), now);
    }
  }
  if (command_ != CommandState::kNone && phase_ < Phase::kComputing) {
    if (!stopped_.ok()) {
      Finish(stopped_);
    } else if (present() < options_.min) {
      Finish(TooFew(present(), options_));
    }
  }
  if (IsOwed() || !stopped_.ok()) return false;
  const uint64_t number = own().applied + 1;
  switch (phase_) {
    case Phase::kStanding:
      if (waits_for_tick_) return false;
      SendStates(now);
      if (!IsOwed() && stopped_.ok()) BeginForming(now);
      return true;
    case Phase::kForming:
      phase_ = Phase::kFormed;
      unformed_ = 0;
      why_unformed_.clear();
      deeds_.emplace_back(
          Begun{generation_, absl::c_count_if(seats_, [](const auto& seat) { return IsRank(seat.second); }), now - paused_});
      return true;
    case Phase::kFormed:
      if (has_changed_) {
        EndGeneration(now);
      } else if (command_ != CommandState::kNone) {
        command_ = CommandState::kSent;
        Say(FromLeader::Command{number}, Phase::kComputing, now);
      } else {
        return false;
      }
      return true;
    case Phase::kComputing: Say(FromLeader::Apply{number, number % options_.crc_every == 0}, Phase::kApplying, now); return true;
    case Phase::kApplying:
      phase_ = Phase::kFormed;
      for (const auto& [member, seat] : seats_) has_changed_ |= IsRank(seat) && seat.standing != own();
      return true;
  }
  return false;
}

bool GroupLeader::IsOwed() const {
  const auto own = seats_.find(kOwn);
  return own == seats_.end() || !IsPresent(own->second) ||
         absl::c_any_of(seats_, [](const auto& seat) { return IsPresent(seat.second) && seat.second.owes; });
}

void GroupLeader::SendStates(Time now) {
  CheckOwn();
  if (!stopped_.ok()) return;
  for (auto next = seats_.begin(); next != seats_.end();) {
    auto& [member, seat] = *next++;
    if (!IsPresent(seat)) continue;
    if (seat.standing == own()) {
      seat.has_state = false;
    } else if (seat.has_state) {
      Part(member,
           absl::DataLossError("this member has taken the leader's state, and has other bits; look for its memory's errors"), now);
    } else {
      if (IsAsFar(seat.standing, own())) {
        deeds_.emplace_back(Warn{absl::StrCat("member ", member, " has other bits than the leader after command ", own().applied,
                                              "; it gets the leader's")});
      }
      seat.has_state = seat.owes = true;
      seat.asked = now;
      deeds_.emplace_back(Send{member, FromLeader::State{own()}});
    }
  }
}

void GroupLeader::CheckOwn() {
  std::map<std::optional<uint32_t>, int64_t> counts;
  int64_t all = 0;
  for (const auto& [member, seat] : seats_) {
    if (!IsPresent(seat) || !IsAsFar(seat.standing, own())) continue;
    ++all;
    ++counts[seat.standing.crc];
  }
  for (const auto& [crc, count] : counts) {
    if (crc == own().crc || 2 * count <= all) continue;
    stopped_ = absl::DataLossError(absl::StrCat("training stops: ", count, " of ", all,
                                                " processes agree on other bits than the leader's after command ", own().applied,
                                                "; start the leader anew, from its last checkpoint"));
    deeds_.emplace_back(Warn{std::string(stopped_.message())});
  }
}

void GroupLeader::BeginForming(Time now) {
  ++generation_;
  phase_ = Phase::kForming;
  has_changed_ = false;
  const int64_t all = present();
  const auto size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(all)));
  int64_t rank = 0;
  for (auto& [member, seat] : seats_) {
    if (!IsPresent(seat)) continue;
    seat.place = Seat::Place::kRank;
    seat.owes = true;
    seat.asked = now;
    deeds_.emplace_back(Send{member, FromLeader::Form{generation_, rank++, size, all - size}});
  }
}

void GroupLeader::EndGeneration(Time now) {
  if (phase_ != Phase::kForming) paused_ = now;
  Say(FromLeader::End(), Phase::kStanding, now);
  for (auto& [member, seat] : seats_) {
    if (IsRank(seat)) seat.place = Seat::Place::kWaiting;
  }
}

void GroupLeader::Say(const FromLeader::Any& message, Phase phase, Time now) {
  phase_ = phase;
  for (auto& [member, seat] : seats_) {
    if (!IsRank(seat)) continue;
    seat.owes = true;
    seat.asked = now;
    deeds_.emplace_back(Send{member, message});
  }
}

void GroupLeader::Finish(absl::Status status) {
  command_ = CommandState::kNone;
  deeds_.emplace_back(Answer{std::move(status)});
}

void GroupLeader::Part(MemberId member, absl::Status status, Time now) {
  deeds_.emplace_back(Close{member, std::move(status)});
  Remove(member, now);
}

void GroupLeader::Remove(MemberId member, Time now) {
  const auto found = seats_.find(member);
  if (found == seats_.end()) return;
  const Seat seat = found->second;
  seats_.erase(found);
  waits_for_tick_ = false;
  unformed_ = 0;  // A lost member is reason enough.
  if (IsPresent(seat) && !seat.is_leaving) {
    const auto [found_loss, is_first] = losses_.try_emplace(seat.process);
    Loss& loss = found_loss->second;
    if (!is_first && now - loss.last < options_.timeout) loss.out_until = std::max(loss.out_until, now + options_.timeout);
    loss.last = now;
  }
  if (IsRank(seat) && phase_ == Phase::kForming && ++lost_forming_ >= kMostUnformed) {
    lost_forming_ = 0;
    if (now - last_held_back_ > kPatience * options_.timeout) times_held_back_ = 0;
    last_held_back_ = now;
    held_back_ = int64_t{1} << std::min(times_held_back_++, 10);
  }
  Admit();  // Newcomers may be wanted now.
  if (!IsRank(seat)) return;
  has_changed_ = true;
  if (phase_ == Phase::kForming || phase_ == Phase::kComputing) EndGeneration(now);
}

}  // namespace gluond::server
