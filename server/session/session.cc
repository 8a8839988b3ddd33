#include "server/session/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/rpc/calls_under_way.h"
#include "server/session/stream.h"

namespace gluond::server {
namespace {

// The most commands that a client keeps, to send them again, before it learns that it need not.
constexpr uint64_t kUntoldCommands = 1024;
constexpr int64_t kUntoldBytes = 1 << 20;

// A reply under way may take so long beside the lease: some links are slow, and some replies large.
constexpr int64_t kSlowestBytesPerSecond = 256 << 10;

}  // namespace

absl::Status SessionIsGone() {
  return WithInfo(
      absl::NotFoundError(
          "there is no such session: its lease has ended (--session_lease_seconds; of a named session: --session_grace_seconds, "
          "--max_named_session_bytes, --max_sessions), its client has closed it, or the server was restarted; open a new one, "
          "with an empty `session`, and send what it needs again, or open what was saved"),
      reason::kSessionGone);
}

Session::Session(Options options, std::shared_ptr<Lane> lane, std::shared_ptr<Budget> memory, const Limits& limits)
    : options_(std::move(options)),
      lane_(std::move(lane)),
      limits_(limits),
      turn_work_(this),
      outbox_(limits.max_session_queue_bytes, limits.max_message_bytes),
      outbox_memory_(std::move(memory)) {}

// Streams.

absl::Status Session::Attach(std::shared_ptr<SessionStream> stream, const v1::SessionOpened& opened, SessionMessagePtr first) {
  MutexLock lock(mu_);
  if (ended_) return SessionIsGone();
  if (draining_) return Draining();
  RETURN_IF_ERROR(Check(*first->request));
  RETURN_IF_ERROR(outbox_.CheckKept(first->request->replies_received()));
  if (stream_ != nullptr) {
    stream_->Finish(absl::AbortedError("another stream has taken the session over; one at a time serves it"));
    Release();
  }
  stream_ = std::move(stream);
  if (std::exchange(held_, false) && MayExecute()) PostTurn();
  Accept(std::move(first));
  v1::SessionResponse response;
  *response.mutable_opened() = opened;
  Write(std::move(response), {});
  Read();
  return absl::OkStatus();
}

void Session::Receive(SessionStream& stream, SessionMessagePtr message) {
  MutexLock lock(mu_);
  if (stream_.get() != &stream) return;
  reading_ = false;
  last_sign_ = Clock::now();
  absl::Status status = Check(*message->request);
  if (message->request->has_open()) {
    status = absl::InvalidArgumentError("SessionRequest.open came again; it belongs to a stream's first message only");
  }
  if (!status.ok()) {
    stream.Finish(status);
    return Release();
  }
  Accept(std::move(message));
  Write();
  Read();
}

void Session::HalfClose(SessionStream& stream) {
  MutexLock lock(mu_);
  if (stream_.get() != &stream) return;
  reading_ = false;
  half_closed_ = true;
  // A stream that is about to break may look half-closed, too. Then the farewell cannot be written; the session stays.
  farewell_ = true;
  Write();
  PostTurn();  // The turn finds out whether everything is done.
}

void Session::Written(SessionStream& stream) {
  MutexLock lock(mu_);
  if (stream_.get() != &stream) return;
  writing_ = false;
  // With a read outstanding the client can show that it lives; without one, taking the replies has to show it.
  if (!reading_) last_sign_ = Clock::now();
  outbox_.Written();
  outbox_is_paid_ = outbox_memory_.Cover(outbox_.own_bytes()).ok();
  Write();
  Read();
  if (MayExecute()) PostTurn();
  EndStreamIfDone();
}

void Session::Detach(SessionStream& stream) {
  MutexLock lock(mu_);
  if (stream_.get() == &stream) Release();
}

void Session::Hold() {
  MutexLock lock(mu_);
  held_ = stream_ == nullptr;
}

void Session::Sweep(Clock::time_point now) {
  MutexLock lock(mu_);
  if (ended_ || draining_) return;
  if (!away_ && IsAway(now)) {
    away_ = true;
    options_.on_away();
  }
  const int64_t seconds = named_ ? limits_.GraceSeconds() : limits_.session_lease_seconds;
  if (!IsSilent(seconds, now)) return;
  const absl::string_view flag = named_ ? "--session_grace_seconds" : "--session_lease_seconds";
  EndLocked(
      absl::DeadlineExceededError(absl::StrCat("the session has ended: nothing came from its client for the ", seconds, " s of ",
                                               flag, "; a client with nothing to say sends an empty request now and then")));
}

bool Session::IsSilent(int64_t seconds, Clock::time_point now) {
  const bool it_is_our_turn = stream_ != nullptr && !reading_ && !writing_;
  if (it_is_our_turn) last_sign_ = now;
  const bool waits_for_reader = writing_ && !reading_;
  const int64_t writing_seconds = waits_for_reader ? writing_bytes_ / kSlowestBytesPerSecond : 0;
  return now - last_sign_ > std::chrono::seconds(seconds + writing_seconds);
}

std::optional<Session::Away> Session::away(Clock::time_point now) {
  MutexLock lock(mu_);
  if (!IsAway(now)) return std::nullopt;
  Away away = {last_sign_, {}};
  for (const auto& [device, budget] : budgets_) away.bytes.emplace_back(device, budget->used());
  return away;
}

bool Session::Return() {
  MutexLock lock(mu_);
  if (ended_) return false;
  last_sign_ = Clock::now();
  away_ = false;
  return true;
}

bool Session::EndIfAway(Clock::time_point now, const absl::Status& status) {
  MutexLock lock(mu_);
  if (!IsAway(now)) return false;
  EndLocked(status);
  return true;
}

void Session::Drain() {
  MutexLock lock(mu_);
  draining_ = true;
  if (stream_ != nullptr) PostTurn();
}

void Session::End(const absl::Status& status) {
  MutexLock lock(mu_);
  EndLocked(status);
}

absl::Status Session::Check(const v1::SessionRequest& request) const {
  RETURN_IF_ERROR(outbox_.CheckAcknowledged(request.replies_received()));
  if (request.commands().empty()) return absl::OkStatus();
  if (request.first_number() == 0) {
    return Invalid("SessionRequest.first_number is 0; numbers count from 1, and the next is ", received_ + 1);
  }
  if (request.first_number() > received_ + 1) {
    return FailedPrecondition("SessionRequest.first_number is ", request.first_number(), ", but the last command received is ",
                              received_, "; send again from ", received_ + 1, " on");
  }
  return absl::OkStatus();
}

void Session::Accept(SessionMessagePtr message) {
  const v1::SessionRequest& request = *message->request;
  outbox_.Acknowledge(request.replies_received());
  const uint64_t known = request.commands().empty() ? 0 : received_ + 1 - request.first_number();
  const auto count = static_cast<uint64_t>(request.commands_size());
  if (known >= count) {
    asked_ = true;
    return;
  }
  received_ += count - known;
  inbox_bytes_ += message->bytes;
  untold_bytes_ += message->bytes;
  inbox_.push_back({std::move(message), static_cast<int>(known)});
  if (MayExecute()) PostTurn();
}

void Session::Read() {
  if (stream_ == nullptr || reading_ || half_closed_ || draining_) return;
  // An empty inbox takes any message: without it an acknowledgement, a sign of life, or the end could never come.
  const bool full = inbox_bytes_ + outbox_.unsent_bytes() > limits_.max_session_queue_bytes;
  if (full && !inbox_.empty()) return;
  reading_ = true;
  last_sign_ = Clock::now();
  stream_->Read();
}

void Session::Write() {
  if (stream_ == nullptr || writing_) return;
  Slices replies;
  const bool much = received_ - told_ >= kUntoldCommands || untold_bytes_ >= kUntoldBytes;
  const bool must_tell = farewell_ || (told_ < received_ && (asked_ || much));
  if (outbox_.Take(&replies) || must_tell) Write({}, replies);
}

void Session::Write(v1::SessionResponse response, const Slices& replies) {
  response.set_received(received_);
  told_ = received_;
  untold_bytes_ = 0;
  asked_ = farewell_ = false;
  // Messages of one type one behind the other are one message.
  Slices slices = {grpc::Slice(response.SerializeAsString())};
  slices.insert(slices.end(), replies.begin(), replies.end());
  writing_ = true;
  writing_bytes_ = static_cast<int64_t>(Bytes(slices).size());
  stream_->Write(slices);
}

void Session::EndStreamIfDone() {
  if (!Ending() || !inbox_.empty() || pending_ > 0 || farewell_ || writing_ || !outbox_.all_written()) return;
  if (half_closed_) return EndLocked(absl::OkStatus());
  stream_->Finish(Draining());
  Release();
}

void Session::Release() {
  stream_.reset();
  reading_ = writing_ = half_closed_ = farewell_ = false;
  outbox_.Rewind();
  last_sign_ = Clock::now();
}

// The caller, too, holds a reference to the session: those of the registry and the lane may go at once.
void Session::EndLocked(const absl::Status& status) {
  if (ended_) return;
  ended_ = true;
  options_.cancellation->Cancel();
  options_.on_end();  // Before the client can know, and open another one.
  if (stream_ != nullptr) stream_->Finish(status);
  Release();
  inbox_.clear();
  outbox_.Clear();
  budgets_.clear();
  (void)outbox_memory_.Cover(0);
  lane_->Post([self = shared_from_this()] { self->lane_->ContinueAside([self] { self->Destroy(); }); });
}

}  // namespace gluond::server
