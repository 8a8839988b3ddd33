#include "server/session/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/tenant_names.h"
#include "server/session/sessions.h"
#include "server/wire/wire_message.h"

namespace gluond::server {

void SessionStream::Sweep(Clock::time_point now) {
  if (session() == nullptr && IsSilent(now)) {
    End(absl::DeadlineExceededError(
        absl::StrCat("no message with `open` came for the ", lease().count(), " s of --session_lease_seconds")));
  }
}

void SessionStream::Drain() {
  if (session() == nullptr) End(Draining());
}

void SessionStream::Receive(const Slices& slices, int64_t bytes) {
  const auto message = std::make_shared<SessionMessage>();
  absl::Status status = Parse(slices, bytes, message.get());
  if (status.ok()) {
    if (const auto session = this->session(); session != nullptr) return session->Receive(*this, message);
    status = Open(message);
  }
  if (!status.ok()) End(status);
}

absl::Status SessionStream::Parse(const Slices& slices, int64_t bytes, SessionMessage* message) const {
  message->memory = NewReservation();
  const auto charge = [message](int64_t parsed) { return message->memory.Grow(parsed); };
  RETURN_IF_ERROR(ParseMessage(slices, message->request, &message->attachments, charge));
  if (!reach().is_everything()) Qualify(reach(), message->request);
  message->bytes = bytes + static_cast<int64_t>(message->arena.SpaceAllocated());
  message->memory.Shrink(message->memory.bytes());  // An estimate gives way to what the message takes.
  return message->memory.Grow(message->bytes);
}

absl::Status SessionStream::Open(SessionMessagePtr first) {
  if (!first->request->has_open()) {
    return absl::FailedPreconditionError(
        "a stream's first message needs `open`: empty for a new session, with a session's name to take it up again");
  }
  v1::SessionOpened opened;
  const v1::OpenSession& open = first->request->open();
  RETURN_IF_ERROR(SetClient("OpenSession", open.client_id()));
  const absl::StatusOr<std::shared_ptr<Session>> found = sessions_.Open(open, *this, &opened);
  // Its name is a secret.
  TellAudit(open.session().empty() ? "OpenSession" : "TakeUpSession", open.client_id(), found.status());
  RETURN_IF_ERROR(found.status());
  const std::shared_ptr<Session> session = *found;
  {
    MutexLock lock(session_mu_);
    session_ = session;
  }
  const auto self = std::static_pointer_cast<SessionStream>(shared_from_this());
  absl::Status status = session->Attach(self, opened, std::move(first));
  if (!status.ok() && !opened.resumed()) session->End(status);
  if (finished()) session->Detach(*this);
  return status;
}

void SessionStream::NoMoreMessages() {
  if (IsBroken()) return Break();
  if (const auto session = this->session(); session != nullptr) return session->HalfClose(*this);
  End(absl::FailedPreconditionError("the stream ended before its first message, which needs `open`"));
}

void SessionStream::Written() {
  if (const auto session = this->session(); session != nullptr) session->Written(*this);
}

void SessionStream::Ended() {
  if (const auto session = this->session(); session != nullptr) session->Detach(*this);
}

void SessionStream::Over() { sessions_.streams().Remove(this); }

std::shared_ptr<Session> SessionStream::session() {
  MutexLock lock(session_mu_);
  return session_;
}

}  // namespace gluond::server
