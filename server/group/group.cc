#include "server/group/group.h"

#include <algorithm>
#include <bit>
#include <random>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/train/batches.h"
#include "server/codec/duration.h"
#include "server/codec/tensors_codec.h"
#include "server/group/callback_relay.h"
#include "server/group/join_messages.h"
#include "server/rpc/log.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr std::chrono::seconds kRecent{10};
constexpr size_t kPartBytes = 1 << 20;
// A ring's texts are addresses.
constexpr size_t kLongestKey = 512, kLongestValue = 4096;

Tensor RowsOf(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<int64_t> dims(tensor.shape().begin(), tensor.shape().end());
  const size_t row_bytes = dims[0] == 0 ? 0 : tensor.bytes() / static_cast<size_t>(dims[0]);
  dims[0] = count;
  const auto offset = static_cast<size_t>(tensor.data<char>() - static_cast<const char*>(tensor.buffer()->data()));
  return Tensor(tensor.buffer(), offset + row_bytes * static_cast<size_t>(first), *Shape::FromDims(dims), tensor.dtype());
}

// The rows of a batch. INVALID_ARGUMENT: its inputs have not as many each, or none.
absl::StatusOr<int64_t> RowsOfBatch(const NamedTensors& inputs) {
  if (inputs.empty()) return Invalid("a step of a group's model needs inputs");
  for (const NamedTensor& input : inputs) {
    const Shape& shape = input.tensor.shape();
    if (shape.ndim() == 0 || shape[0] < 1 || shape[0] != inputs.front().tensor.shape()[0]) {
      return Invalid("input '", input.name, "' has the shape ", shape.ToString(),
                     "; a group cuts each input into rows along axis 0, ", "and '", inputs.front().name, "' has the shape ",
                     inputs.front().tensor.shape().ToString());
    }
  }
  return inputs.front().tensor.shape()[0];
}

absl::Status Stopping() {
  return absl::UnavailableError("the leader of the group is stopping; try again when it has been started anew");
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
      leader_(std::move(leader)) {}

Group::~Group() {
  Stop();
  loop_->Stop();
}

void Group::Begin() {
  GroupRank::Parts parts{
      .runner = runner_,
      .loop = loop_,
      .models = [this] { return ListModels(); },
      .has_changed = [this](const HeldModels& held) { return TakeMarks(held); },
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
    Fail(Stopping(), LogLevel::kInfo);
    for (const auto& [id, member] : members_) {
      if (member.link != nullptr) member.link->Finish(Stopping());
    }
  });
}

// Steps.

void Group::TrainStep(GroupStep step, Trainer::OnStep done) {
  const absl::StatusOr<int64_t> rows = RowsOfBatch(step.inputs);
  if (!rows.ok()) return done(rows.status());
  const HostedModelPtr hosted = step.hosted;
  auto queued = std::make_shared<Queued>();
  queued->step = std::move(step);
  queued->rows = *rows;
  HostedModel::Change<absl::StatusOr<StepReport>>(
      hosted, HostedModel::Counts::kVersion, [&](Trainer::OnStep counted) { queued->done = std::move(counted); },
      [this, loop = loop_, hosted, done = std::move(done)](absl::StatusOr<StepReport> report) {
        if (report.ok()) {
          loop->Post([this, name = hosted->model().name(), edits = hosted->edits()] { Applied(name, edits); });
        }
        done(std::move(report));
      });
  loop_->Post([this, queued] {
    queue_.push_back(queued);
    RunNext();
  });
}

namespace {

// The steps of one call on rows of a dataset, one after the other.
class StepsOnRows : public std::enable_shared_from_this<StepsOnRows> {
 public:
  StepsOnRows(Group& group, GroupStep step, DatasetSteps steps, Trainer::OnStep done)
      : group_(group), step_(std::move(step)), steps_(std::move(steps)), done_(std::move(done)) {}

  void Begin() {
    RenewStaging();
    const size_t optional = step_.trainer->options().loss.type.empty() ? 0 : 1;  // A loss takes "sample_weight", the last.
    DatasetBatchesOptions options;
    options.dataset = steps_.dataset;
    options.batch_size = steps_.batch_size;
    options.batches = steps_.steps;
    options.keep_last = steps_.keep_last;
    options.rows = steps_.rows;
    auto batches = DatasetBatches(std::move(options), step_.trainer->inputs(), optional, &*staging_);
    if (!batches.ok()) return done_(batches.status());
    batches_ = *std::move(batches);
    GoOn();
  }

 private:
  void GoOn() {
    if (batches_->done()) return done_(std::move(total_));
    if (step_.cancellation != nullptr) {
      if (const absl::Status wanted = step_.cancellation->Check(); !wanted.ok()) return End(wanted);
    }
    RenewStaging();
    Batch batch;
    if (const absl::Status drawn = batches_->Next(&batch); !drawn.ok()) return End(drawn);
    GroupStep step = step_;
    for (size_t i = 0; i < batch.host.size(); ++i) {
      if (batch.host[i].defined()) step.inputs.push_back({step_.trainer->inputs()[i].name, std::move(batch.host[i])});
    }
    step_.condition = nullptr;  // The first step's alone.
    group_.TrainStep(std::move(step), [self = shared_from_this()](absl::StatusOr<StepReport> report) {
      if (!report.ok()) return self->End(report.status());
      self->step_.trainer->Join(*report, &self->total_);
      ++self->taken_;
      self->GoOn();
    });
  }

  // A call that ends early after some steps reports those.
  void End(const absl::Status& why) { taken_ > 0 ? done_(std::move(total_)) : done_(why); }

  // The memory of each batch is its own: what a lost member was sent of the last one may still be on its way.
  void RenewStaging() { staging_.emplace(step_.hosted->model(), step_.trainer->inputs().size()); }

  Group& group_;
  GroupStep step_;
  const DatasetSteps steps_;
  const Trainer::OnStep done_;
  std::optional<Staging> staging_;
  std::unique_ptr<BatchSource> batches_;
  StepReport total_;
  int64_t taken_ = 0;
};

}  // namespace

void Group::TrainSteps(GroupStep step, DatasetSteps steps, Trainer::OnStep done) {
  std::make_shared<StepsOnRows>(*this, std::move(step), std::move(steps), std::move(done))->Begin();
}

void Group::RunNext() {
  while (current_ == nullptr && !queue_.empty()) {
    current_ = queue_.front();
    queue_.pop_front();
    const auto& cancellation = current_->step.cancellation;
    absl::Status wanted = failed_;
    if (wanted.ok() && cancellation != nullptr) wanted = cancellation->Check();
    const HostedModelPtr& hosted = current_->step.hosted;
    if (wanted.ok() && hosted != models_.Find(hosted->model().name()).value_or(nullptr)) {
      wanted = absl::AbortedError("the model was deleted, or another has taken its name, before the step began");
    }
    if (!wanted.ok()) {
      std::exchange(current_, nullptr)->Tell(wanted);
      continue;
    }
    if (HaveChanged()) Do(leader_.Renew(Clock::now()));
    Do(leader_.Run(Clock::now()));
  }
}

void Group::Applied(const std::string& name, uint64_t edits) {
  const auto mark = marks_.find(name);
  if (mark == marks_.end()) return;
  mark->second.edits = edits;
  mark->second.changed = own_->member().standing().applied;
  ++steps_;
  if (current_ != nullptr) recent_.emplace_back(Clock::now(), current_->rows);
}

RankStep Group::PartOf(const Queued& queued, const Place& place) const {
  RankStep part;
  part.hosted = queued.step.hosted;
  part.trainer = queued.step.trainer;
  part.account = queued.step.account;
  part.step.rows = queued.rows;
  part.step.shards = *queued.step.hosted->virtual_shards();
  const bool is_spare = place.rank >= place.size;
  part.step.count = is_spare ? 0 : part.step.shards / place.size;
  part.step.first = is_spare ? 0 : place.rank * part.step.count;
  for (const NamedTensor& input : queued.step.inputs) {
    part.inputs.push_back({input.name, RowsOf(input.tensor, part.step.begin(), part.step.end() - part.step.begin())});
  }
  return part;
}

// The models.

NamedModels Group::ListModels() const {
  NamedModels models;
  for (auto& [name, hosted] : models_.List()) {
    if (hosted->virtual_shards().has_value()) models.emplace_back(name, std::move(hosted));
  }
  std::sort(models.begin(), models.end());
  return models;
}

bool Group::HasChanged(const std::string& name, const HostedModelPtr& hosted, uint64_t edits) const {
  const auto mark = marks_.find(name);
  return mark == marks_.end() || mark->second.hosted.lock() != hosted || mark->second.edits != edits;
}

bool Group::HaveChanged() const {
  const NamedModels models = ListModels();
  return models.size() != marks_.size() || std::any_of(models.begin(), models.end(), [this](const auto& model) {
           return HasChanged(model.first, model.second, model.second->edits());
         });
}

bool Group::TakeMarks(const HeldModels& held) {
  const uint64_t next = own_->member().standing().applied + 1;
  std::map<std::string, Mark> marks;
  bool has_changed = held.size() != marks_.size();
  for (const HeldModel& model : held) {
    const bool is_new = HasChanged(model.name, model.hosted, model.edits);
    marks[model.name] = {model.hosted, model.edits, is_new ? next : marks_.at(model.name).changed};
    has_changed |= is_new;
  }
  marks_ = std::move(marks);
  return has_changed;
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
  const bool is_wanted = close.status.ok();
  LogEvent(is_wanted ? "group_member_left" : "group_member_lost", is_wanted ? LogLevel::kInfo : LogLevel::kWarning,
           absl::StrCat("member ", close.member, " (", closed.name, ")", is_wanted ? " has left" : ": ", close.status.message()));
  if (closed.link != nullptr) closed.link->Finish(close.status);
}

void Group::On(const GroupLeader::Answer& answer) {
  const std::shared_ptr<Queued> ended = std::exchange(current_, nullptr);
  if (ended != nullptr && !answer.status.ok()) {
    if (std::exchange(ended->was_changed, false)) {
      queue_.push_front(ended);
    } else {
      ended->Tell(answer.status);
    }
  }
  loop_->Post([this] { RunNext(); });
}

void Group::On(const GroupLeader::Begun& begun) {
  pause_ = begun.pause;
  own_->ForgetHeld();
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
  auto held = std::make_shared<HeldModels>();
  v1::JoinResponse last = ToProto(FromLeader::Any(state));
  for (const HeldModel& model : own_->held()) {
    last.mutable_state()->add_models(model.name);
    if (marks_.at(model.name).changed > since || since == 0) held->push_back(model);
  }
  const std::shared_ptr<Link> link = members_.at(member).link;
  runner_.dispatch.Run(Weight::kHeavy, [this, loop = loop_, budget = Budget::PartOf(runner_.memory), held, last, link, member] {
    for (const HeldModel& model : *held) {
      absl::StatusOr<StateFiles> files = ToFiles(model);
      const auto memory = std::make_shared<Reservation>(budget);
      absl::Status status = files.status();
      for (auto file = files.ok() ? files->begin() : StateFiles::iterator(); files.ok() && status.ok() && file != files->end();
           ++file) {
        const auto& [path, bytes] = *file;
        status = memory->Grow(static_cast<int64_t>(bytes->size()));
        for (size_t first = 0; status.ok() && (first < bytes->size() || first == 0); first += kPartBytes) {
          v1::JoinResponse part;
          part.mutable_part()->set_model(model.name);
          part.mutable_part()->set_file(path);
          Attachments attachments;
          const size_t size = std::min(kPartBytes, bytes->size() - first);
          using Kept = std::pair<std::shared_ptr<std::string>, std::shared_ptr<Reservation>>;
          part.mutable_part()->set_data(attachments.Add(grpc::Slice(
              bytes->data() + first, size, [](void* kept) { delete static_cast<Kept*>(kept); }, new Kept(bytes, memory))));
          link->Send(SerializeMessage(part, attachments), /*is_heartbeat=*/false);
        }
      }
      if (!status.ok()) {
        LogEvent("group_state_not_sent", LogLevel::kError, absl::StrCat("model '", model.name, "': ", status.message()));
        return link->Finish(status);
      }
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
  if (member == GroupLeader::kOwn) {
    const auto mark = marks_.find(part.hosted->model().name());
    const auto edits = mark == marks_.end() ? std::nullopt : std::optional(mark->second.edits);
    // The strand asks after all changes that came before the step.
    part.condition = [queued = current_, edits]() -> absl::Status {
      if (queued->step.condition != nullptr) RETURN_IF_ERROR(queued->step.condition());
      if (queued->step.hosted->edits() == edits) return absl::OkStatus();
      queued->was_changed = true;
      return absl::AbortedError("the model has changed before the step began");
    };
    part.applied = [queued = current_](absl::StatusOr<StepReport> report) { queued->Tell(std::move(report)); };
    own_->SetStep(std::move(part));
    return own_->Heard(command);
  }
  v1::JoinResponse message = ToProto(FromLeader::Any(command));
  v1::JoinResponse::Step& step = *message.mutable_step();
  step.set_model(part.hosted->model().name());
  step.set_rows(part.step.rows);
  step.set_shards(part.step.shards);
  step.set_first(part.step.first);
  step.set_count(part.step.count);
  Attachments attachments;
  const absl::Status encoded =
      EncodeTensors(part.inputs, v1::Tensor::RAW, runner_.limits.max_message_bytes, step.mutable_inputs(), &attachments);
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
    if (!message.has_hello()) return link->Finish(absl::FailedPreconditionError("Join: the first message is `hello`"));
    if (options_.only_local && !link->is_local()) {
      return link->Finish(
          FailedPrecondition("Join: this leader has no certificate, so that members of this machine alone may join; ",
                             "give it --tls_cert and --tls_key"));
    }
    found = members_.emplace(next_member_++, Member{link, message.hello().name()}).first;
    LogEvent("group_member_joins", LogLevel::kInfo, absl::StrCat("member ", found->first, " (", found->second.name, ") joins"));
  }
  const MemberId member = found->first;
  if (message.has_withdraw()) return relay_->Withdraw(member, message.withdraw());
  if (message.has_meeting()) {
    const auto& [key, value] = std::pair(message.meeting().key(), message.meeting().value());
    if (key.size() > kLongestKey || value.size() > kLongestValue) {
      Do(leader_.Lost(member, Clock::now()));
      return On(GroupLeader::Close{member, Invalid("Join: a text of a ring is too long")});
    }
    return Tell(member, key, value);
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
    relay_->Lost(member);
    LogEvent("group_member_lost", LogLevel::kWarning,
             absl::StrCat("member ", member, " (", found->second.name, "): its Join has ended"));
    members_.erase(found);
    Do(leader_.Lost(member, Clock::now()));
  });
}

void Group::Tick() {
  Do(leader_.Tick(Clock::now()));
  while (!recent_.empty() && Clock::now() - recent_.front().first > kRecent) recent_.pop_front();
}

void Group::Fail(absl::Status why, LogLevel level) {
  if (!failed_.ok()) return;
  failed_ = std::move(why);
  LogEvent("group_ends", level, failed_.message());
  leader_.Withdraw();
  if (current_ != nullptr) std::exchange(current_, nullptr)->Tell(failed_);
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
