#include "server/rpc/unary_call.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/training.pb.h"
#include "server/codec/duration.h"
#include "server/rpc/stored_answer.h"
#include "server/rpc/tenant_names.h"
#include "server/wire/wire_cut.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

constexpr char kCallWasApplied[] = " (the call itself was applied)";
// A byte takes so many times longer to be compressed than to be parsed.
constexpr int64_t kTimesSlower = 16;

}  // namespace

void UnaryCall::OnRead(Slices* request) {
  const CallPtr call(this, [self = shared_from_this()](UnaryCall* abandoned) { abandoned->Abandon(); });
  came_ = Clock::now();
  if (request == nullptr) {
    if (!expired()) runner().peers.WasNeverSent(*peer());
    return Finish(absl::CancelledError("the call ended before its message came"));
  }
  received_ = std::move(*request);
  request_bytes_ = static_cast<int64_t>(Bytes(received_).size());
  Admit(call);
}

void UnaryCall::Abandon() {
  if (!finished_) Finish(absl::InternalError("the server lost this call; please report it"));
  // A client that takes the reply slowly keeps the reply alone.
  request_ = reply_ = nullptr;
  arena_.Reset();
  received_.clear();
  attachments_ = Attachments();
  reply_attachments_ = Attachments();
}

void UnaryCall::Revoke(const absl::Status& why) {
  if (is_revoked_) return;
  why_revoked_ = why;
  is_revoked_ = true;
  cancellation_->Cancel();
}

void UnaryCall::Finish(const absl::Status& status) {
  if (finished_.exchange(true)) return;
  if (status.ok()) SetDurable(reply_);
  if (reply_ != nullptr) ReadPhases();
  Conclude(status);
}

void UnaryCall::FinishApplied(const absl::Status& status) {
  if (turn_ != nullptr) turn_->Applied(ToStoredAnswer(*reply_, reply_attachments_, method().replayed));
  if (!finished_.exchange(true)) Conclude(WithMessage(status, absl::StrCat(status.message(), kCallWasApplied)));
}

void UnaryCall::FinishWithStoredAnswer(const std::string& answer) {
  if (finished_.exchange(true)) return;
  const bool parsed = reply_->ParseFromString(answer);
  Conclude(parsed ? absl::OkStatus() : absl::InternalError("the stored answer is damaged"));
}

void UnaryCall::SetDurable(Message* reply) const {
  if (method().durable_sequence == nullptr || !numbered() || !runner().tells_durable) return;
  reply->GetReflection()->SetUInt64(reply, method().durable_sequence,
                                    runner().sequences.Durable(numbered_.client, numbered_.model));
}

void UnaryCall::ReadPhases() {
  if (method().timing == nullptr) return;
  const auto& timing = static_cast<const v1::Timing&>(reply_->GetReflection()->GetMessage(*reply_, method().timing));
  phases() = {FromProto(timing.queue()), FromProto(timing.compute()), FromProto(timing.callback())};
}

void UnaryCall::Conclude(const absl::Status& status) {
  if (claim_ != nullptr) claim_->End(/*made=*/status.ok());
  absl::Status outcome = status;
  Slices reply;
  int64_t reply_bytes = 0;
  if (status.ok()) {
    if (!reach().is_everything()) Unqualify(reach(), reply_);
    outcome = Encode(*reply_, &reply);
    // A reply that is compressed is there twice for a moment.
    const int64_t bytes = static_cast<int64_t>(Bytes(reply).size()) * (is_compressed_ ? 2 : 1);
    if (outcome.ok()) outcome = memory_.Grow(bytes);
    if (outcome.ok()) reply_bytes = bytes;
    if (turn_ != nullptr) turn_->Applied(ToStoredAnswer(*reply_, reply_attachments_, method().replayed));
  }
  if (const absl::Status why = revoked(); !why.ok()) outcome = why;
  // Before the client can know of the answer and send again.
  turn_.reset();
  permit_ = Shares::Permit();
  bytes_permit_ = Shares::Permit();
  memory_.Shrink(std::max<int64_t>(0, memory_.bytes() - reply_bytes - call_bytes_));
  if (!outcome.ok()) LogFailure(outcome, request_bytes_, Clock::now() - came_, client_);
  // Stream tells of refusals.
  if (audit_ != Audit::kNone && !IsRefusal(outcome.code()) && runner().audit.is_open()) {
    TellAudit({.code = outcome.code(), .target = target(), .request_id = request_id(), .audit = audit_});
  }
  Send(outcome.ok() ? outcome : Annotate(outcome, method().name), std::move(reply));
}

void UnaryCall::Send(const absl::Status& status, Slices reply) {
  const auto bytes = static_cast<int64_t>(Bytes(reply).size());
  last_status_ = status;
  last_reply_ = std::move(reply);
  if (!is_compressed_ || Dispatch::OfMessage(bytes * kTimesSlower) == Weight::kLight) return SendNow();
  // The calling thread may be a lane's.
  runner().dispatch.Run(Weight::kHeavy, [self = shared_from_this(), this] { SendNow(); });
}

void UnaryCall::SendNow() {
  MustTakeWithin(TimeToTake(memory_.bytes()));
  {
    MutexLock lock(mu_);
    ends_ = true;
    if (is_writing_) return;  // OnWritten ends the call.
  }
  End();
}

// The call may be over before End returns.
void UnaryCall::End() { last_status_.ok() ? WriteAndFinish(last_reply_) : Stream::Finish(last_status_); }

bool UnaryCall::TrySend(Message* reply) {
  Slices bytes;
  Reservation memory(Budget::PartOf(runner().memory));
  SetDurable(reply);
  if (!reach().is_everything()) Unqualify(reach(), reply);
  if (finished_ || !Encode(*reply, &bytes).ok()) return false;
  if (!memory.Grow(static_cast<int64_t>(Bytes(bytes).size())).ok()) return false;
  MutexLock lock(mu_);
  if (is_writing_) return false;
  is_writing_ = true;
  written_memory_ = std::move(memory);
  StartWrite(bytes);
  return true;
}

void UnaryCall::OnWritten(bool) {
  {
    MutexLock lock(mu_);
    is_writing_ = false;
    written_memory_ = Reservation();
    if (!ends_) return;
  }
  End();
}

void UnaryCall::OnOver() {
  if (entered_) runner().calls.End();
  last_reply_.clear();
  memory_ = Reservation();
}

absl::Status UnaryCall::Encode(const Message& reply, Slices* bytes) const {
  const size_t size = reply.ByteSizeLong();
  const auto limit = static_cast<size_t>(runner().limits.max_message_bytes);
  size_t total = size;
  if (!reply_attachments_.empty()) {
    *bytes = Weave(reply.SerializeAsString(), *reply.GetDescriptor(), reply_attachments_);
    total = Bytes(*bytes).size();
  } else if (size <= limit) {
    bytes->emplace_back(size);
    (void)reply.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes->front().begin()));
  }
  if (total > limit) {
    return OverLimit("--max_message_bytes", "the reply has ", total, " bytes, more than the ", runner().limits.max_message_bytes,
                     " of --max_message_bytes", turn_ == nullptr ? "" : kCallWasApplied,
                     "; ask for less at once, for STATISTICS, or download in chunks");
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
