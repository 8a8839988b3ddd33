#include "server/group/rank.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

GroupRank::~GroupRank() {
  if (!computes_) {
    EndRing();
    if (is_computed_) step_->trainer->DropStep([](const absl::Status&) {});  // The model outlives the rank.
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

void GroupRank::TellStanding(NamedModels models, bool is_all) {
  held_.clear();
  held_since_ = Clock::now();
  holding_ =
      Holding::Begin(std::move(models), [this, is_all, loop = parts_.loop, &dispatch = parts_.runner.dispatch](HeldModels held) {
        const auto shared = std::make_shared<HeldModels>(std::move(held));
        loop->Post([this, is_all, loop, &dispatch, shared] {
          for (const HeldModel& model : *shared) {
            if (parts_.has_changed == nullptr && !model.status.ok()) return Do(member_.Failed(model.status));
          }
          if (parts_.has_changed != nullptr && parts_.has_changed(*shared, is_all)) member_.Changed();
          dispatch.Run(Weight::kHeavy, [this, is_all, loop, shared, checksums = checksums_] {
            const uint32_t crc = checksums->Of(*shared);
            // Members are sent the state of a leader without a ring. A hold that nobody needs costs a copy at the next step.
            const bool keeps = is_all && parts_.has_changed != nullptr;
            if (!keeps) shared->clear();
            loop->Post([this, shared, crc] {
              held_ = std::move(*shared);
              Do(member_.Stands(crc));
            });
          });
        });
      });
}

void GroupRank::GiveUpLate(Clock::time_point since) {
  if (holding_ != nullptr && held_since_ <= since) std::exchange(holding_, nullptr)->GiveUpLate();
}

void GroupRank::GiveUpSums(Clock::time_point since) {
  const auto waits_since = reducer_ == nullptr ? std::nullopt : reducer_->waits_since();
  if (computes_ && waits_since.has_value() && *waits_since <= since) ring_->Abort();
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
                           Do(formed.ok() ? member_.Formed() : member_.Broken(std::string(formed.message()), ring_->unreached()));
                         }));
  if (ring.ok()) {
    ring_ = *std::move(ring);
  } else {
    Do(member_.Broken(std::string(ring.status().message()), form.rank));
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
  if (!status.ok() && reducer_ != nullptr && reducer_->has_failed()) {
    return Do(member_.Broken(std::string(status.message()), ring_->unreached()));
  }
  if (!status.ok() && ring_ != nullptr) ring_->Abort();
  Do(member_.Computed(status));
}

void GroupRank::On(const FromLeader::Apply& apply) {
  is_computed_ = false;
  const auto told = Posted<absl::Status>([this, wants_crc = apply.wants_crc](const absl::Status& applied) {
    NamedModels stepped;
    if (applied.ok() && wants_crc) stepped.emplace_back(step_->hosted->model().name(), step_->hosted);
    step_ = absl::InternalError("there is no step");
    if (!applied.ok()) return Do(member_.Failed(applied));
    // Other models may have changed since on the leader, who sends those before their next step.
    wants_crc ? TellStanding(std::move(stepped), /*is_all=*/false) : Do(member_.Stands(std::nullopt));
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
