#include <utility>

#include "engine/runtime/cancellation_scope.h"
#include "server/session/session.h"
#include "server/session/stream.h"

namespace gluond::server {
namespace {

// A session's turn on its lane: so many commands, or so long; then others that wait for the lane have their turns.
constexpr int kCommandsPerTurn = 64;
constexpr std::chrono::microseconds kTurn{500};

// Bytes from which any command takes long.
constexpr size_t kLargeCommand = 64 << 10;

// Commands that wait for a client or another device.
constexpr int64_t kMostPending = 10'000;
// A program does not say when these end; the session looks again after so long.
constexpr std::chrono::milliseconds kLookAgain{1};

}  // namespace

bool Session::MayExecute() const {
  return !ended_ && !held_ && !inbox_.empty() && outbox_.unsent_bytes() <= limits_.max_session_queue_bytes &&
         (outbox_is_paid_ || outbox_.all_written()) && pending_ <= kMostPending;
}

void Session::PostTurn() {
  if (ended_ || next_ != Next::kNothing) return;
  next_ = Next::kPosted;
  self_ = shared_from_this();
  lane_->Post(&turn_work_);
}

void Session::Turn() {
  const Clock::time_point end = Clock::now() + kTurn;
  std::shared_ptr<Session> self;
  bool begin = false;
  {
    MutexLock lock(mu_);
    self = std::move(self_);
    next_ = Next::kNothing;
    if (ended_) return;
    begin = program_ == nullptr && !inbox_.empty();
  }
  if (begin) {
    program_ = options_.create_program(
        *lane_, [this](v1::Reply reply, Attachments attachments, int64_t bytes) { Answer(std::move(reply), attachments, bytes); });
    MutexLock lock(mu_);
    budgets_ = program_->budgets();
  }
  Batch batch;
  for (int n = 0; Advance(&batch, n < kCommandsPerTurn && Clock::now() < end); ++n) {
    if (TakesLong(batch)) return ExecuteBeside(std::move(batch));
    Execute(batch);
  }
  Settle();
}

bool Session::TakesLong(const Batch& batch) const {
  const bool is_large = batch.message->bytes > static_cast<int64_t>(kLargeCommand) &&  // To look at a few costs less.
                        batch.command().ByteSizeLong() > kLargeCommand;
  return is_large || program_->TakesLong(batch.command());
}

void Session::Execute(const Batch& batch) {
  const CancellationScope scope(options_.cancellation.get());
  program_->Execute(batch.message->request->first_number() + static_cast<uint64_t>(batch.index), batch.command(),
                    batch.message->attachments);
}

// A thread beside the lane takes the command up and ends the turn; the lane's own thread is free for other lanes.
void Session::ExecuteBeside(Batch batch) {
  lane_->ContinueAside([self = shared_from_this(), batch = std::move(batch)]() mutable {
    self->Execute(batch);
    self->Advance(&batch, /*more=*/false);
    self->Settle();
  });
}

// The command of `batch`, if there is one, has been executed. The next takes its place, if `more` are wanted.
bool Session::Advance(Batch* batch, bool more) {
  const SessionMessagePtr before = std::move(batch->message);  // Freed without the lock.
  MutexLock lock(mu_);
  if (program_ != nullptr) pending_ = program_->pending();
  if (before != nullptr && !ended_ && ++inbox_.front().index >= before->request->commands_size()) {
    inbox_bytes_ -= before->bytes;
    inbox_.pop_front();
  }
  if (!more || !MayExecute()) return false;
  *batch = inbox_.front();
  return true;
}

// Decides how the session goes on after a turn.
void Session::Settle() {
  MutexLock lock(mu_);
  if (ended_) return;
  if (MayExecute()) {
    PostTurn();
  } else if (pending_ > 0 && (Ending() || pending_ > kMostPending) && next_ == Next::kNothing) {
    next_ = Next::kTimed;
    self_ = shared_from_this();
    lane_->DoAt(Clock::now() + kLookAgain, &turn_work_);
  }
  Read();
  EndStreamIfDone();
}

void Session::Answer(v1::Reply reply, const Attachments& attachments, int64_t bytes) {
  const bool names_session = reply.has_saved();
  reply.set_index(++answered_);
  EncodedReply encoded = EncodeReply(std::move(reply), attachments, bytes, limits_.max_message_bytes);
  MutexLock lock(mu_);
  if (ended_) return;
  named_ = named_ || names_session;
  outbox_.Add(std::move(encoded));
  outbox_is_paid_ = outbox_memory_.Cover(outbox_.own_bytes()).ok();
  Write();
}

void Session::Destroy() {
  std::shared_ptr<Session> self;
  {
    MutexLock lock(mu_);
    if (next_ == Next::kTimed) lane_->Forget(&turn_work_);
    if (next_ == Next::kTimed) self = std::move(self_);
    next_ = Next::kNothing;
  }
  program_.reset();
}

}  // namespace gluond::server
