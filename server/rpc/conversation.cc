#include "server/rpc/conversation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/rpc/inflate_in_turn.h"
#include "server/wire/chunk.h"

namespace gluond::server {

void Conversation::Read() {
  MutexLock lock(mu_);
  if (!finished_) StartRead();
}

void Conversation::Write(const Slices& message) {
  MutexLock lock(mu_);
  if (!finished_) StartWrite(message);
}

bool Conversation::Finish(const absl::Status& status) {
  MutexLock lock(mu_);
  if (finished_) return false;
  finished_ = true;
  finish_time_ = Clock::now();
  if (!status.ok()) {
    const std::chrono::duration<double, std::milli> passed = finish_time_ - start_;
    runner_.log.Failed(
        {method().path, status, peer()->name(), received_bytes_, passed.count(), client_, request_id(), traceparent()});
  }
  Stream::Finish(Annotate(status, method().name));
  return true;
}

bool Conversation::finished() const {
  MutexLock lock(mu_);
  return finished_;
}

void Conversation::End(const absl::Status& status) {
  if (Finish(status)) Ended();
}

void Conversation::Sweep(Clock::time_point now) {
  MutexLock lock(mu_);
  // The end is behind a message that the client does not read.
  if (finished_ && !over_ && now - finish_time_ > std::min(lease(), kLinger)) Cancel();
}

bool Conversation::IsSilent(Clock::time_point now) const {
  MutexLock lock(mu_);
  return now - last_message_ > lease();
}

absl::Status Conversation::SetClient(absl::string_view message, const std::string& client_id) {
  if (client_id.size() > kLongestClientId) {
    return absl::InvalidArgumentError(
        absl::StrCat(message, ".client_id has ", client_id.size(), " bytes, more than ", kLongestClientId));
  }
  MutexLock lock(mu_);
  client_ = client_id;
  return absl::OkStatus();
}

void Conversation::OnRead(Slices* message) {
  if (message == nullptr) return NoMoreMessages();
  const auto bytes = static_cast<int64_t>(Bytes(*message).size());
  {
    MutexLock lock(mu_);
    received_bytes_ += bytes;
    last_message_ = Clock::now();
  }
  if (bytes > limits().max_message_bytes) {
    return End(OverLimit("--max_message_bytes", "the message has ", bytes, " bytes, more than the ", limits().max_message_bytes,
                         " of --max_message_bytes; send it in parts"));
  }
  auto receive = [self = std::static_pointer_cast<Conversation>(shared_from_this()), slices = std::move(*message),
                  encoding = encoding(), bytes] {
    encoding == Encoding::kNone ? self->Receive(slices, bytes) : self->ReceiveCompressed(slices, encoding);
  };
  const int64_t to_parse = encoding() == Encoding::kNone ? bytes : bytes * kMostInflation;
  runner_.dispatch.Run(Dispatch::OfMessage(to_parse), std::move(receive));
}

void Conversation::ReceiveCompressed(const Slices& slices, Encoding encoding) {
  Reservation memory = NewReservation();
  const absl::StatusOr<Slices> inflated =
      InflateInTurn(slices, encoding, limits().max_message_bytes, [&memory](int64_t piece) { return memory.Grow(piece); });
  if (!inflated.ok()) return End(inflated.status());
  Receive(*inflated, static_cast<int64_t>(Bytes(*inflated).size()));
}

void Conversation::TellAudit(absl::string_view command, const std::string& target, const absl::Status& status) {
  if (!runner_.audit.is_open()) return;
  runner_.audit.Tell({method().path, status.code(), caller() == nullptr ? "" : caller()->name, target, peer()->name(),
                      /*request_id=*/"", Audit::kMany, command});
}

void Conversation::Revoke(const absl::Status& why) { End(why); }

void Conversation::OnWritten(bool ok) { ok ? Written() : Break(); }

void Conversation::Break() { End(absl::CancelledError("the client cancelled the stream, or its connection broke")); }

void Conversation::OnOver() {
  {
    MutexLock lock(mu_);
    over_ = true;
  }
  Over();
}

}  // namespace gluond::server
