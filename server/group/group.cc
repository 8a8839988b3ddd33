#include "server/group/group.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/duration.h"
#include "server/codec/tensors_codec.h"
#include "server/group/join_messages.h"
#include "server/group/meeting.h"
#include "server/rpc/log.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr std::chrono::seconds kRecent{10};
constexpr size_t kPartBytes = 1 << 20;
// A ring's texts are addresses.
constexpr size_t kLongestKey = 512, kLongestValue = 4096;
constexpr int kMostTexts = 4 * GroupLeader::kMost;  // A process tells no more in a generation.

Tensor RowsOf(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<int64_t> dims(tensor.shape().begin(), tensor.shape().end());
  const size_t row_bytes = dims[0] == 0 ? 0 : tensor.bytes() / static_cast<size_t>(dims[0]);
  dims[0] = count;
  const auto offset = static_cast<size_t>(tensor.data<char>() - static_cast<const char*>(tensor.buffer()->data()));
  return Tensor(tensor.buffer(), offset + row_bytes * static_cast<size_t>(first), *Shape::FromDims(dims), tensor.dtype());
}

// The learning rate that a step brings along. Nothing: the trainer's schedule tells it.
std::optional<double> RateOf(const Trainer& trainer) {
  return trainer.options().lr_schedule.type.empty() ? std::optional(trainer.learning_rate()) : std::nullopt;
}

// Sends the file in parts, which hold the model as long as they are on their way.
void SendFile(Group::Link& link, const std::shared_ptr<PackedModel>& model, const std::string& path,
              const std::shared_ptr<std::string>& bytes) {
  for (size_t first = 0; first < bytes->size() || first == 0; first += kPartBytes) {
    v1::JoinResponse message;
    v1::JoinResponse::Part& part = *message.mutable_part();
    part.set_model(model->name());
    part.set_file(path);
    part.set_file_bytes(static_cast<int64_t>(bytes->size()));
    Attachments attachments;
    using Kept = std::pair<std::shared_ptr<std::string>, std::shared_ptr<PackedModel>>;
    part.set_data(attachments.Add(grpc::Slice(
        bytes->data() + first, std::min(kPartBytes, bytes->size() - first), [](void* kept) { delete static_cast<Kept*>(kept); },
        new Kept(bytes, model))));
    link.Send(SerializeMessage(message, attachments), /*is_heartbeat=*/false);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> Group::Create(Runner& runner, Models& models, Options options) {
  ASSIGN_OR_RETURN(GroupLeader leader, GroupLeader::Create(options.leader));
  std::unique_ptr<Group> group(new Group(runner, models, std::move(options), std::move(leader)));
  group->Begin();
  return group;
}

Group::Group(Runner& runner, Models& models, Options options, GroupLeader leader)
    : runner_(runner),
      models_(models),
      options_(std::move(options)),
      incarnation_(std::random_device()() | uint64_t{1} << 32),
      leader_(std::move(leader)),
      known_(models) {}

Group::~Group() {
  Stop();
  loop_->Stop();
}

void Group::Begin() {
  GroupRank::Parts parts{
      .runner = runner_,
      .loop = loop_,
      .models = [this] { return known_.List(); },
      .has_changed =
          [this](HeldModels& held, bool is_all) {
            if (is_all) packed_.clear();
            return known_.Take(held, is_all, own_->member().standing().applied + 1);
          },
      .load = nullptr,
      .send = [this](const FromMember::Any& message,
                     Clock::duration waited) { loop_->Post([this, message, waited] { HeardOwn(message, waited); }); },
      .leave = [this](absl::Status why) { Fail(std::move(why), LogLevel::kError); }};
  own_ = std::make_unique<GroupRank>(std::move(parts), options_.ring, FromMember::Hello{incarnation_, options_.leader.fingerprint},
                                     Standing{.incarnation = incarnation_}, options_.leader.timeout);
  members_[GroupLeader::kOwn].name = options_.name;
  loop_->Start(options_.leader.timeout / GroupLoop::kTicksOfTimeout, [this] { Tick(); });
  loop_->Post([this] { own_->Join(); });
}

int64_t Group::least_shards() const { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(options_.leader.max))); }

void Group::Stop() {
  loop_->Post([this] {
    Fail(LeaderStops(), LogLevel::kInfo);
    for (const auto& [id, member] : members_) {
      if (member.link != nullptr) member.link->Finish(LeaderStops());
    }
  });
}

// Steps.

void Group::TrainStep(GroupStep step, Trainer::OnStep done) { Enqueue(this, loop_, std::move(step), std::move(done)); }

void Group::TrainSteps(GroupStep step, DatasetSteps steps, Trainer::OnStep done) {
  const auto take = [this, loop = loop_](GroupStep next, Trainer::OnStep taken) {
    Enqueue(this, loop, std::move(next), std::move(taken));
  };
  TakeStepsOnRows(take, std::move(step), std::move(steps), std::move(done));
}

void Group::Enqueue(Group* group, const std::shared_ptr<GroupLoop>& loop, GroupStep step, Trainer::OnStep done) {
  const absl::StatusOr<int64_t> rows = RowsOfBatch(step);
  if (!rows.ok()) return done(rows.status());
  const HostedModelPtr hosted = step.hosted;
  HostedModel::Change<absl::StatusOr<StepReport>>(
      hosted, HostedModel::Counts::kVersion,
      [&](Trainer::OnStep counted) {
        auto queued = std::make_shared<QueuedStep>(std::move(step), *rows, std::move(counted));
        loop->Post([group, queued = std::move(queued)] {
          group->queue_.push_back(queued);
          group->RunNext();
        });
      },
      [group, loop, name = hosted->model().name(), rows = *rows, done = std::move(done)](absl::StatusOr<StepReport> report) {
        if (report.ok()) loop->Post([group, name, rows] { group->Applied(name, rows); });
        done(std::move(report));
      });
}

void Group::RunNext() {
  while (current_ == nullptr && !queue_.empty()) {
    current_ = queue_.front();
    queue_.pop_front();
    const HostedModelPtr& hosted = current_->step.hosted;
    const std::string& name = hosted->model().name();
    absl::Status wanted = failed_;
    wanted.Update(current_->Wanted());
    if (wanted.ok() && hosted != models_.Find(name).value_or(nullptr)) {
      wanted = absl::AbortedError("the model was deleted, or another has taken its name, before the step began");
    }
    if (wanted.ok() && hosted->trainer() != current_->step.trainer) {
      wanted = absl::AbortedError("the model has got another trainer before the step began; train again with that one");
    }
    // The strand asks again. An error there would be one of a rank, and end the generation.
    if (wanted.ok() && current_->step.condition != nullptr) wanted = current_->step.condition();
    if (!wanted.ok()) {
      std::exchange(current_, nullptr)->Tell(wanted);
      continue;
    }
    // Other models may have changed: their own steps see to that.
    if (known_.HasChanged(name, hosted, hosted->state_edits())) Do(leader_.Renew(Clock::now()));
    Do(leader_.Run(Clock::now()));
  }
}

void Group::Applied(const std::string& name, int64_t rows) {
  ++steps_;
  recent_.emplace_back(Clock::now(), rows);
  known_.Applied(name, own_->member().standing().applied);
}

void Group::TryAgain(std::shared_ptr<QueuedStep> step) {
  if (++step->tries == QueuedStep::kMostTries) {
    return step->Tell(absl::UnavailableError(
        absl::StrCat("the model was changed by others ", step->tries, " times before the step could begin; try again")));
  }
  // Steps of a model keep their order; those of others come first.
  const auto next =
      std::find_if(queue_.begin(), queue_.end(), [&](const auto& queued) { return queued->step.hosted == step->step.hosted; });
  queue_.insert(next, std::move(step));
}

RankStep Group::PartOf(const QueuedStep& queued, const Place& place) const {
  RankStep part;
  part.hosted = queued.step.hosted;
  part.trainer = queued.step.trainer;
  part.account = queued.step.account;
  part.step.rows = queued.rows;
  part.step.shards = *queued.step.hosted->virtual_shards();
  // A model may have fewer shards than the group has ranks: then the first ones have one each.
  const bool has_shards = place.rank < std::min(place.size, part.step.shards);
  part.step.count = has_shards ? std::max<int64_t>(1, part.step.shards / place.size) : 0;
  part.step.first = has_shards ? place.rank * part.step.count : 0;
  for (const NamedTensor& input : queued.step.inputs) {
    part.inputs.push_back({input.name, RowsOf(input.tensor, part.step.begin(), part.step.end() - part.step.begin())});
  }
  return part;
}

// The machine's deeds.

void Group::Do(GroupLeader::Deeds deeds) {
  for (const GroupLeader::Deed& deed : deeds) {
    std::visit([this](const auto& each) { On(each); }, deed);
  }
}

void Group::On(const GroupLeader::Send& send) {
  if (const auto* state = std::get_if<FromLeader::State>(&send.message); state != nullptr) return SendState(send.to, *state);
  if (const auto* form = std::get_if<FromLeader::Form>(&send.message); form != nullptr) return SendForm(send.to, *form);
  if (const auto* step = std::get_if<FromLeader::Command>(&send.message); step != nullptr) return SendStep(send.to, *step);
  if (send.to == GroupLeader::kOwn) return own_->Heard(send.message);
  SendTo(send.to, ToProto(send.message));
}

void Group::On(const GroupLeader::Close& close) {
  const auto member = members_.find(close.member);
  if (member == members_.end()) return;
  const Member closed = std::move(member->second);
  members_.erase(member);
  const bool is_wanted = close.status.ok();
  LogEvent(is_wanted ? "group_member_left" : "group_member_lost", is_wanted ? LogLevel::kInfo : LogLevel::kWarning,
           absl::StrCat("member ", close.member, " (", closed.name, ")", is_wanted ? " has left" : ": ", close.status.message()));
  if (closed.link != nullptr) closed.link->Finish(close.status);
}

void Group::On(const GroupLeader::Answer& answer) {
  const std::shared_ptr<QueuedStep> ended = std::exchange(current_, nullptr);
  if (ended != nullptr && !answer.status.ok()) {
    std::exchange(ended->was_changed, false) ? TryAgain(ended) : ended->Tell(answer.status);
  }
  loop_->Post([this] { RunNext(); });
}

void Group::On(const GroupLeader::Begun& begun) {
  pause_ = begun.pause;
  own_->ForgetHeld();
  packed_.clear();
  LogEvent("group_formed", LogLevel::kInfo,
           absl::StrCat("generation ", begun.generation, " has ", begun.ranks, " processes, after a pause of ",
                        std::chrono::duration_cast<std::chrono::milliseconds>(begun.pause).count(), " ms"));
}

void Group::On(const GroupLeader::Warn& warn) { LogEvent("group_differs", LogLevel::kError, warn.text); }

void Group::SendTo(MemberId member, const v1::JoinResponse& message, const Attachments& attachments) {
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.link == nullptr) return;
  found->second.link->Send(SerializeMessage(message, attachments), message.has_heartbeat());
}

void Group::SendState(MemberId member, const FromLeader::State& state) {
  const auto seat = leader_.seats().find(member);
  if (seat == leader_.seats().end()) return;  // The member has gone since.
  const Standing& stands = seat->second.standing;
  // A member that is behind needs what has changed since; one that differs needs all.
  const bool is_behind = stands.incarnation == incarnation_ && stands.applied < state.standing.applied;
  const uint64_t since = is_behind ? stands.applied : 0;
  std::vector<std::shared_ptr<PackedModel>> wanted;
  v1::JoinResponse last = ToProto(FromLeader::Any(state));
  for (const HeldModel& model : own_->held()) {
    last.mutable_state()->add_models(model.name);
    if (since != 0 && !known_.HasChangedSince(model.name, since)) continue;
    std::shared_ptr<PackedModel>& packed = packed_[model.name];
    if (packed == nullptr) packed = std::make_shared<PackedModel>(model, Budget::PartOf(runner_.memory));
    wanted.push_back(packed);
  }
  const std::shared_ptr<Link> link = members_.at(member).link;
  runner_.dispatch.Run(Weight::kHeavy, [wanted = std::move(wanted), last = std::move(last), link] {
    for (const std::shared_ptr<PackedModel>& model : wanted) {
      const absl::StatusOr<StateFiles> files = model->Files();
      if (!files.ok()) {
        LogEvent("group_state_not_sent", LogLevel::kError, absl::StrCat("model '", model->name(), "': ", files.status().message()));
        return link->Finish(files.status());
      }
      for (const auto& [path, bytes] : *files) SendFile(*link, model, path, bytes);
    }
    link->Send({grpc::Slice(last.SerializeAsString())}, /*is_heartbeat=*/false);
  });
}

void Group::SendForm(MemberId member, const FromLeader::Form& form) {
  if (member == GroupLeader::kOwn) {  // The first of all.
    absl::StatusOr<std::string> key = Ring::NewKey();
    ring_name_ = absl::StrCat(incarnation_, ".", form.generation);
    ring_key_ = key.ok() ? *std::move(key) : std::string();  // Without a key no ring forms, and the next Tick tries again.
    places_.clear();
    texts_.clear();
    meeting_ = std::make_shared<Meeting>([this, loop = loop_](const std::string& text, const std::string& value) {
      loop->Post([this, text, value] { Tell(GroupLeader::kOwn, text, value); });
    });
  }
  places_[member] = {form.rank, form.size};
  if (member == GroupLeader::kOwn) {
    own_->SetRing(ring_name_, ring_key_, meeting_);
    return own_->Heard(form);
  }
  v1::JoinResponse message = ToProto(FromLeader::Any(form));
  message.mutable_form()->set_ring(ring_name_);
  message.mutable_form()->set_key(ring_key_);
  SendTo(member, message);
}

void Group::SendStep(MemberId member, const FromLeader::Command& command) {
  RankStep part = PartOf(*current_, places_.at(member));
  const std::string& name = part.hosted->model().name();
  if (member == GroupLeader::kOwn) {  // The first of all.
    current_rate_ = RateOf(*part.trainer);
    const absl::StatusOr<uint64_t> edits = known_.Edits(name);
    // The strand asks after all changes that came before the step.
    part.condition = [queued = current_, edits, rate = current_rate_]() -> absl::Status {
      RETURN_IF_ERROR(edits.status());
      if (queued->step.condition != nullptr) RETURN_IF_ERROR(queued->step.condition());
      if (queued->step.hosted->state_edits() == *edits && RateOf(*queued->step.trainer) == rate) return absl::OkStatus();
      queued->was_changed = true;
      return absl::AbortedError("the model has changed before the step began");
    };
    part.applied = [queued = current_](absl::StatusOr<StepReport> report) { queued->Tell(std::move(report)); };
    own_->SetStep(std::move(part));
    return own_->Heard(command);
  }
  v1::JoinResponse message = ToProto(FromLeader::Any(command));
  v1::JoinResponse::Step& step = *message.mutable_step();
  step.set_model(name);
  step.set_rows(part.step.rows);
  step.set_shards(part.step.shards);
  step.set_first(part.step.first);
  step.set_count(part.step.count);
  if (current_rate_.has_value()) step.set_learning_rate(*current_rate_);
  Attachments attachments;
  const absl::Status encoded =
      EncodeTensors(part.inputs, v1::Tensor::RAW, std::numeric_limits<int64_t>::max(), step.mutable_inputs(), &attachments);
  if (!encoded.ok()) step.clear_inputs();  // The member says that it lacks them.
  SendTo(member, message, attachments);
}

void Group::Tell(MemberId from, const std::string& key, const std::string& value) {
  v1::JoinResponse message;
  message.mutable_meeting()->set_key(key);
  message.mutable_meeting()->set_value(value);
  for (const auto& [id, place] : places_) {
    if (id != from) SendTo(id, message);
  }
  if (from != GroupLeader::kOwn && meeting_ != nullptr) meeting_->Heard(key, value);
}

// Members.

void Group::Heard(const std::shared_ptr<Link>& link, v1::JoinRequest message) {
  loop_->Post([this, link, message = std::move(message)] { HeardNow(link, message); });
}

void Group::HeardNow(const std::shared_ptr<Link>& link, const v1::JoinRequest& message) {
  auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second.link == link; });
  if (found == members_.end()) {
    if (!message.has_hello()) return link->Finish(absl::FailedPreconditionError("the first message is `hello`"));
    if (options_.only_local && !link->is_local()) {
      return link->Finish(FailedPrecondition("this leader has no certificate, so that members of this machine alone may join; ",
                                             "give it --tls_cert and --tls_key"));
    }
    found = members_.emplace(next_member_++, Member{link, message.hello().name()}).first;
    LogEvent("group_member_joins", LogLevel::kInfo, absl::StrCat("member ", found->first, " (", found->second.name, ") joins"));
  }
  const MemberId member = found->first;
  if (message.has_meeting()) {
    const std::string& key = message.meeting().key();
    const std::string& value = message.meeting().value();
    if (!places_.contains(member)) return;  // A text of an earlier ring.
    if (key.size() <= kLongestKey && value.size() <= kLongestValue && ++texts_[member] <= kMostTexts)
      return Tell(member, key, value);
    Do(leader_.Lost(member, Clock::now()));
    return On(GroupLeader::Close{member, Invalid("the texts of a ring are too long, or too many")});
  }
  const std::optional<FromMember::Any> word = FromProto(message);
  if (!word.has_value()) return;
  if (message.has_computed()) {
    const auto& waited = message.computed().waited();
    found->second.waited_seconds +=
        0.1 * (static_cast<double>(waited.seconds()) + 1e-9 * waited.nanos() - found->second.waited_seconds);
  }
  Do(leader_.Heard(member, *word, Clock::now()));
}

void Group::HeardOwn(const FromMember::Any& message, Clock::duration waited) {
  if (std::holds_alternative<FromMember::Computed>(message)) {
    double& mean = members_.at(GroupLeader::kOwn).waited_seconds;
    mean += 0.1 * (std::chrono::duration<double>(waited).count() - mean);
  }
  Do(leader_.Heard(GroupLeader::kOwn, message, Clock::now()));
}

void Group::Ended(const std::shared_ptr<Link>& link) {
  loop_->Post([this, link] {
    const auto found =
        std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second.link == link; });
    if (found == members_.end()) return;
    const MemberId member = found->first;
    LogEvent("group_member_lost", LogLevel::kWarning,
             absl::StrCat("member ", member, " (", found->second.name, "): its Join has ended"));
    members_.erase(found);
    Do(leader_.Lost(member, Clock::now()));
  });
}

void Group::Tick() {
  // A step that nobody waits for any more holds its batch no longer.
  std::erase_if(queue_, [](const auto& queued) {
    const absl::Status wanted = queued->Wanted();
    if (!wanted.ok()) queued->Tell(wanted);
    return !wanted.ok();
  });
  if (current_ != nullptr) {
    absl::Status wanted = current_->Wanted();
    wanted.Update(failed_);
    if (!wanted.ok() && leader_.Withdraw()) std::exchange(current_, nullptr)->Tell(wanted);
  }
  // A rank that computes for ever would keep all others.
  own_->GiveUpSums(Clock::now() - GroupLeader::kPatience * options_.leader.timeout);
  Do(leader_.Tick(Clock::now()));
  RunNext();
  while (!recent_.empty() && Clock::now() - recent_.front().first > kRecent) recent_.pop_front();
}

void Group::Fail(absl::Status why, LogLevel level) {
  if (!failed_.ok()) return;
  failed_ = std::move(why);
  LogEvent("group_ends", level, failed_.message());
  // A step that the ranks compute or apply now has an answer of its own, unless the leader's own member has failed.
  const bool ends = leader_.Withdraw() || own_->member().phase() == GroupMember::Phase::kOut;
  if (ends && current_ != nullptr) std::exchange(current_, nullptr)->Tell(failed_);
  RunNext();
}

void Group::DrainMember(MemberId member, std::function<void(absl::Status)> done) {
  loop_->Post([this, member, done = std::move(done)] {
    if (member == GroupLeader::kOwn) return done(Invalid("member 0 is the leader itself; stop its process"));
    if (!members_.contains(member)) return done(NotFound("the group has no member ", member, "; GetGroup lists them"));
    Do(leader_.Drain(member, Clock::now()));
    done(absl::OkStatus());
  });
}

void Group::Describe(std::function<void(v1::GetGroupResponse)> done) {
  loop_->Post([this, done = std::move(done)] { done(DescribeNow()); });
}

v1::GetGroupResponse Group::DescribeNow() const {
  const Clock::time_point now = Clock::now();
  v1::GetGroupResponse group;
  group.set_generation(leader_.generation());
  group.set_min(options_.leader.min);
  group.set_max(options_.leader.max);
  group.set_applied(own_->member().standing().applied);
  group.set_steps(steps_);
  ToProto(pause_, group.mutable_pause());
  int64_t rows = 0;
  for (const auto& [time, count] : recent_) rows += count;
  const double seconds = recent_.empty() ? 1 : std::max(1.0, std::chrono::duration<double>(now - recent_.front().first).count());
  group.set_steps_per_second(static_cast<double>(recent_.size()) / seconds);
  group.set_rows_per_second(static_cast<double>(rows) / seconds);
  for (const auto& [id, seat] : leader_.seats()) {
    const auto named = members_.find(id);
    const auto place = places_.find(id);
    v1::GroupMember& member = *group.add_members();
    member.set_member(id);
    if (named != members_.end()) {
      member.set_name(named->second.name);
      const double waited = named->second.waited_seconds;
      if (waited > 0)
        ToProto(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waited)), member.mutable_waited());
    }
    const bool is_spare = place != places_.end() && place->second.rank >= place->second.size;
    using Seat = GroupLeader::Seat::Place;
    member.set_place(seat.place == Seat::kPreparing ? v1::GroupMember::PREPARING
                     : seat.place == Seat::kWaiting ? v1::GroupMember::WAITING
                     : is_spare                     ? v1::GroupMember::SPARE
                                                    : v1::GroupMember::RANK);
    member.set_applied(seat.standing.applied);
    if (id != GroupLeader::kOwn) ToProto(now - seat.heard, member.mutable_silent());
    member.set_is_leaving(seat.is_leaving);
  }
  if (!failed_.ok()) {
    group.set_why_not(std::string(failed_.message()));
  } else if (leader_.phase() == GroupLeader::Phase::kForming || leader_.phase() == GroupLeader::Phase::kStanding) {
    group.set_why_not("the next generation begins");
  } else if (leader_.present() < options_.leader.min) {
    group.set_why_not(
        absl::StrCat(leader_.present(), " of the ", options_.leader.min, " processes are there that --group_size asks for"));
  }
  return group;
}

}  // namespace gluond::server
