#include "server/rpc/unary_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "gluond/v1/call.pb.h"
#include "gluond/v1/training.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/codec/duration.h"
#include "server/identity/names.h"
#include "server/rpc/call.h"
#include "server/rpc/stored_answer.h"
#include "server/rpc/tenant_names.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

constexpr char kCallWasApplied[] = " (the call itself was applied)";
// A byte takes so many times longer to be compressed than to be parsed.
constexpr int64_t kTimesSlower = 16;

constexpr size_t kLongestModel = 128;

// The first calls of a peer are begun on the threads that poll, which know no turns.
constexpr int64_t kCallsAtOnce = 32;

std::string StringOf(const Message& message, Method::Field field) { return message.GetReflection()->GetString(message, field); }

// The request's CallOptions; without the field, empty ones.
const v1::CallOptions& OptionsOf(const UnaryCall& call) {
  const Method::Field field = call.method().call;
  if (field == nullptr) return v1::CallOptions::default_instance();
  return static_cast<const v1::CallOptions&>(call.request().GetReflection()->GetMessage(call.request(), field));
}

// A numbered call's model is the first thing that its request may name.
std::string ModelOf(const UnaryCall& call) { return StringOf(call.request(), call.method().targets.front()); }

// Checks what the client said, before the names of its tenant and its caller come before it. INVALID_ARGUMENT.
absl::Status CheckNumbered(const Numbered& said) {
  if (said.client.empty() || said.client.size() > kLongestClientId) {
    return Invalid("sequence ", said.number, " needs a client_id of 1 to ", kLongestClientId, " bytes, got ", said.client.size());
  }
  // An admin's names begin with a tenant's name, which is no part of their length.
  const size_t tenant = TenantPrefix(said.model).size();
  if (said.model.size() == tenant || said.model.size() - tenant > kLongestModel || tenant > kLongestTenant + 1) {
    return Invalid("sequence ", said.number, " needs the name of a model");
  }
  return absl::OkStatus();
}

// A client's name for itself matters to numbered calls and to uploads, which are the others that have CallOptions.
absl::Status CheckOptions(const UnaryCall& call) {
  const v1::CallOptions& options = OptionsOf(call);
  if (call.method().numbered) {
    return options.sequence() == 0 ? absl::OkStatus() : CheckNumbered({options.client_id(), ModelOf(call), options.sequence()});
  }
  return call.method().call == nullptr ? absl::OkStatus() : CheckClientId(options.client_id());
}

// Equal for equal messages, whatever the order in which maps were sent.
uint64_t Fingerprint(const Message& request, const Attachments& attachments) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    (void)request.SerializePartialToCodedStream(&out);
  }
  attachments.Summarize(&text);
  return absl::Hash<std::string>{}(absl::StrCat(request.GetTypeName(), ":", text));
}

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

void UnaryCall::GoOn(const CallPtr& self, Weight weight, void (UnaryCall::*step)(const CallPtr& self)) {
  runner().dispatch.Run(weight, [self, step] { (self.get()->*step)(self); });
}

void UnaryCall::Admit(const CallPtr& self) {
  FINISH_IF_ERROR(*this, Enter());
  // A peer with so many calls under way takes its turn among all peers.
  const bool takes_turn = permit_.held_by_peer() > kCallsAtOnce;
  const int64_t inflated = encoding() == Encoding::kNone ? request_bytes_ : std::min(request_bytes_ * kMostInflation, most_bytes());
  GoOn(self, Dispatch::OfCall(method().weight, inflated, takes_turn), &UnaryCall::Parse);
}

absl::Status UnaryCall::Enter() {
  RETURN_IF_ERROR(revoked());
  const bool is_limited = method().weight != Weight::kAlways;
  if (is_limited) {
    RETURN_IF_ERROR(runner().calls.Begin());
    entered_ = true;
  }
  if (request_bytes_ > most_bytes()) {
    if (method().is_short) return TooLongForName(request_bytes_);
    return OverLimit("--max_message_bytes", "the request has ", request_bytes_, " bytes, more than the ",
                     runner().limits.max_message_bytes, " of --max_message_bytes; send less at once, or upload in chunks");
  }
  if (is_limited) {
    ASSIGN_OR_RETURN(permit_, runner().requests.Enter(peer(), 1, reach().tenant()));
    ASSIGN_OR_RETURN(bytes_permit_, runner().request_bytes.Enter(peer(), request_bytes_));
  }
  return memory_.Grow(request_bytes_);
}

void UnaryCall::Parse(const CallPtr& self) {
  // Nobody may want the answer any more of a call that has waited for its turn.
  FINISH_IF_ERROR(*this, cancellation_->Check());
  FINISH_IF_ERROR(*this, ParseRequest());
  Qualify(self);
}

absl::Status UnaryCall::ParseRequest() {
  request_ = service_.request->New(&arena_);
  reply_ = service_.reply->New(&arena_);
  const auto charge = [this](int64_t bytes) { return memory_.Grow(bytes); };
  if (encoding() == Encoding::kNone) return ParseMessage(received_, request_, &attachments_, charge);
  MayCompress();
  is_compressed_ = true;
  Slices inflated;
  if (method().is_short) {
    ASSIGN_OR_RETURN(inflated, InflateShort(received_, encoding(), charge));
  } else {
    ASSIGN_OR_RETURN(inflated, InflateInTurn(received_, most_bytes(), charge));
    bytes_permit_ = Shares::Permit();
    ASSIGN_OR_RETURN(bytes_permit_, runner().request_bytes.Enter(peer(), static_cast<int64_t>(Bytes(inflated).size())));
  }
  return ParseMessage(inflated, request_, &attachments_, charge);
}

std::string UnaryCall::Scope(const std::string& client_id) const {
  return caller() == nullptr || client_id.empty() ? client_id : ClientOf(caller()->name, client_id);
}

// The names that the client said become the server's own.
void UnaryCall::Qualify(const CallPtr& self) {
  const google::protobuf::Reflection& reflection = *request_->GetReflection();
  FINISH_IF_ERROR(*this, CheckOptions(*this));
  if (!reach().is_everything()) server::Qualify(reach(), request_);
  if (method().call != nullptr) {
    auto* const options = static_cast<v1::CallOptions*>(reflection.MutableMessage(request_, method().call));
    if (options->client_id().size() <= kLongestClientId) client_ = options->client_id();
    options->set_client_id(Scope(options->client_id()));
  }
  if (const Method::Field field = method().client_id; field != nullptr) {
    reflection.SetString(request_, field, Scope(StringOf(*request_, field)));
  }
  for (const Method::Field field : method().targets) {
    if (target().empty()) SetTarget(StringOf(*request_, field));
  }
  // A call that changes nothing for others to find has no line in the audit log.
  if (method().commit != nullptr && !reflection.GetBool(*request_, method().commit)) audit_ = Audit::kNone;
  if (caller() != nullptr) AddTouched(*request_, &touched_);
  // Owners are asked before the call runs: to ask whether a checkpoint is there takes the disk.
  const bool asks_disk = std::any_of(touched_.begin(), touched_.end(),
                                     [](const Touched& each) { return each.thing == Thing::kCheckpoint && !each.name.empty(); });
  GoOn(self, asks_disk ? Weight::kDisk : Weight::kLight, &UnaryCall::Weigh);
}

// Making the tensors of a short request may take long.
void UnaryCall::Weigh(const CallPtr& self) {
  ASSIGN_OR_FINISH(*this, claim_, runner().owners.May(caller(), touched_));
  const bool is_large = service_.has_large_fill != nullptr && service_.has_large_fill(*request_);
  GoOn(self, is_large ? Weight::kHeavy : Weight::kLight, &UnaryCall::Order);
}

void UnaryCall::Order(const CallPtr& self) {
  const uint64_t number = OptionsOf(*this).sequence();
  if (number == 0) return Run(self);
  if (!method().numbered) {
    return Finish(
        absl::InvalidArgumentError("an upload takes no sequence: its chunks say where they belong; leave `call.sequence` out"));
  }
  numbered_ = {OptionsOf(*this).client_id(), ModelOf(*this), number};
  FINISH_IF_ERROR(*this, runner().check_loaded(numbered_.model));
  // The turn may be one that the call has waited for.
  auto run = [self](std::unique_ptr<Sequences::Turn> turn) {
    self->turn_ = std::move(turn);
    FINISH_IF_ERROR(*self, self->cancellation_->Check());
    self->Run(self);
  };
  runner().sequences.Arrive({.client = numbered_.client,
                             .model = numbered_.model,
                             .number = number,
                             .payload = Fingerprint(*request_, attachments_),
                             .run = std::move(run),
                             .replay = [self](const std::string& answer) { self->FinishWithStoredAnswer(answer); },
                             .refuse = [self](const absl::Status& status) { self->Finish(status); }});
}

void UnaryCall::Run(const CallPtr& self) { service_.answer(self); }

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
    *bytes = SerializeMessage(reply, reply_attachments_);
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
