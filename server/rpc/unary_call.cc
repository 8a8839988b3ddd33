#include "server/rpc/unary_call.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/training.pb.h"
#include "server/codec/duration.h"
#include "server/identity/names.h"
#include "server/rpc/inflate_in_turn.h"
#include "server/rpc/pipeline.h"
#include "server/rpc/stored_answer.h"
#include "server/rpc/tenant_names.h"
#include "server/wire/chunk.h"
#include "server/wire/wire_cut.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

constexpr char kCallWasApplied[] = " (the call itself was applied)";
// A byte takes so many times longer to be compressed than to be parsed.
constexpr int64_t kTimesSlower = 16;

}  // namespace

void UnaryCall::OnRead(Slices* request) {
  const CallPtr call = NewHandle();
  came_ = Clock::now();
  if (request == nullptr) {
    if (!expired()) runner_.peers.WasNeverSent(*peer());
    return Finish(absl::CancelledError("the call ended before its message came"));
  }
  received_ = std::move(*request);
  Admit(call, static_cast<int64_t>(Bytes(received_).size()));
}

CallPtr UnaryCall::NewHandle() {
  return CallPtr(this, [self = shared_from_this()](UnaryCall* call) { call->Abandon(); });
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

absl::Status UnaryCall::Enter(int64_t bytes) {
  request_bytes_ = bytes;
  RETURN_IF_ERROR(revoked());
  const bool is_limited = method().weight != Weight::kAlways;
  if (is_limited) {
    RETURN_IF_ERROR(runner_.calls.Begin());
    entered_ = true;
  }
  RETURN_IF_ERROR(CheckSize(bytes));
  if (is_limited) {
    ASSIGN_OR_RETURN(permit_, runner_.requests.Enter(peer(), 1, reach().tenant()));
    ASSIGN_OR_RETURN(bytes_permit_, runner_.request_bytes.Enter(peer(), bytes));
  }
  return memory_.Grow(bytes);
}

absl::Status UnaryCall::CheckSize(int64_t bytes) const {
  if (bytes <= most_bytes()) return absl::OkStatus();
  if (method().is_short) return TooLongForName(bytes);
  return OverLimit("--max_message_bytes", "the request has ", bytes, " bytes, more than the ", runner_.limits.max_message_bytes,
                   " of --max_message_bytes; send less at once, or upload in chunks");
}

int64_t UnaryCall::bytes_to_parse() const {
  if (encoding() == Encoding::kNone) return request_bytes_;
  return std::min(request_bytes_ * kMostInflation, most_bytes());
}

absl::Status UnaryCall::ParseRequest() {
  request_ = service_.request->New(&arena_);
  reply_ = service_.reply->New(&arena_);
  const auto charge = [this](int64_t bytes) { return memory_.Grow(bytes); };
  if (encoding() == Encoding::kNone) return ParseMessage(received_, request_, &attachments_, charge);
  MayCompress();
  is_compressed_ = true;
  ASSIGN_OR_RETURN(const Slices inflated, Inflated());
  return ParseMessage(inflated, request_, &attachments_, charge);
}

absl::StatusOr<Slices> UnaryCall::Inflated() {
  const auto charge = [this](int64_t piece) { return memory_.Grow(piece); };
  if (method().is_short) return InflateShort(received_, encoding(), charge);
  absl::StatusOr<Slices> inflated = InflateInTurn(received_, encoding(), most_bytes(), charge);
  if (!inflated.ok()) return inflated;
  bytes_permit_ = Shares::Permit();
  ASSIGN_OR_RETURN(bytes_permit_, runner_.request_bytes.Enter(peer(), static_cast<int64_t>(Bytes(*inflated).size())));
  return inflated;
}

void UnaryCall::SetClient(const std::string& client_id) {
  if (client_id.size() <= kLongestClientId) client_ = client_id;
}

std::string UnaryCall::Scope(const std::string& client_id) const {
  return caller() == nullptr || client_id.empty() ? client_id : ClientOf(caller()->name, client_id);
}

Weight UnaryCall::NoteTouched() {
  if (caller() != nullptr) AddTouched(*request_, &touched_);
  const bool asks_disk = std::any_of(touched_.begin(), touched_.end(),
                                     [](const Touched& each) { return each.thing == Thing::kCheckpoint && !each.name.empty(); });
  return asks_disk ? Weight::kDisk : Weight::kLight;
}

absl::Status UnaryCall::MayTouch() {
  ASSIGN_OR_RETURN(claim_, runner_.owners.May(caller(), touched_));
  return absl::OkStatus();
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
  if (method().durable_sequence == nullptr || !numbered() || !runner_.tells_durable) return;
  reply->GetReflection()->SetUInt64(reply, method().durable_sequence, runner_.sequences.Durable(numbered_.client, numbered_.model));
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
  if (!outcome.ok()) Log(outcome);
  // Stream tells of refusals.
  if (audit_ != Audit::kNone && !IsRefusal(outcome.code()) && runner_.audit.is_open()) TellAudit(outcome);
  Send(outcome.ok() ? outcome : Annotate(outcome, method().name), std::move(reply));
}

void UnaryCall::Send(const absl::Status& status, Slices reply) {
  const auto bytes = static_cast<int64_t>(Bytes(reply).size());
  last_status_ = status;
  last_reply_ = std::move(reply);
  if (!is_compressed_ || Dispatch::OfMessage(bytes * kTimesSlower) == Weight::kLight) return SendNow();
  // The calling thread may be a lane's.
  runner_.dispatch.Run(Weight::kHeavy, [self = shared_from_this(), this] { SendNow(); });
}

void UnaryCall::SendNow() {
  unsent_ = runner_.unsent.Add(this, memory_.bytes());
  is_sent_ = true;
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
  Reservation memory(Budget::PartOf(runner_.memory));
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
  if (is_sent_) runner_.unsent.Remove(unsent_);
  if (entered_) runner_.calls.End();
  last_reply_.clear();
  memory_ = Reservation();
}

absl::Status UnaryCall::Encode(const Message& reply, Slices* bytes) const {
  const size_t size = reply.ByteSizeLong();
  const auto limit = static_cast<size_t>(runner_.limits.max_message_bytes);
  size_t total = size;
  if (!reply_attachments_.empty()) {
    *bytes = Weave(reply.SerializeAsString(), *reply.GetDescriptor(), reply_attachments_);
    total = Bytes(*bytes).size();
  } else if (size <= limit) {
    bytes->emplace_back(size);
    (void)reply.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes->front().begin()));
  }
  if (total > limit) {
    return OverLimit("--max_message_bytes", "the reply has ", total, " bytes, more than the ", runner_.limits.max_message_bytes,
                     " of --max_message_bytes", turn_ == nullptr ? "" : kCallWasApplied,
                     "; ask for less at once, for STATISTICS, or download in chunks");
  }
  return absl::OkStatus();
}

void UnaryCall::Log(const absl::Status& status) {
  const std::chrono::duration<double, std::milli> passed = Clock::now() - came_;
  runner_.log.Failed({method().path, status, peer()->name(), request_bytes_, passed.count(), client_, request_id(), traceparent()});
}

void UnaryCall::TellAudit(const absl::Status& status) {
  runner_.audit.Tell(
      {method().path, status.code(), caller() == nullptr ? "" : caller()->name, target(), peer()->name(), request_id(), audit_});
}

}  // namespace gluond::server
