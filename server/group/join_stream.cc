#include "server/group/join_stream.h"

#include <utility>

#include "absl/strings/match.h"
#include "engine/core/status_macros.h"
#include "server/group/callback_relay.h"
#include "server/wire/wire_message.h"

namespace gluond::server {

void JoinStream::Send(Slices message, bool is_heartbeat) {
  {
    MutexLock lock(queue_mu_);
    if (finished() || (is_heartbeat && writing_)) return;
    queue_.push_back(std::move(message));
    if (writing_) return;
    writing_ = true;
  }
  WriteNext();
}

void JoinStream::WriteNext() {
  Slices message;
  {
    MutexLock lock(queue_mu_);
    writing_ = !queue_.empty();
    if (!writing_) return;
    message = std::move(queue_.front());
    queue_.pop_front();
  }
  Write(message);
}

void JoinStream::Sweep(Clock::time_point now) {
  if (!IsSilent(now)) return;
  End(absl::DeadlineExceededError(absl::StrCat("the stream has said nothing for ", lease().count(),
                                               " s (--session_lease_seconds); a member says that it is there")));
}

bool JoinStream::is_local() const {
  const std::string& name = peer()->name();
  return absl::StartsWith(name, "unix:") || absl::StartsWith(name, "ipv4:127.") || absl::StartsWith(name, "ipv6:%5B::1%5D:") ||
         absl::StartsWith(name, "ipv6:[::1]:");
}

void JoinStream::Receive(const Slices& message, int64_t bytes) {
  if (group_ == nullptr) {
    return End(absl::FailedPreconditionError("this server leads no group; start it with --group, at an address of its own"));
  }
  v1::JoinRequest request;
  Attachments attachments;
  const auto memory = std::make_shared<Reservation>(NewReservation());
  const absl::Status status =
      ParseMessage(message, &request, &attachments, [&memory](int64_t parsed) { return memory->Grow(parsed); });
  if (!status.ok()) return End(status);
  if (request.has_ask()) return Ask(std::move(*request.mutable_ask()), std::move(attachments), bytes);
  if (!attachments.empty()) return End(Invalid("a field of the message is too long; members say short words"));
  group_->Heard(Self(), std::move(request), memory);
  Read();
}

// Values of clients' operators are as large as a model's.
void JoinStream::Ask(v1::JoinRequest::Ask ask, Attachments attachments, int64_t bytes) {
  auto asked = std::make_shared<MemberCallback>();
  asked->memory = NewReservation();
  asked->new_memory = NewReservations();
  asked->tell = [weak = std::weak_ptr(Self())](Slices answer) {
    if (const auto self = weak.lock(); self != nullptr) self->Send(std::move(answer), /*is_heartbeat=*/false);
  };
  asked->refused = asked->memory.Grow(bytes);
  asked->ask = std::move(ask);
  asked->attachments = std::move(attachments);
  group_->Asked(Self(), std::move(asked));
  Read();
}

void JoinStream::Ended() {
  {
    MutexLock lock(queue_mu_);
    queue_.clear();
  }
  if (group_ != nullptr) group_->Ended(Self());
}

}  // namespace gluond::server
