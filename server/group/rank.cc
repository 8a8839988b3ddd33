#include "server/group/rank.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

GroupRank::~GroupRank() {
  if (!computes_) {
    EndRing();
    return;
  }
  // The engine still computes for a ring, which outlives it so.
  cancellation_->Cancel();
  ring_->Abort();
  (void)ring_.release();
}

void GroupRank::Do(GroupMember::Deeds deeds) {
  for (const GroupMember::Deed& deed : deeds) {
    std::visit([this](const auto& word) { On(word); }, deed);
  }
}

void GroupRank::TellStanding() {
  held_.clear();
  HoldModels(parts_.models(), [this, loop = parts_.loop, &dispatch = parts_.runner.dispatch](absl::StatusOr<HeldModels> held) {
    const auto shared = std::make_shared<absl::StatusOr<HeldModels>>(std::move(held));
    dispatch.Run(Weight::kHeavy, [this, loop, shared] {
      const uint32_t crc = shared->ok() ? Checksum(**shared) : 0;
      loop->Post([this, shared, crc] {
        if (!shared->ok()) return Do(member_.Failed(shared->status()));
        held_ = std::move(**shared);
        if (parts_.has_changed != nullptr && parts_.has_changed(held_)) member_.Changed();
        Do(member_.Stands(crc));
      });
    });
  });
}

void GroupRank::On(const FromLeader::State&) {
  parts_.load(Posted<absl::Status>([this](const absl::Status& loaded) {
    if (!loaded.ok()) return Do(member_.Failed(loaded));
    TellStanding();
  }));
}

void GroupRank::On(const FromLeader::Form& form) {
  held_.clear();
  const uint64_t number = ++rings_;
  const int64_t ranks = form.size + form.spares;
  std::unique_ptr<RingTransport> transport;
  if (ranks > 1 && place_.transports != nullptr) {
    transport.reset(place_.transports(place_.address.c_str(), static_cast<int>(form.rank), static_cast<int>(ranks), timeout_));
  }
  auto ring = Ring::Form({.rank = form.rank,
                          .size = form.size,
                          .spares = form.spares,
                          .generation = ring_name_,
                          .key = ring_key_,
                          .timeout = timeout_},
                         std::move(transport), rendezvous_, Posted<absl::Status>([this, number](const absl::Status& formed) {
                           if (number != rings_) return;
                           Do(formed.ok() ? member_.Formed() : member_.Broken());
                         }));
  if (ring.ok()) {
    ring_ = *std::move(ring);
  } else {
    Do(member_.Broken());
  }
}

void GroupRank::On(const FromLeader::Command&) {
  if (!step_.ok()) return Computed(step_.status());
  const RankStep& step = *step_;
  reducer_ = std::make_shared<RingReducer>(*ring_, step.trainer->model()->name());
  cancellation_ = std::make_shared<Cancellation>();
  computes_ = true;
  const ScopedCondition condition(step.condition);
  const ScopedAccount account(step.account == nullptr ? CurrentAccount() : step.account);
  step.trainer->ComputeStep(std::move(step_->inputs), step.step, reducer_, cancellation_,
                            Posted<absl::Status>([this](const absl::Status& status) { Computed(status); }));
}

void GroupRank::Computed(const absl::Status& status) {
  computes_ = false;
  is_computed_ = status.ok();
  if (ends_) return DropAndStand();
  waited_ = reducer_ == nullptr ? RingReducer::Clock::duration() : reducer_->waited();
  if (!status.ok() && reducer_ != nullptr && reducer_->has_failed()) return Do(member_.Broken());
  if (!status.ok() && ring_ != nullptr) ring_->Abort();
  Do(member_.Computed(status));
}

void GroupRank::On(const FromLeader::Apply& apply) {
  is_computed_ = false;
  const auto told = Posted<absl::Status>([this, wants_crc = apply.wants_crc](const absl::Status& applied) {
    step_ = absl::InternalError("there is no step");
    if (!applied.ok()) return Do(member_.Failed(applied));
    wants_crc ? TellStanding() : Do(member_.Stands(std::nullopt));
  });
  step_->trainer->ApplyStep([told, applied = step_->applied](absl::StatusOr<StepReport> report) {
    const absl::Status status = report.status();
    if (applied != nullptr) applied(std::move(report));
    told(status);
  });
}

void GroupRank::On(FromLeader::End) {
  ends_ = true;
  if (ring_ != nullptr) ring_->Abort();
  if (rendezvous_ != nullptr) rendezvous_->Cancel();
  if (!computes_) return DropAndStand();
  cancellation_->Cancel();
}

void GroupRank::DropAndStand() {
  const auto stand = [this] {
    ends_ = is_computed_ = false;
    EndRing();
    step_ = absl::InternalError("there is no step");
    TellStanding();
  };
  if (!is_computed_) return stand();
  step_->trainer->DropStep(Posted<absl::Status>([stand](const absl::Status&) { stand(); }));
}

void GroupRank::EndRing() {
  reducer_ = nullptr;
  if (rendezvous_ != nullptr) rendezvous_->Cancel();
  ring_ = nullptr;
  ++rings_;
}

}  // namespace gluond::server
