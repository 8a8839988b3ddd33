#include "server/group/membership.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/codec/duration.h"
#include "server/codec/tensors_codec.h"
#include "server/group/copied_datasets.h"
#include "server/group/group_step.h"
#include "server/group/join_messages.h"
#include "server/group/meeting.h"
#include "server/group/rank.h"
#include "server/group/relayed_operators.h"
#include "server/rpc/log.h"
#include "server/rpc/way_to_server.h"

namespace gluond::server {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::seconds kLongestPause{5};
// The leader's training stands while it sends its state: who has taken that in vain does not ask for it again and again.
constexpr std::chrono::seconds kLongestPauseAfterState{60};

}  // namespace

std::unique_ptr<Membership> Membership::Start(Runner& runner, Devices& devices, Options options) {
  std::unique_ptr<Membership> membership(new Membership(runner, devices, std::move(options)));
  membership->Begin();
  return membership;
}

Membership::Membership(Runner& runner, Devices& devices, Options options)
    : runner_(runner),
      devices_(devices),
      options_(std::move(options)),
      process_(std::random_device()() | uint64_t{1} << 32),
      operators_(std::make_unique<RelayedOperators>(runner_, loop_, [this](const v1::JoinRequest& message) { Say(message); })),
      datasets_(
          std::make_unique<CopiedDatasets>(*devices_.host().allocator, [this](const v1::JoinRequest& message) { Say(message); })),
      files_memory_(Budget::PartOf(runner.memory)) {}

void Membership::Begin() {
  GroupRank::Parts parts{
      .runner = runner_,
      .loop = loop_,
      .models = [this] { return ListModels(); },
      .has_changed = nullptr,
      .load = [this](std::function<void(absl::Status)> done) { Load(std::move(done)); },
      .send = [this](const FromMember::Any& message, RingReducer::Clock::duration waited) { SayWord(message, waited); },
      .leave = [this](const absl::Status& why, bool tells) { Cancel(why, tells); }};
  rank_ = std::make_unique<GroupRank>(std::move(parts), options_.ring, FromMember::Hello{process_, options_.fingerprint},
                                      Standing{}, options_.timeout);
  loop_->Start(GroupLoop::PeriodOf(options_.timeout), [this] {
    rank_->Tick();
    JoinWhenOut();
    if (given_up_.has_value() && std::chrono::steady_clock::now() - *given_up_ > options_.timeout) CancelNow();
  });
  StartOrExit(&thread_, "the member's stream", [this] { Work(); });
}

Membership::~Membership() {
  {
    MutexLock lock(mu_);
    leaves_ = true;
    if (session_ != nullptr) session_->context.TryCancel();
  }
  changed_.NotifyAll();
  thread_.join();
  loop_->Stop();
}

void Membership::Leave(std::chrono::nanoseconds most) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(most);
  {
    MutexLock lock(mu_);
    leaves_ = true;
  }
  changed_.NotifyAll();
  loop_->Post([this] { rank_->Drain(); });
  MutexLock lock(mu_);
  while (!is_out_ && changed_.WaitUntil(mu_, until)) continue;
}

void Membership::Work() {
  auto pause = std::chrono::milliseconds(kFirstPause);
  while (true) {
    const auto session = std::make_shared<Session>();
    {
      MutexLock lock(mu_);
      if (leaves_) return;
      session_ = session;
      is_out_ = false;
    }
    JoinOnce(session);
    MutexLock lock(mu_);
    session_ = nullptr;
    is_out_ = true;
    changed_.NotifyAll();
    const auto most = reached_ == Reached::kState ? kLongestPauseAfterState : kLongestPause;
    pause = reached_ == Reached::kRing ? kFirstPause : std::min<std::chrono::milliseconds>(2 * pause, most);
    reached_ = Reached::kNothing;
    const auto until = std::chrono::steady_clock::now() + pause;
    while (!leaves_ && changed_.WaitUntil(mu_, until)) continue;
  }
}

absl::Status Membership::Open(Session& session) const {
  ASSIGN_OR_RETURN(const WayToServer way, WayToServer::Open({.flag = "--group",
                                                             .address = options_.leader,
                                                             .authority = options_.authority_file,
                                                             .token_file = options_.token_file}));
  way.Prepare(&session.context);
  session.stub = v1::GroupService::NewStub(way.channel());
  session.stream = session.stub->Join(&session.context);
  return absl::OkStatus();
}

void Membership::JoinOnce(const std::shared_ptr<Session>& session) {
  if (const absl::Status opened = Open(*session); !opened.ok()) {
    LogEvent("group_join_ended", LogLevel::kError, opened.message());
    return;
  }
  loop_->Post([this] {
    wants_join_ = true;
    JoinWhenOut();
  });
  while (true) {
    const auto message = std::make_shared<v1::JoinResponse>();
    if (!session->stream->Read(message.get())) break;
    loop_->Post([this, message] { HeardNow(*message); });
  }
  grpc::Status ended;
  {
    MutexLock lock(session->mu);
    ended = session->stream->Finish();
    session->is_over = true;
  }
  TellEnd(ended);
  loop_->Post([this] {
    wants_join_ = false;
    given_up_.reset();
    operators_->Lost();
    ring_.clear();
    rank_->Lost();
  });
}

void Membership::TellEnd(const grpc::Status& ended) {
  if (ended.ok()) {  // The leader has let this process go.
    MutexLock lock(mu_);
    leaves_ = true;
    return LogEvent(
        "group_join_ended", LogLevel::kInfo,
        absl::StrCat("this process has left the group of ", options_.leader, "; it joins again when it is started anew"));
  }
  std::string hint;
  switch (ended.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED: hint = "; the leader wants a token with the role member (--group_token_file)"; break;
    case grpc::StatusCode::UNAVAILABLE:
      if (options_.authority_file.empty()) hint = "; a leader with a certificate wants --group_ca";
      break;
    default: break;
  }
  const std::string text = absl::StrCat("the leader at ", options_.leader, ": ", ended.error_message(), hint);
  // A leader that is away for long is told once.
  if (std::exchange(told_, text) != text) LogEvent("group_join_ended", LogLevel::kWarning, text);
}

// The work of an earlier Join may have to end first.
void Membership::JoinWhenOut() {
  if (!wants_join_ || rank_->member().phase() != GroupMember::Phase::kOut) return;
  wants_join_ = false;
  files_.clear();
  files_memory_ = Reservation(Budget::PartOf(runner_.memory));
  operators_->Joined();
  datasets_->Joined();
  rank_->Join();
}

void Membership::HeardNow(v1::JoinResponse& message) {
  if (given_up_.has_value()) return;  // The leader did not know yet.
  if (message.has_part()) {
    v1::JoinResponse::Part& part = *message.mutable_part();
    std::shared_ptr<std::string>& file = files_[part.model()][part.file()];
    if (file == nullptr) {
      const int64_t bytes = std::max<int64_t>(part.file_bytes(), 0);
      if (const absl::Status charged = files_memory_.Grow(bytes); !charged.ok()) {
        datasets_->GiveUp();
        return Cancel(Annotate(charged, "the state of the group"), /*tells=*/true);
      }
      file = std::make_shared<std::string>();
      file->reserve(static_cast<size_t>(bytes));
    }
    if (static_cast<int64_t>(file->size() + part.data().size()) > part.file_bytes()) {
      return Cancel(absl::DataLossError("a file of the group's state is longer than the leader has said"), /*tells=*/true);
    }
    file->append(part.data());
    return;
  }
  if (message.has_answer()) return operators_->Heard(std::move(*message.mutable_answer()));
  if (message.has_dataset()) return datasets_->Heard(message.dataset());
  if (message.has_dataset_part()) return datasets_->Heard(std::move(*message.mutable_dataset_part()));
  if (message.has_meeting()) {
    if (meeting_ != nullptr) meeting_->Heard(message.meeting().key(), message.meeting().value());
    return;
  }
  if (message.has_state()) {
    SetReached(Reached::kState);
    listed_.assign(message.state().models().begin(), message.state().models().end());
  }
  if (message.has_form()) {
    const std::string ring = message.form().ring();
    meeting_ = std::make_shared<Meeting>([this, loop = loop_, ring](const std::string& key, const std::string& value) {
      loop->Post([this, ring, key, value] {
        if (ring != ring_) return;  // A ring of an earlier Join.
        v1::JoinRequest text;
        text.mutable_meeting()->set_key(key);
        text.mutable_meeting()->set_value(value);
        Say(text);
      });
    });
    ring_ = ring;
    rank_->SetRing(ring, message.form().key(), meeting_);
  }
  if (message.has_step()) rank_->SetStep(ToStep(message.step()));
  if (const std::optional<FromLeader::Any> word = FromProto(message); word.has_value()) rank_->Heard(*word);
}

void Membership::SetReached(Reached reached) {
  MutexLock lock(mu_);
  reached_ = std::max(reached_, reached);
}

void Membership::Say(const v1::JoinRequest& message) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mu_);
    session = session_;
  }
  if (session == nullptr) return;
  MutexLock lock(session->mu);
  if (!session->is_over) session->stream->Write(message);
}

void Membership::SayWord(const FromMember::Any& word, RingReducer::Clock::duration waited) {
  v1::JoinRequest message = ToProto(word);
  if (message.has_ready()) SetReached(Reached::kRing);
  if (message.has_hello()) message.mutable_hello()->set_name(options_.name);
  if (message.has_computed()) ToProto(waited, message.mutable_computed()->mutable_waited());
  Say(message);
}

void Membership::Cancel(const absl::Status& why, bool tells) {
  LogEvent("group_left", LogLevel::kWarning, why.message());
  if (!tells || given_up_.has_value()) return CancelNow();
  SayWord(FromMember::Failed{why}, {});
  given_up_ = std::chrono::steady_clock::now();
}

void Membership::CancelNow() {
  MutexLock lock(mu_);
  if (session_ != nullptr) session_->context.TryCancel();
}

absl::StatusOr<RankStep> Membership::ToStep(const v1::JoinResponse::Step& step) {
  const auto model = models_.find(step.model());
  if (model == models_.end()) return NotFound("a member of the group has no model '", step.model(), "'");
  RankStep part;
  part.hosted = model->second;
  ASSIGN_OR_RETURN(part.trainer, part.hosted->NeedTrainer());
  if (step.has_rows_of()) {
    ASSIGN_OR_RETURN(part.inputs, Draw(step.rows_of(), part));
  } else {
    ASSIGN_OR_RETURN(part.inputs, DecodeTensors("input", step.inputs(), Attachments(), part.hosted->host_allocator()));
  }
  part.step.rows = step.rows();
  part.step.shards = step.shards();
  part.step.first = step.first();
  part.step.count = step.count();
  part.account = AccountOf(step.model());
  if (step.has_learning_rate()) RETURN_IF_ERROR(part.trainer->SetLearningRate(step.learning_rate()));
  return part;
}

absl::StatusOr<NamedTensors> Membership::Draw(const v1::JoinResponse::RowsOf& rows_of, const RankStep& part) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> dataset, datasets_->Find(rows_of.dataset()));
  ASSIGN_OR_RETURN(Tensor rows, Tensor::Empty(part.hosted->host_allocator(), {rows_of.rows_size()}, DType::kInt64));
  std::copy(rows_of.rows().begin(), rows_of.rows().end(), rows.data<int64_t>());
  return DrawInputs(*part.hosted, *part.trainer, std::move(dataset), std::move(rows));
}

NamedModels Membership::ListModels() const { return NamedModels(models_.begin(), models_.end()); }

AccountPtr Membership::AccountOf(const std::string& model) const {
  const TenantPtr tenant = runner_.tenants.OwnerOf(model);
  return tenant == nullptr ? nullptr : tenant->account();
}

void Membership::Load(std::function<void(absl::Status)> done) {
  std::erase_if(models_,
                [this](const auto& model) { return std::find(listed_.begin(), listed_.end(), model.first) == listed_.end(); });
  LoadNext(std::move(done));
}

void Membership::LoadNext(std::function<void(absl::Status)> done) {
  if (files_.empty()) {
    files_memory_ = Reservation(Budget::PartOf(runner_.memory));
    const auto missing =
        std::find_if(listed_.begin(), listed_.end(), [this](const std::string& name) { return !models_.contains(name); });
    return done(missing == listed_.end() ? absl::OkStatus()
                                         : absl::DataLossError(absl::StrCat("the state lacks model '", *missing, "'")));
  }
  const auto next = files_.begin();
  const std::string name = next->first;
  const auto files = std::make_shared<StateFiles>(std::move(next->second));
  files_.erase(next);
  models_.erase(name);  // Its memory is the new one's.
  const ScopedAccount account(AccountOf(name));
  runner_.dispatch.Run(Weight::kHeavy, [this, loop = loop_, &devices = devices_, most = runner_.limits.max_model_bytes, name, files,
                                        host = operators_->HostOf(name), done = std::move(done)] {
    const ScopedCustomHost scoped(host, RelayedOperators::kScope);
    FromFiles(name, std::move(*files), devices, most, [this, loop, name, done](absl::StatusOr<HostedModelPtr> made) {
      loop->Post([this, name, done, made = std::move(made)] {
        if (absl::IsResourceExhausted(made.status())) datasets_->GiveUp();
        if (!made.ok()) return done(made.status());
        models_[name] = *made;
        LoadNext(done);
      });
    });
  });
}

}  // namespace gluond::server
