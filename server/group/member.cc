#include "server/group/member.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gluond::server {

GroupMember::Deeds GroupMember::Join(Time now) {
  phase_ = Phase::kJoining;
  generation_ = 0;
  heard_ = now;
  return {Send{hello_}};
}

GroupMember::Deeds GroupMember::Heard(const FromLeader::Any& message, Time now) {
  heard_ = now;
  return std::visit([this](const auto& word) { return On(word); }, message);
}

GroupMember::Deeds GroupMember::Lost() {
  switch (phase_) {
    case Phase::kWorking: after_ = Phase::kOut; return {};
    case Phase::kOut: return {};
    case Phase::kJoining:
    case Phase::kWaiting: phase_ = Phase::kOut; return {};
    default: return Work(FromLeader::End(), Phase::kOut);
  }
}

GroupMember::Deeds GroupMember::Tick(Time now) {
  if (phase_ == Phase::kOut || (phase_ == Phase::kWorking && after_ == Phase::kOut)) return {};
  if (now - heard_ <= timeout_) return {Send{Heartbeat()}};
  return Part(absl::UnavailableError(absl::StrCat("the group's leader has said nothing for ", timeout_.count(),
                                                  " ms (--group_timeout); the member joins again")),
              /*tells=*/false);
}

GroupMember::Deeds GroupMember::Drain() { return {Send{FromMember::Leaving()}}; }

GroupMember::Deeds GroupMember::Formed() {
  if (phase_ != Phase::kForming) return {};
  phase_ = Phase::kFormed;
  return {Send{FromMember::Ready{generation_}}};
}

GroupMember::Deeds GroupMember::Computed(absl::Status status) {
  const bool is_late = phase_ == Phase::kWorking && after_ != Phase::kOut && !status.ok();  // The leader wants to know why.
  if (phase_ != Phase::kComputing && !is_late) return {};
  if (!is_late) phase_ = status.ok() ? Phase::kComputed : Phase::kBroken;
  return {Send{FromMember::Computed{generation_, std::move(status)}}};
}

GroupMember::Deeds GroupMember::Broken(std::string text, std::optional<int64_t> rank) {
  if (phase_ != Phase::kForming && phase_ != Phase::kComputing) return {};
  phase_ = Phase::kBroken;
  return {Send{FromMember::Broken{generation_, std::move(text), rank}}};
}

GroupMember::Deeds GroupMember::Stands(std::optional<uint32_t> crc) {
  phase_ = after_;
  standing_.crc = crc;
  if (phase_ == Phase::kOut) return {};
  return {Send{standing_}};
}

GroupMember::Deeds GroupMember::Failed(absl::Status status) {
  const bool is_joined = after_ != Phase::kOut;
  phase_ = Phase::kOut;
  standing_ = {};
  if (!is_joined) return {};
  return {Leave{std::move(status)}};
}

GroupMember::Deeds GroupMember::On(const FromLeader::Prepare& prepare) {
  if (phase_ != Phase::kJoining) return OutOfOrder("Prepare");
  return Work(prepare, Phase::kWaiting);
}

GroupMember::Deeds GroupMember::On(const FromLeader::State& state) {
  if (phase_ != Phase::kWaiting) return OutOfOrder("State");
  standing_ = state.standing;
  return Work(state, Phase::kWaiting);
}

GroupMember::Deeds GroupMember::On(const FromLeader::Form& form) {
  if (phase_ != Phase::kWaiting || form.generation <= generation_) return OutOfOrder(absl::StrCat("Form ", form.generation));
  phase_ = Phase::kForming;
  generation_ = form.generation;
  return {form};
}

GroupMember::Deeds GroupMember::On(const FromLeader::Command& command) {
  if (phase_ != Phase::kFormed || command.number != standing_.applied + 1) {
    return OutOfOrder(absl::StrCat("Command ", command.number));
  }
  phase_ = Phase::kComputing;
  return {command};
}

GroupMember::Deeds GroupMember::On(const FromLeader::Apply& apply) {
  if (phase_ != Phase::kComputed || apply.number != standing_.applied + 1) return OutOfOrder(absl::StrCat("Apply ", apply.number));
  standing_.applied = apply.number;
  return Work(apply, Phase::kFormed);
}

GroupMember::Deeds GroupMember::On(const FromLeader::End& end) {
  if (phase_ < Phase::kForming) return OutOfOrder("End");
  return Work(end, Phase::kWaiting);
}

template <class Word>
GroupMember::Deeds GroupMember::Work(const Word& word, Phase after) {
  phase_ = Phase::kWorking;
  after_ = after;
  return {word};
}

GroupMember::Deeds GroupMember::OutOfOrder(absl::string_view message) {
  return Part(
      absl::FailedPreconditionError(absl::StrCat("the leader's ", message, " is out of order after command ", standing_.applied,
                                                 " and generation ", generation_, "; the member joins again")),
      /*tells=*/true);
}

GroupMember::Deeds GroupMember::Part(absl::Status status, bool tells) {
  Deeds deeds = Lost();
  deeds.push_back(Leave{std::move(status), tells});
  return deeds;
}

}  // namespace gluond::server
