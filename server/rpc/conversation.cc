#include "server/rpc/conversation.h"

#include <algorithm>
#include <utility>

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

// A finished stream's client has so long, and no longer than its lease, to take what is being written to it.
constexpr std::chrono::seconds kLinger{5};

}  // namespace

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
  if (!status.ok()) LogFailure(status, received_bytes_, Clock::now() - start_, client_);
  MustTakeWithin(std::min<Clock::duration>(lease(), kLinger));  // The end may be behind a message that the client does not read.
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

bool Conversation::IsSilent(Clock::time_point now) const {
  MutexLock lock(mu_);
  return now - last_message_ > lease();
}

absl::Status Conversation::SetClient(absl::string_view message, const std::string& client_id) {
  if (client_id.size() > kLongestClientId) {
    return Invalid(message, ".client_id has ", client_id.size(), " bytes, more than ", kLongestClientId);
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
  auto receive = [self = std::static_pointer_cast<Conversation>(shared_from_this()), slices = std::move(*message), bytes] {
    self->encoding() == Encoding::kNone ? self->Receive(slices, bytes) : self->ReceiveCompressed(slices);
  };
  const int64_t to_parse = encoding() == Encoding::kNone ? bytes : bytes * kMostInflation;
  runner().dispatch.Run(Dispatch::OfMessage(to_parse), std::move(receive));
}

void Conversation::ReceiveCompressed(const Slices& slices) {
  Reservation memory = NewReservation();
  const absl::StatusOr<Slices> inflated =
      InflateInTurn(slices, limits().max_message_bytes, [&memory](int64_t piece) { return memory.Grow(piece); });
  if (!inflated.ok()) return End(inflated.status());
  Receive(*inflated, static_cast<int64_t>(Bytes(*inflated).size()));
}

void Conversation::TellAudit(absl::string_view command, const std::string& target, const absl::Status& status) {
  Stream::TellAudit({.code = status.code(), .target = target, .audit = Audit::kMany, .command = command});
}

void Conversation::Break() { End(absl::CancelledError("the client cancelled the stream, or its connection broke")); }

void Conversation::OnOver() {
  { MutexLock lock(mu_); }  // Finish may be about to return.
  Over();
}

}  // namespace gluond::server
