#include "tests/server/group_world.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace gluond::server::group_walk {
namespace {

using MemberPhase = GroupMember::Phase;
using LeaderPhase = GroupLeader::Phase;

void CutByLeader(Connection& connection) {
  connection.leader_hears = false;
  connection.is_cut = true;
  connection.up.clear();
}

// A part of a World, for its hash.
class Cells {
 public:
  template <class... Values>
  void Add(Values... values) {
    ((cells_.at(size_++) = static_cast<uint16_t>(values)), ...);
  }
  void Add(const History& history) { Add(history.size, history.batches[0], history.batches[1]); }
  void Add(const Standing& standing) { Add(standing.incarnation, standing.applied); }
  void AddGeneration(uint64_t incarnation, uint64_t generation) { Add(kGeneration | incarnation << 8 | generation); }
  void Add(uint64_t incarnation, const FromMember::Any& message) {
    Add(message.index());
    if (const auto* standing = std::get_if<Standing>(&message)) Add(*standing);
    if (const auto* ready = std::get_if<FromMember::Ready>(&message)) AddGeneration(incarnation, ready->generation);
    if (const auto* broken = std::get_if<FromMember::Broken>(&message)) AddGeneration(incarnation, broken->generation);
    if (const auto* computed = std::get_if<FromMember::Computed>(&message)) {
      AddGeneration(incarnation, computed->generation);
      Add(computed->status.ok());
    }
  }
  void Add(uint64_t incarnation, const Down& down) {
    Add(down.message.index());
    if (const auto* form = std::get_if<FromLeader::Form>(&down.message)) {
      AddGeneration(incarnation, form->generation);
      Add(form->size + form->spares);
    }
    if (const auto* apply = std::get_if<FromLeader::Apply>(&down.message)) Add(apply->number);
    if (const auto* command = std::get_if<FromLeader::Command>(&down.message)) Add(command->number, down.batch);
    if (const auto* state = std::get_if<FromLeader::State>(&down.message)) {
      Add(state->standing);
      Add(down.state);
    }
  }
  void Add(const GroupLeader::Seat& seat) {
    Add(seat.place, seat.owes, seat.is_leaving, seat.has_state);
    Add(seat.standing);
  }

  // Generations of all parts get numbers from 0 on, in their order: nobody asks for more.
  template <size_t n>
  static void NumberGenerations(std::array<Cells, n>& parts) {
    absl::InlinedVector<uint16_t, 16> generations;
    for (const Cells& part : parts) {
      std::copy_if(part.cells_.begin(), part.cells_.begin() + part.size_, std::back_inserter(generations), &IsGeneration);
    }
    std::sort(generations.begin(), generations.end());
    generations.erase(std::unique(generations.begin(), generations.end()), generations.end());
    for (Cells& part : parts) {
      for (size_t i = 0; i < part.size_; ++i) {
        uint16_t& cell = part.cells_[i];
        if (IsGeneration(cell)) cell = std::lower_bound(generations.begin(), generations.end(), cell) - generations.begin();
      }
    }
  }
  uint64_t Hash() const { return absl::HashOf(absl::string_view(reinterpret_cast<const char*>(cells_.data()), 2 * size_)); }

 private:
  static constexpr uint16_t kGeneration = 1 << 15;
  static bool IsGeneration(uint16_t cell) { return cell >= kGeneration; }

  std::array<uint16_t, 128> cells_;
  size_t size_ = 0;
};

}  // namespace

std::string Move::Describe() const {
  static constexpr const char* kNames[] = {"submit",    "tick",  "renew", "join", "answer", "finish", "fail",       "to leader",
                                           "find gone", "drain", "exit",  "cut",  "kill",   "return", "kill leader"};
  return absl::StrCat(kNames[kind], " ", process, " ", n, outcome == kBreaks ? ", breaks" : "");
}

// A ring lacks nobody who may have left it.
bool World::IsWhole(uint64_t incarnation, uint64_t generation, int64_t ranks) const {
  for (int i = 0; i <= kMembers; ++i) {
    const Process& process = processes_[i];
    if (IncarnationOf(process) != incarnation) continue;
    bool is_in = IsInRing(process) && process.member.generation() == generation;
    if (i != kOwnMember) {
      const Connection& connection = process.connections.back();
      for (const Down& down : connection.down) {
        if (const auto* form = std::get_if<FromLeader::Form>(&down.message)) is_in = form->generation == generation;
        if (std::holds_alternative<FromLeader::End>(down.message)) is_in = false;
      }
      if (connection.is_cut) is_in = false;
    }
    ranks -= is_in;
  }
  return ranks == 0;
}

std::vector<Move> World::Answers(int i) const {
  const Process& process = processes_[i];
  MemberPhase phase = process.member.phase();
  uint64_t generation = process.member.generation();
  int64_t ranks = process.ranks;
  std::vector<Move> moves;
  for (int n = 0;; ++n) {
    if (phase == MemberPhase::kForming || phase == MemberPhase::kComputing) {
      const bool is_whole = IsWhole(IncarnationOf(process), generation, ranks);
      moves.push_back({Move::kAnswer, i, n, Move::kWorks, is_whole});
      if (!is_whole) moves.push_back({Move::kAnswer, i, n, Move::kBreaks, false});
      if (phase == MemberPhase::kComputing && faults_.failures > 0) moves.push_back({Move::kFail, i, n, Move::kFails, false});
    }
    if (i == kOwnMember || n == static_cast<int>(process.connections.back().down.size())) return moves;
    const FromLeader::Any& message = process.connections.back().down[n].message;
    if (const auto* form = std::get_if<FromLeader::Form>(&message)) {
      phase = MemberPhase::kForming;
      generation = form->generation;
      ranks = form->size + form->spares;
    } else if (std::holds_alternative<FromLeader::Command>(message)) {
      phase = MemberPhase::kComputing;
    } else {
      moves.push_back({Move::kAnswer, i, n + 1});
      return moves;
    }
  }
}

std::vector<Move> World::Moves() const {
  std::vector<Move> moves;
  if (!is_waiting_ && next_ <= kSteps && (!was_too_few_ || leader_->present() >= min_)) moves.push_back({Move::kSubmit});
  // A loss is heard before rings have failed so often that a member is suspected.
  if (leader_->waits_for_tick() && leader_->unformed() + 1 < GroupLeader::kMostUnformed) moves.push_back({Move::kTick});
  if (faults_.renewals > 0) moves.push_back({Move::kRenew, 0, 0, Move::kNone, false});
  if (processes_[kOwnMember].member.phase() == MemberPhase::kWorking) moves.push_back({Move::kFinish, kOwnMember});
  for (const Move& answer : Answers(kOwnMember)) moves.push_back(answer);
  for (int i = 0; i < kMembers; ++i) {
    const Process& process = processes_[i];
    if (!process.lives && faults_.returns > 0) moves.push_back({Move::kReturn, i, 0, Move::kNone, false});
    const bool has_join = !process.connections.empty() && process.connections.back().member_hears;
    std::vector<Move> answers;
    if (process.lives && !has_join) {
      moves.push_back({process.drains ? Move::kExit : Move::kJoin, i});
    } else if (process.lives && process.connections.back().is_cut) {
      for (int n = 0; n <= static_cast<int>(process.connections.back().down.size()); ++n) moves.push_back({Move::kJoin, i, n});
    } else if (process.lives && process.connections.back().up.empty()) {
      answers = Answers(i);
    }
    for (const Move& answer : answers) moves.push_back(answer);
    for (int n = 0; n < static_cast<int>(process.connections.size()); ++n) {
      const Connection& connection = process.connections[n];
      if (connection.leader_hears && !connection.up.empty()) moves.push_back({Move::kToLeader, i, n});
      if (connection.leader_hears && connection.is_cut) moves.push_back({Move::kFindGone, i, n});
    }
    const bool can_be_cut = has_join && !process.connections.back().is_cut;
    if (can_be_cut && !process.drains && faults_.drains > 0) moves.push_back({Move::kDrain, i, 0, Move::kNone, false});
    if (faults_.deaths == 0 || !process.lives) continue;
    moves.push_back({Move::kKill, i, 0, Move::kNone, false});
    if (can_be_cut) moves.push_back({Move::kCut, i, 0, Move::kNone, false});
    // A last message may be on its way.
    for (const Move& answer : answers) {
      if (answer.kind != Move::kAnswer) continue;
      moves.push_back({Move::kKill, i, answer.n, answer.outcome, false});
      if (can_be_cut) moves.push_back({Move::kCut, i, answer.n, answer.outcome, false});
    }
  }
  if (faults_.deaths > 0) {
    for (int steps = durable_; steps <= history().size; ++steps) moves.push_back({Move::kKillLeader, 0, steps, Move::kNone, false});
  }
  return moves;
}

void World::Work(const Move& move) {
  Process& process = processes_[move.process];
  for (int i = 0; i < move.n; ++i) {
    Connection& connection = process.connections.back();
    const Down down = connection.down.front();
    connection.down.erase(connection.down.begin());
    Hear(move.process, down);
    FinishIfWorking(move.process);
  }
  const bool forms = process.member.phase() == MemberPhase::kForming;
  switch (move.outcome) {
    case Move::kNone: break;
    case Move::kWorks: DoAll(move.process, forms ? process.member.Formed() : process.member.Computed(absl::OkStatus())); break;
    case Move::kBreaks: DoAll(move.process, process.member.Broken()); break;
    case Move::kFails: DoAll(move.process, process.member.Computed(absl::InternalError("an operator has failed"))); break;
  }
}

void World::Do(const Move& move) {
  Process& process = processes_[move.process];
  switch (move.kind) {
    case Move::kSubmit:
      is_waiting_ = true;
      was_too_few_ = false;
      DoAll(leader_->Run(kNow));
      break;
    case Move::kTick: DoAll(leader_->Tick(kNow)); break;
    case Move::kRenew:
      --faults_.renewals;
      DoAll(leader_->Renew(kNow));
      break;
    case Move::kJoin:
      Work(move);
      LoseJoin(move.process);
      process.connections.push_back({.id = ++last_id_, .incarnation = incarnation_});
      DoAll(move.process, process.member.Join(kNow));
      LeaderHears(process.connections.back());
      break;
    case Move::kAnswer:
      Work(move);
      if (move.process != kOwnMember) LeaderHears(process.connections.back());
      break;
    case Move::kFinish: Finish(move.process); break;
    case Move::kFail:
      --faults_.failures;
      Work(move);
      break;
    case Move::kToLeader: LeaderHears(process.connections[move.n]); break;
    case Move::kFindGone: {
      Connection& connection = process.connections[move.n];
      connection.leader_hears = false;
      connection.up.clear();
      DoAll(leader_->Lost(connection.id, kNow));
      break;
    }
    case Move::kCut:
      --faults_.deaths;
      Work(move);
      process.connections.back().is_cut = true;
      break;
    case Move::kDrain:
      --faults_.drains;
      process.drains = true;
      DoAll(move.process, process.member.Drain());
      break;
    case Move::kExit: Die(move.process); break;
    case Move::kKill:
      --faults_.deaths;
      Work(move);
      Die(move.process);
      break;
    case Move::kReturn:
      --faults_.returns;
      process.lives = true;
      break;
    case Move::kKillLeader:
      --faults_.deaths;
      for (Process& other : processes_) {
        for (Connection& connection : other.connections) CutByLeader(connection);
      }
      processes_[kOwnMember].history = Prefix(history(), move.n);
      // The client learns what is left, and goes on there.
      told_ = history();
      durable_ = told_.size;
      next_ = told_.size + 1;
      ++batch_;
      is_waiting_ = was_too_few_ = false;
      StartLeader();
      break;
  }
  HearOwn();
  for (int i = 0; i < kMembers; ++i) {
    const Connection* connection = processes_[i].connection();
    if (connection == nullptr || !connection->is_cut) continue;
    // Other messages than these make no difference before the end of a Join, and none does to a process that exits then.
    const bool can_matter = std::any_of(connection->down.begin(), connection->down.end(), [](const Down& down) {
      return std::holds_alternative<FromLeader::Apply>(down.message) || std::holds_alternative<FromLeader::State>(down.message);
    });
    if (!can_matter || processes_[i].drains) LoseJoin(i);
  }
  for (Process& other : processes_) {
    std::erase_if(other.connections,
                  [](const Connection& connection) { return !connection.leader_hears && !connection.member_hears; });
  }
  Check();
}

void World::Die(int i) {
  auto connections = std::move(processes_[i].connections);
  processes_[i] = NewProcess(i);
  processes_[i].lives = false;
  for (Connection& connection : connections) {
    connection.member_hears = false;
    connection.is_cut = true;
    connection.down.clear();
  }
  processes_[i].connections = std::move(connections);
}

void World::LoseJoin(int i) {
  Process& process = processes_[i];
  if (process.connection() != nullptr) {
    process.connection()->down.clear();
    process.connection()->member_hears = false;
  }
  DoAll(i, process.member.Lost());
  FinishIfWorking(i);
}

void World::Hear(int i, const Down& down) {
  Process& process = processes_[i];
  if (std::holds_alternative<FromLeader::Command>(down.message)) process.batch = down.batch;
  if (std::holds_alternative<FromLeader::State>(down.message)) process.taken = down.state;
  DoAll(i, process.member.Heard(down.message, kNow));
}

void World::LeaderHears(Connection& connection) {
  Require(!connection.up.empty(), "a member does not answer");
  if (connection.up.empty()) return;
  const FromMember::Any message = connection.up.front();
  connection.up.erase(connection.up.begin());
  DoAll(leader_->Heard(connection.id, message, kNow));
}

void World::DoAll(int i, const GroupMember::Deeds& deeds) {
  Process& process = processes_[i];
  for (const GroupMember::Deed& deed : deeds) {
    if (const auto* send = std::get_if<GroupMember::Send>(&deed)) {
      if (i == kOwnMember) {
        own_up_.push_back(send->message);
      } else if (Connection* connection = process.connection(); connection != nullptr && !connection->is_cut) {
        connection->up.push_back(send->message);
      }
    } else if (const auto* leave = std::get_if<GroupMember::Leave>(&deed)) {
      Require(false, absl::StrCat("a member leaves: ", leave->status.message()));
    } else if (const auto* form = std::get_if<FromLeader::Form>(&deed)) {
      process.ranks = form->size + form->spares;
    } else if (std::holds_alternative<FromLeader::Command>(deed)) {
      Require(process.history == history() || (i != kOwnMember && process.connections.back().is_cut),
              "a rank computes from other parameters than the leader");
    } else if (std::holds_alternative<FromLeader::Apply>(deed)) {
      process.applies = true;
    } else if (std::holds_alternative<FromLeader::End>(deed)) {
      process.batch = 0;
      process.ranks = 0;
    }
  }
}

void World::DoAll(const GroupLeader::Deeds& deeds) {
  for (const GroupLeader::Deed& deed : deeds) {
    if (const auto* send = std::get_if<GroupLeader::Send>(&deed)) {
      if (std::holds_alternative<Heartbeat>(send->message)) continue;
      const Down down = {send->message, batch_, history()};
      if (send->to == GroupLeader::kOwn) Hear(kOwnMember, down);
      for (Process& process : processes_) {
        for (Connection& connection : process.connections) {
          if (connection.id == send->to && connection.leader_hears && !connection.is_cut) connection.down.push_back(down);
        }
      }
    } else if (const auto* close = std::get_if<GroupLeader::Close>(&deed)) {
      // A member has asked for it, or has joined again.
      Require(close->status.ok() || absl::IsAborted(close->status), absl::StrCat("a member is refused: ", close->status.message()));
      for (Process& process : processes_) {
        for (Connection& connection : process.connections) {
          if (connection.id == close->member) CutByLeader(connection);
        }
      }
    } else if (const auto* answer = std::get_if<GroupLeader::Answer>(&deed)) {
      End(answer->status);
    } else if (const auto* warn = std::get_if<GroupLeader::Warn>(&deed)) {
      Require(!warn->differs, warn->text);
    }
  }
}

void World::HearOwn() {
  while (!own_up_.empty()) {
    const FromMember::Any message = own_up_.front();
    own_up_.erase(own_up_.begin());
    DoAll(leader_->Heard(GroupLeader::kOwn, message, kNow));
  }
}

void World::Finish(int i) {
  Process& process = processes_[i];
  if (process.applies) {
    Require(process.history.size < kSteps, "a step is doubled");
    if (process.history.size < kSteps) process.history.Add(process.batch);
    process.batch = 0;
  }
  if (process.taken) process.history = *process.taken;
  process.applies = false;
  process.taken.reset();
  DoAll(i, process.member.Stands(0));  // The CRC says nothing here: the rest has to do without.
}

void World::End(const absl::Status& status) {
  Require(is_waiting_, "the client is answered twice");
  is_waiting_ = false;
  if (status.ok()) {
    Require(told_.size < kSteps, "a step is answered twice");
    if (told_.size < kSteps) told_.Add(batch_);
    ++next_;
  } else if (absl::IsUnavailable(status)) {
    was_too_few_ = true;
  } else {
    ++batch_;
  }
}

void World::Check() {
  Require(history() == told_, "the client was told something else than the leader has applied");
  History decided = history();
  if (is_waiting_ && leader_->phase() == LeaderPhase::kApplying) decided.Add(batch_);
  for (const Process& process : processes_) {
    const Standing& standing = process.member.standing();
    if (!process.lives || standing.incarnation != incarnation_ || process.taken) continue;
    Require(process.history.size + process.applies == static_cast<int>(standing.applied),
            "a member tells another number than it has");
    Require(process.history.size <= decided.size && process.history == Prefix(decided, process.history.size),
            "a member has applied what the leader has not, and will not");
  }
}

bool World::IsAtRest() const {
  if (is_waiting_ || (next_ <= kSteps && !was_too_few_)) return false;
  if (leader_->phase() != LeaderPhase::kFormed || (was_too_few_ && leader_->present() >= min_)) return false;
  return std::all_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    return !process.lives || (!process.drains && process.member.phase() == MemberPhase::kFormed &&
                              process.member.generation() == leader_->generation() && IncarnationOf(process) == incarnation_ &&
                              process.history == history() && process.member.standing().applied == history().size &&
                              process.member.standing().incarnation == incarnation_);
  });
}

std::string World::Describe() const {
  std::string text = absl::StrCat("leader: phase ", static_cast<int>(leader_->phase()), ", generation ", leader_->generation(),
                                  ", steps ", static_cast<int>(history().size));
  for (const Process& process : processes_) {
    absl::StrAppend(&text, "; ", process.lives ? "" : "dead ", "phase ", static_cast<int>(process.member.phase()), ", generation ",
                    process.member.generation(), ", steps ", static_cast<int>(process.history.size));
  }
  return text;
}

uint64_t World::Hash() const {
  std::array<Cells, kMembers + 2> parts;
  for (int i = 0; i <= kMembers; ++i) {
    const Process& process = processes_[i];
    const GroupMember& member = process.member;
    Cells& part = parts[i];
    part.Add(process.lives, process.drains, process.applies, process.batch, process.ranks, member.phase());
    if (member.phase() == MemberPhase::kWorking) part.Add(member.after());
    if (IsInRing(process)) part.AddGeneration(IncarnationOf(process), member.generation());  // Else the next one is a later one.
    part.Add(member.standing());
    part.Add(process.history);
    for (const Connection& connection : process.connections) {
      part.Add(connection.incarnation, connection.leader_hears, connection.member_hears, connection.is_cut, connection.up.size());
      for (const FromMember::Any& message : connection.up) part.Add(connection.incarnation, message);
      part.Add(connection.down.size());
      for (const Down& down : connection.down) part.Add(connection.incarnation, down);
      const auto seat = leader_->seats().find(connection.id);
      part.Add(seat != leader_->seats().end());
      if (seat != leader_->seats().end()) part.Add(seat->second);
    }
  }
  Cells& rest = parts[kMembers + 1];
  rest.Add(leader_->phase(), leader_->command(), leader_->phase() != LeaderPhase::kStanding && leader_->has_changed(),
           leader_->waits_for_tick(), leader_->unformed(), incarnation_, next_, batch_);
  rest.AddGeneration(incarnation_, leader_->generation());
  rest.Add(is_waiting_, was_too_few_, faults_.deaths > 0 ? durable_ : 0, faults_.deaths, faults_.returns, faults_.failures,
           faults_.drains, faults_.renewals);
  if (const auto own = leader_->seats().find(GroupLeader::kOwn); own != leader_->seats().end()) rest.Add(own->second);
  Cells::NumberGenerations(parts);
  std::array<uint64_t, kMembers> members;
  std::transform(parts.begin(), parts.begin() + kMembers, members.begin(), [](const Cells& part) { return part.Hash(); });
  std::sort(members.begin(), members.end());
  return absl::HashOf(members, parts[kOwnMember].Hash(), rest.Hash());
}

}  // namespace gluond::server::group_walk
