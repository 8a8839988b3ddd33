#include "server/session_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/grpc_order.h"
#include "server/grpc_status.h"
#include "server/parse_message.h"
#include "server/sessions.h"

namespace gluond::server {
namespace {

// A finished stream's client has so long, and no longer than its lease, to take what is being written to it.
constexpr std::chrono::seconds kLinger{5};

}  // namespace

SessionStream::SessionStream(Sessions& sessions, Runner& runner, const Method& method,
                             grpc::CallbackServerContext* context)
    : sessions_(sessions), runner_(runner), method_(method), context_(context), guest_(runner.peers, context) {}

SessionStream* SessionStream::Start(Sessions& sessions, Runner& runner, const Method& method,
                                    grpc::CallbackServerContext* context) {
  const auto stream = std::make_shared<SessionStream>(sessions, runner, method, context);
  __tsan_release(stream.get());
  const absl::Status status = sessions.AddStream(stream);
  status.ok() ? stream->Read() : stream->Finish(status);
  return stream.get();
}

void SessionStream::Read() {
  std::lock_guard lock(mu_);
  if (!finished_) StartRead(&incoming_);
}

void SessionStream::Write(grpc::ByteBuffer message) {
  std::lock_guard lock(mu_);
  if (finished_) return;
  outgoing_.Swap(&message);
  StartWrite(&outgoing_);
}

void SessionStream::Finish(const absl::Status& status) {
  std::lock_guard lock(mu_);
  if (finished_) return;
  finished_ = true;
  finish_time_ = Clock::now();
  if (!status.ok()) Log(status);
  guest_.Leave();
  ServerBidiReactor::Finish(ToGrpc(Annotate(status, method_.name)));
}

void SessionStream::Sweep(Clock::time_point now) {
  const std::chrono::seconds lease(runner_.limits.session_lease_seconds);
  if (session() == nullptr && now - start_ > lease) {
    Finish(absl::DeadlineExceededError(absl::StrCat("no message with `open` came for the ", lease.count(),
                                                    " s of --session_lease_seconds")));
  }
  std::lock_guard lock(mu_);
  if (finished_ && !done_ && now - finish_time_ > std::min(lease, kLinger)) context_->TryCancel();
}

void SessionStream::Drain() {
  if (session() == nullptr) Finish(absl::UnavailableError("the server is stopping"));
}

void SessionStream::OnReadDone(bool ok) {
  __tsan_acquire(this);
  const ScopedAccount account(guest_.peer()->account());
  if (!ok) return EndOfMessages();
  Slices slices;
  const size_t bytes = incoming_.Length();
  guest_.peer()->Gave(static_cast<int64_t>(bytes));
  (void)incoming_.Dump(&slices);
  incoming_.Clear();
  {
    std::lock_guard lock(mu_);
    received_bytes_ += static_cast<int64_t>(bytes);
  }
  if (static_cast<int64_t>(bytes) > runner_.limits.max_message_bytes) {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("the message has ", bytes, " bytes, more than the ", runner_.limits.max_message_bytes,
                     " of --max_message_bytes; send its commands in several, and large arrays in parts")));
  }
  if (bytes <= unary_internal::kLargeRequest) return Parse(slices, bytes);
  runner_.workers.Post([self = shared_from_this(), slices = std::move(slices), bytes] { self->Parse(slices, bytes); });
}

void SessionStream::Parse(const Slices& slices, size_t bytes) {
  const auto message = std::make_shared<SessionMessage>();
  message->memory = Reservation(Budget::PartOf(runner_.memory));
  const auto charge = [&message](int64_t parsed) { return message->memory.Grow(parsed); };
  if (absl::Status status = ParseMessage(slices, message->request, &message->attachments, charge); !status.ok()) {
    return Fail(status);
  }
  message->bytes = static_cast<int64_t>(bytes + message->arena.SpaceAllocated());
  message->memory.Shrink(message->memory.bytes());  // An estimate gives way to what the message takes.
  if (absl::Status status = message->memory.Grow(message->bytes); !status.ok()) return Fail(status);
  if (const auto session = this->session(); session != nullptr) return session->Receive(*this, message);
  Open(message);
}

void SessionStream::Open(SessionMessagePtr first) {
  if (!first->request->has_open()) {
    return Fail(absl::FailedPreconditionError(
        "a stream's first message needs `open`: empty for a new session, with a session's name to take it up again"));
  }
  v1::SessionOpened opened;
  const v1::OpenSession& open = first->request->open();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Open(open, guest_.peer(), &opened);
  if (!session.ok()) return Fail(session.status());
  {
    std::lock_guard lock(mu_);
    session_ = *session;
    client_ = open.client_id();
  }
  if (absl::Status status = (*session)->Attach(shared_from_this(), opened, std::move(first)); !status.ok()) {
    if (!opened.resumed()) (*session)->End(status);
    return Fail(status);
  }
  // It may have been cancelled before the session knew it.
  if (finished()) (*session)->Detach(*this);
}

void SessionStream::EndOfMessages() {
  if (context_->IsCancelled()) return Break();
  if (const auto session = this->session(); session != nullptr) return session->HalfClose(*this);
  Fail(absl::FailedPreconditionError("the stream ended before its first message, which needs `open`"));
}

void SessionStream::OnWriteDone(bool ok) {
  __tsan_acquire(this);
  const ScopedAccount account(guest_.peer()->account());
  if (!ok) return Break();
  outgoing_.Clear();
  if (const auto session = this->session(); session != nullptr) session->Written(*this);
}

void SessionStream::OnCancel() {
  __tsan_acquire(this);
  const ScopedAccount account(guest_.peer()->account());
  guest_.Leave();
  runner_.peers.WasReset(*guest_.peer());
  Break();
}

void SessionStream::OnDone() {
  __tsan_acquire(this);
  {
    std::lock_guard lock(mu_);
    done_ = true;
  }
  sessions_.RemoveStream(this);
}

// Finishes first: whoever attaches the stream meanwhile looks afterwards whether it is finished.
void SessionStream::Fail(const absl::Status& status) {
  Finish(status);
  if (const auto session = this->session(); session != nullptr) session->Detach(*this);
}

void SessionStream::Break() {
  Fail(absl::CancelledError("the client cancelled the stream, or its connection broke; another stream may take the "
                            "session up, until its lease ends"));
}

std::shared_ptr<Session> SessionStream::session() {
  std::lock_guard lock(mu_);
  return session_;
}

bool SessionStream::finished() {
  std::lock_guard lock(mu_);
  return finished_;
}

void SessionStream::Log(const absl::Status& status) const {
  const std::chrono::duration<double, std::milli> passed = Clock::now() - start_;
  runner_.log.Failed({method_.path, status, context_->peer(), received_bytes_, passed.count(), client_});
}

}  // namespace gluond::server
