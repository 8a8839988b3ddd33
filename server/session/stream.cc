#include "server/session/stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/session/sessions.h"
#include "server/wire/parse_message.h"

namespace gluond::server {

SessionStream::SessionStream(Sessions& sessions, Runner& runner, const Method& method, Opening opening)
    : Stream(runner.peers, std::move(opening)), sessions_(sessions), runner_(runner), method_(method) {}

SessionStream* SessionStream::Start(Sessions& sessions, Runner& runner, const Method& method, Opening opening) {
  const auto stream = std::make_shared<SessionStream>(sessions, runner, method, std::move(opening));
  const absl::Status status = sessions.AddStream(stream);
  status.ok() ? stream->Read() : stream->Finish(status);
  return stream.get();
}

void SessionStream::Read() {
  std::lock_guard lock(mu_);
  if (!finished_) StartRead();
}

void SessionStream::Write(const Slices& message) {
  std::lock_guard lock(mu_);
  if (!finished_) StartWrite(message);
}

void SessionStream::Finish(const absl::Status& status) {
  std::lock_guard lock(mu_);
  if (finished_) return;
  finished_ = true;
  finish_time_ = Clock::now();
  if (!status.ok()) Log(status);
  Stream::Finish(Annotate(status, method_.name));
}

void SessionStream::Sweep(Clock::time_point now) {
  const std::chrono::seconds lease(runner_.limits.session_lease_seconds);
  if (session() == nullptr && now - start_ > lease) {
    Finish(absl::DeadlineExceededError(absl::StrCat("no message with `open` came for the ", lease.count(),
                                                    " s of --session_lease_seconds")));
  }
  std::lock_guard lock(mu_);
  if (finished_ && !done_ && now - finish_time_ > std::min(lease, kLinger)) Cancel();
}

void SessionStream::Drain() {
  if (session() == nullptr) Finish(absl::UnavailableError("the server is stopping"));
}

void SessionStream::OnRead(Slices* message) {
  if (message == nullptr) return EndOfMessages();
  const auto bytes = static_cast<int64_t>(Bytes(*message).size());
  {
    std::lock_guard lock(mu_);
    received_bytes_ += bytes;
  }
  if (bytes > runner_.limits.max_message_bytes) {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("the message has ", bytes, " bytes, more than the ", runner_.limits.max_message_bytes,
                     " of --max_message_bytes; send its commands in several, and large arrays in parts")));
  }
  if (bytes <= unary_internal::kLargeRequest) return Parse(*message, bytes);
  runner_.workers.Post([self = shared_from_this(), slices = std::move(*message), bytes] { self->Parse(slices, bytes); });
}

void SessionStream::Parse(const Slices& slices, int64_t bytes) {
  const auto message = std::make_shared<SessionMessage>();
  message->memory = Reservation(Budget::PartOf(runner_.memory));
  const auto charge = [&message](int64_t parsed) { return message->memory.Grow(parsed); };
  if (absl::Status status = ParseMessage(slices, message->request, &message->attachments, charge); !status.ok()) {
    return Fail(status);
  }
  message->bytes = bytes + static_cast<int64_t>(message->arena.SpaceAllocated());
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
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Open(open, peer(), &opened);
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
  if (IsBroken()) return Break();
  if (const auto session = this->session(); session != nullptr) return session->HalfClose(*this);
  Fail(absl::FailedPreconditionError("the stream ended before its first message, which needs `open`"));
}

void SessionStream::OnWritten(bool ok) {
  if (!ok) return Break();
  if (const auto session = this->session(); session != nullptr) session->Written(*this);
}

void SessionStream::OnCancel() { Break(); }

void SessionStream::OnDone() {
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
  runner_.log.Failed({method_.path, status, peer()->name(), received_bytes_, passed.count(), client_});
}

}  // namespace gluond::server
