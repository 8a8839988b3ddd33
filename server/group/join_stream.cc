#include "server/group/join_stream.h"

#include <utility>

#include "absl/strings/match.h"
#include "engine/core/status_macros.h"
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

bool JoinStream::is_local() const {
  const std::string& name = peer()->name();
  return absl::StartsWith(name, "unix:") || absl::StartsWith(name, "ipv4:127.") || absl::StartsWith(name, "ipv6:%5B::1%5D:") ||
         absl::StartsWith(name, "ipv6:[::1]:");
}

void JoinStream::Receive(const Slices& message, int64_t) {
  if (group_ == nullptr) {
    return End(absl::FailedPreconditionError("this server leads no group; start it with --group, at an address of its own"));
  }
  v1::JoinRequest request;
  Attachments attachments;
  Reservation memory = NewReservation();
  const absl::Status status =
      ParseMessage(message, &request, &attachments, [&memory](int64_t parsed) { return memory.Grow(parsed); });
  if (!status.ok()) return End(status);
  if (!attachments.empty()) return End(Invalid("a field of the message is too long; members say short words"));
  group_->Heard(Self(), std::move(request));
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
