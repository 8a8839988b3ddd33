#include "server/group/group.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/tensors_codec.h"
#include "server/group/callback_relay.h"
#include "server/group/join_messages.h"
#include "server/group/meeting.h"
#include "server/group/rank.h"
#include "server/group/shared_datasets.h"
#include "server/rpc/log.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr std::chrono::seconds kRecent{10};
constexpr size_t kPartBytes = 1 << 20;
constexpr int kLongestWait = 6;  // Timeouts, for a step to begin.
// A ring's texts are addresses.
constexpr size_t kLongestName = 256, kLongestKey = 512, kLongestValue = 4096;
constexpr int kMostTexts = 4 * GroupLeader::kMost;  // A process tells no more in a generation.

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
      relay_(std::make_shared<CallbackRelay>(models_, options_.hosts)),
      leader_(std::move(leader)),
      known_(models),
      datasets_(std::make_unique<SharedDatasets>(
          runner.dispatch, loop_, [this](MemberId member, const v1::JoinResponse& message, const Attachments& attachments) {
            SendTo(member, message, attachments);
          })) {}

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
      .leave = [this](absl::Status why, bool) { Fail(std::move(why), LogLevel::kError); }};
  own_ = std::make_unique<GroupRank>(std::move(parts), options_.ring, FromMember::Hello{incarnation_, options_.leader.fingerprint},
                                     Standing{.incarnation = incarnation_}, options_.leader.timeout);
  members_[GroupLeader::kOwn].name = options_.name;
  loop_->Start(GroupLoop::PeriodOf(options_.leader.timeout), [this] { Tick(); });
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
          if (queued->step.dataset != nullptr) group->datasets_->Use(queued->step.dataset);
          group->queue_.Add(queued);
          group->RunNext();
        });
      },
      [group, loop, name = hosted->model().name(), rows = *rows, done = std::move(done)](absl::StatusOr<StepReport> report) {
        if (report.ok()) loop->Post([group, name, rows] { group->Applied(name, rows); });
        done(std::move(report));
      });
}

absl::Status Group::WhyNot(const QueuedStep& step) const {
  RETURN_IF_ERROR(failed_);
  RETURN_IF_ERROR(step.step.wanted());
  const HostedModelPtr& hosted = step.step.hosted;
  if (hosted != models_.Find(hosted->model().name()).value_or(nullptr)) {
    return absl::AbortedError("the model was deleted, or another has taken its name, before the step began");
  }
  RETURN_IF_ERROR(known_.WhyLate(hosted->model().name()));
  if (hosted->trainer() == step.step.trainer) return absl::OkStatus();
  return absl::AbortedError("the model has got another trainer before the step began; train again with that one");
}

void Group::RunNext() {
  while (current_ == nullptr) {
    current_ = queue_.Take();
    if (current_ == nullptr) return;
    waits_since_ = Clock::now();
    absl::Status why_not = WhyNot(*current_);
    // The strand asks again. An error there would be one of a rank, and end the generation.
    if (why_not.ok() && current_->step.condition != nullptr) why_not = current_->step.condition();
    if (!why_not.ok()) {
      EndCurrent(why_not);
      continue;
    }
    // Other models may have changed: their own steps see to that.
    const HostedModelPtr& hosted = current_->step.hosted;
    if (known_.HasChanged(hosted->model().name(), hosted, hosted->state_edits())) Do(leader_.Renew(Clock::now()));
    Do(leader_.Run(Clock::now()));
  }
}

void Group::EndCurrent(const absl::Status& why) {
  const std::shared_ptr<QueuedStep> step = std::exchange(current_, nullptr);
  queue_.Done(*step);
  step->Tell(why);
}

void Group::Applied(const std::string& name, int64_t rows) {
  ++steps_;
  recent_.emplace_back(Clock::now(), rows);
  known_.Applied(name, own_->member().standing().applied);
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
  part.inputs = RowsOf(queued.step.inputs, part.step.begin(), part.step.end() - part.step.begin());
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
  relay_->Lost(close.member);
  datasets_->Lost(close.member);
  const bool is_wanted = close.status.ok();
  if (closed.has_joined) {
    LogEvent(is_wanted ? "group_member_left" : "group_member_lost", is_wanted ? LogLevel::kInfo : LogLevel::kWarning,
             absl::StrCat("member ", close.member, " (", closed.name, ")", is_wanted ? " has left" : ": ", close.status.message()));
  }
  if (closed.link != nullptr) closed.link->Finish(close.status);
}

void Group::On(const GroupLeader::Answer& answer) {
  if (current_ != nullptr && !answer.status.ok() && current_->was_changed) {
    if (++current_->tries < QueuedStep::kMostTries) {
      queue_.Again(std::exchange(current_, nullptr));
    } else {
      EndCurrent(absl::UnavailableError(
          absl::StrCat("the model was changed by others ", current_->tries, " times before the step could begin; try again")));
    }
  } else if (current_ != nullptr) {
    // The model's lane has told a step that is applied.
    answer.status.ok() ? queue_.Done(*std::exchange(current_, nullptr)) : EndCurrent(answer.status);
  }
  loop_->Post([this] { RunNext(); });
}

void Group::On(const GroupLeader::Begun& begun) {
  pause_ = begun.pause;
  own_->ForgetHeld();
  packed_.clear();
  warned_.clear();
  if (!failed_.ok()) return;
  LogEvent("group_formed", LogLevel::kInfo,
           absl::StrCat("generation ", begun.generation, " has ", begun.ranks, " processes, after a pause of ",
                        std::chrono::duration_cast<std::chrono::milliseconds>(begun.pause).count(), " ms"));
}

void Group::On(const GroupLeader::Warn& warn) {
  if (std::exchange(warned_, warn.text) == warn.text) return;
  LogEvent(warn.differs ? "group_differs" : "group_not_formed", warn.differs ? LogLevel::kError : LogLevel::kWarning, warn.text);
}

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
    current_->was_changed = false;
    const absl::StatusOr<uint64_t> edits = known_.Edits(name);
    // The strand asks after all changes that came before the step.
    part.condition = [queued = current_, edits, rate = current_rate_]() -> absl::Status {
      RETURN_IF_ERROR(edits.status());
      const GroupStep& step = queued->step;
      if (step.condition != nullptr) RETURN_IF_ERROR(step.condition());
      // Members were sent the model's trainer, which may be another one than the step's.
      const bool is_known = step.hosted->state_edits() == *edits && step.hosted->trainer() == step.trainer;
      if (is_known && RateOf(*step.trainer) == rate) return absl::OkStatus();
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
  const std::optional<uint64_t> copy = datasets_->NumberOf(member, current_->step.dataset);
  if (copy.has_value() && part.step.end() > part.step.begin()) {
    const int64_t* const rows = current_->step.dataset_rows.data<int64_t>();
    step.mutable_rows_of()->set_dataset(*copy);
    step.mutable_rows_of()->mutable_rows()->Add(rows + part.step.begin(), rows + part.step.end());
  } else {
    const absl::Status encoded =
        EncodeTensors(part.inputs, v1::Tensor::RAW, std::numeric_limits<int64_t>::max(), step.mutable_inputs(), &attachments);
    if (!encoded.ok()) step.clear_inputs();  // The member says that it lacks them.
  }
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

void Group::Heard(const std::shared_ptr<Link>& link, v1::JoinRequest message, std::shared_ptr<Reservation> memory) {
  loop_->Post([this, link, message = std::move(message), memory = std::move(memory)] { HeardNow(link, message); });
}

void Group::Asked(const std::shared_ptr<Link>& link, std::shared_ptr<MemberCallback> asked) {
  loop_->Post([this, link, asked] {
    const auto found =
        std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second.link == link; });
    if (found != members_.end()) relay_->Ask(found->first, asked);
  });
}

void Group::HeardNow(const std::shared_ptr<Link>& link, const v1::JoinRequest& message) {
  auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second.link == link; });
  if (found == members_.end()) {
    if (!message.has_hello()) return link->Finish(absl::FailedPreconditionError("the first message is `hello`"));
    if (options_.only_local && !link->is_local()) {
      return link->Finish(FailedPrecondition("this leader has no certificate, so that members of this machine alone may join; ",
                                             "give it --tls_cert and --tls_key"));
    }
    if (message.hello().name().size() > kLongestName || message.hello().fingerprint().size() > kLongestValue) {
      return link->Finish(Invalid("the name or the fingerprint of `hello` is too long"));
    }
    found = members_.emplace(next_member_++, Member{link, message.hello().name()}).first;
  }
  const MemberId member = found->first;
  if (message.has_withdraw()) return relay_->Withdraw(member, message.withdraw());
  if (message.has_fetch()) return datasets_->Heard(member, message.fetch());
  if (message.has_copied()) return datasets_->Heard(member, message.copied());
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
  if (!message.has_hello() || !leader_.seats().contains(member)) return;
  members_.at(member).has_joined = true;
  datasets_->Joined(member);
  LogEvent("group_member_joins", LogLevel::kInfo, absl::StrCat("member ", member, " (", message.hello().name(), ") joins"));
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
    relay_->Lost(member);
    datasets_->Lost(member);
    LogEvent("group_member_lost", LogLevel::kWarning,
             absl::StrCat("member ", member, " (", found->second.name, "): its Join has ended"));
    members_.erase(found);
    Do(leader_.Lost(member, Clock::now()));
  });
}

void Group::Tick() {
  const Clock::time_point now = Clock::now();
  // A step that nobody waits for any more holds its batch no longer.
  queue_.Sweep([this](const QueuedStep& step) { return WhyNot(step); });
  if (leader_.phase() >= GroupLeader::Phase::kComputing) waits_since_ = now;
  if (current_ != nullptr) {
    absl::Status why_not = WhyNot(*current_);
    // Saves of the model wait for its calls.
    if (why_not.ok() && now - waits_since_ > kLongestWait * options_.leader.timeout) {
      why_not = absl::UnavailableError(absl::StrCat("the group has not been able to begin the step: ", WhyNoStep(), "; try again"));
    }
    if (!why_not.ok() && leader_.Withdraw()) EndCurrent(why_not);
  }
  // A client's operator may not answer for minutes, and other steps wait.
  if (current_ != nullptr && current_->step.cancellation != nullptr && !current_->step.cancellation->Check().ok())
    own_->GiveUpStep();
  // A rank that computes for ever would keep all others.
  own_->GiveUpSums(now - GroupLeader::kPatience * options_.leader.timeout);
  own_->GiveUpLate(now - options_.leader.timeout);
  Do(leader_.Tick(now));
  RunNext();
  while (!recent_.empty() && now - recent_.front().first > kRecent) recent_.pop_front();
}

void Group::Fail(absl::Status why, LogLevel level) {
  if (!failed_.ok()) return;
  failed_ = std::move(why);
  LogEvent("group_ends", level, failed_.message());
  // A step that the ranks compute or apply now has an answer of its own, unless the leader's own member has failed.
  const bool ends = leader_.Withdraw() || own_->member().phase() == GroupMember::Phase::kOut;
  if (ends && current_ != nullptr) EndCurrent(failed_);
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

}  // namespace gluond::server
