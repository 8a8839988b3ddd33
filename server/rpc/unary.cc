#include "server/rpc/unary.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/identity/names.h"
#include "server/rpc/inflate_in_turn.h"
#include "server/rpc/stored_answer.h"
#include "server/wire/chunk.h"
#include "server/wire/parse_message.h"
#include "server/wire/wire_cut.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

constexpr char kCallWasApplied[] = " (the call itself was applied)";
// The first calls of a peer are begun on gRPC's threads, which know no turns.
constexpr int64_t kCallsAtOnce = 32;
constexpr size_t kLongestModel = 128;
// A byte takes so many times longer to be compressed than to be parsed.
constexpr int64_t kTimesSlower = 16;

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

// Lives until gRPC is done with it, which is after the Rpc's Finish.
class Rpc::OneCall final : public Stream {
 public:
  OneCall(Runner& runner, Opening opening, const Run& run)
      : Stream(runner.peers, opening), runner_(runner), run_(run),
        cancellation_(std::make_shared<Cancellation>(deadline())) {}

  // The call is under way until OnOver. As CallsUnderWay::Begin.
  absl::Status Enter() {
    RETURN_IF_ERROR(runner_.calls.Begin());
    entered_ = true;
    return absl::OkStatus();
  }

  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  using Stream::encoding;
  using Stream::MayCompress;
  using Stream::TakeMemory;

  // The call is to end so, and not to begin where it has not.
  void Revoke(const absl::Status& why) override {
    if (is_revoked_) return;
    why_revoked_ = why;
    is_revoked_ = true;
    cancellation_->Cancel();
  }
  // OK: the call is not revoked.
  absl::Status revoked() const { return is_revoked_ ? why_revoked_ : absl::OkStatus(); }

  // Sends one of several replies, whose `memory` stays until it is sent. False: the one before it is not sent yet.
  bool TrySend(const Slices& reply, Reservation memory) {
    MutexLock lock(mu_);
    if (is_writing_) return false;
    is_writing_ = true;
    memory_ = std::move(memory);
    StartWrite(reply);
    return true;
  }

  // Ends the call, with the reply where `status` is OK, whose `memory` stays until the client has it.
  void Send(const absl::Status& status, const Slices& reply, Reservation memory) {
    last_status_ = status;
    last_reply_ = reply;
    last_memory_ = std::move(memory);
    unsent_ = runner_.unsent.Add(this, last_memory_.bytes());
    is_sent_ = true;
    {
      MutexLock lock(mu_);
      ends_ = true;
      if (is_writing_) return;  // OnWritten ends the call.
    }
    End();
  }

 private:
  void OnWritten(bool) override {
    {
      MutexLock lock(mu_);
      is_writing_ = false;
      memory_ = Reservation();
      if (!ends_) return;
    }
    End();
  }
  // The call may be over, and this gone, before it returns.
  void End() { last_status_.ok() ? WriteAndFinish(last_reply_) : Finish(last_status_); }

  void OnBegin() override { StartRead(); }
  void OnRead(Slices* request) override { run_(this, request); }
  void OnCancelled() override { cancellation_->Cancel(); }
  void OnOver() override {
    if (is_sent_) runner_.unsent.Remove(unsent_);
    if (entered_) runner_.calls.End();
    delete this;
  }

  Runner& runner_;
  const Run& run_;
  const std::shared_ptr<Cancellation> cancellation_;
  bool entered_ = false;  // Set before the call is finished, and thus before OnOver.
  bool is_sent_ = false;
  absl::Status why_revoked_;  // Set before is_revoked_, and to be read after it.
  std::atomic<bool> is_revoked_ = false;
  Unsent::Place unsent_;
  absl::Status last_status_;
  Slices last_reply_;
  Reservation last_memory_;
  Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;  // A reply that is not the last.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;        // The last reply is there.
  Reservation memory_ ABSL_GUARDED_BY(mu_);
};

Stream* Rpc::Await(Runner& runner, Stream::Opening opening, const Run& run) {
  return new OneCall(runner, opening, run);
}

Rpc::Rpc(Runner& runner, const Method& method, OneCall* stream)
    : runner_(runner), method_(method), stream_(stream), peer_(stream->peer()), reach_(stream->reach()),
      cancellation_(stream->cancellation()), memory_(stream->TakeMemory()) {}

Rpc::~Rpc() {
  if (!finished_) Finish(absl::InternalError("the server lost this call; please report it"), nullptr);
}

absl::Status Rpc::Admit(const Slices* request) {
  if (request == nullptr) {
    if (!stream_->expired()) runner_.peers.WasNeverSent(*peer_);
    return absl::CancelledError("the call ended before its message came");
  }
  const auto bytes = request_bytes_ = static_cast<int64_t>(Bytes(*request).size());
  RETURN_IF_ERROR(stream_->revoked());
  if (method_.weight != Weight::kAlways) RETURN_IF_ERROR(stream_->Enter());
  RETURN_IF_ERROR(CheckSize(bytes));
  if (method_.weight != Weight::kAlways) {
    ASSIGN_OR_RETURN(permit_, runner_.requests.Enter(peer_, 1, reach_.tenant()));
    ASSIGN_OR_RETURN(bytes_permit_, runner_.request_bytes.Enter(peer_, bytes));
  }
  return memory_.Grow(bytes);
}

absl::Status Rpc::CheckSize(int64_t bytes) const {
  if (bytes <= most_bytes()) return absl::OkStatus();
  if (method_.is_short) return TooLongForName(bytes);
  return OverLimit("--max_message_bytes", "the request has ", bytes, " bytes, more than the ",
                   runner_.limits.max_message_bytes, " of --max_message_bytes; send less at once, or upload in chunks");
}

std::string Rpc::caller_name() const { return stream_->caller_name(); }

bool Rpc::has_caller() const { return stream_->caller() != nullptr; }

const IdentityPtr& Rpc::caller() const { return stream_->caller(); }

bool Rpc::TakesTurn() const { return permit_.held_by_peer() > kCallsAtOnce; }

int64_t Rpc::bytes_to_parse() const {
  if (stream_->encoding() == Encoding::kNone) return request_bytes_;
  return std::min(request_bytes_ * kMostInflation, most_bytes());
}

absl::Status Rpc::Parse(const Slices& slices, Message* message) {
  const auto charge = [this](int64_t bytes) { return memory_.Grow(bytes); };
  if (stream_->encoding() == Encoding::kNone) return ParseMessage(slices, message, &attachments_, charge);
  stream_->MayCompress();
  is_compressed_ = true;
  ASSIGN_OR_RETURN(const Slices inflated, Inflated(slices));
  return ParseMessage(inflated, message, &attachments_, charge);
}

absl::StatusOr<Slices> Rpc::Inflated(const Slices& slices) {
  const auto charge = [this](int64_t piece) { return memory_.Grow(piece); };
  if (method_.is_short) return InflateShort(slices, stream_->encoding(), charge);
  absl::StatusOr<Slices> inflated = InflateInTurn(slices, stream_->encoding(), most_bytes(), charge);
  if (!inflated.ok()) return inflated;
  bytes_permit_ = Shares::Permit();
  ASSIGN_OR_RETURN(bytes_permit_, runner_.request_bytes.Enter(peer_, static_cast<int64_t>(Bytes(*inflated).size())));
  return inflated;
}

void Rpc::SetClient(const std::string& client_id) {
  if (client_id.size() <= kLongestClientId) client_ = client_id;
}

void Rpc::Scope(std::string* client_id) const {
  if (stream_->caller() != nullptr && !client_id->empty()) *client_id = ClientOf(stream_->caller()->name, *client_id);
}

void Rpc::Touch(const Message& request) {
  if (stream_->caller() != nullptr) AddTouched(request, &touched_);
}

Weight Rpc::WeightOfTouching() const {
  const bool asks_disk = std::any_of(touched_.begin(), touched_.end(), [](const Touched& each) {
    return each.thing == Thing::kCheckpoint && !each.name.empty();
  });
  return asks_disk ? Weight::kDisk : Weight::kLight;
}

absl::Status Rpc::MayTouch() {
  ASSIGN_OR_RETURN(claim_, runner_.owners.May(stream_->caller(), touched_));
  return absl::OkStatus();
}

void Rpc::Finish(const absl::Status& status, Message* response) {
  if (finished_.exchange(true)) return;
  if (claim_ != nullptr) claim_->End(/*made=*/status.ok());
  absl::Status outcome = status;
  Slices reply;
  int64_t reply_bytes = 0;
  if (status.ok()) {
    if (!reach_.is_everything()) Unqualify(reach_, response);
    outcome = Encode(*response, &reply);
    // A reply that gRPC compresses is there twice for a moment.
    const int64_t bytes = static_cast<int64_t>(Bytes(reply).size()) * (is_compressed_ ? 2 : 1);
    if (outcome.ok()) outcome = memory_.Grow(bytes);
    if (outcome.ok()) reply_bytes = bytes;
    if (turn_ != nullptr) turn_->Applied(ToStoredAnswer(*response, reply_attachments_));
  }
  if (const absl::Status revoked = stream_->revoked(); !revoked.ok()) outcome = revoked;
  // Before the client can know of the answer and send again.
  turn_.reset();
  permit_ = Shares::Permit();
  bytes_permit_ = Shares::Permit();
  memory_.Shrink(std::max<int64_t>(0, memory_.bytes() - reply_bytes - call_bytes_));
  if (!outcome.ok()) Log(outcome);
  // Stream tells of refusals.
  if (audit_ != Audit::kNone && !IsRefusal(outcome.code()) && runner_.audit.is_open()) TellAudit(outcome);
  stream_->SetTarget(std::move(target_));
  stream_->SetPhases(phases_);
  Send(outcome.ok() ? outcome : Annotate(outcome, method_.name), std::move(reply));
}

void Rpc::Send(const absl::Status& status, Slices reply) {
  const auto bytes = static_cast<int64_t>(Bytes(reply).size());
  if (!is_compressed_ || Dispatch::OfMessage(bytes * kTimesSlower) == Weight::kLight) {
    return stream_->Send(status, reply, std::move(memory_));
  }
  // The calling thread may be a lane's, and this may be gone before the other one begins.
  auto memory = std::make_shared<Reservation>(std::move(memory_));
  runner_.dispatch.Run(Weight::kHeavy, [stream = stream_, status, reply = std::move(reply), memory] {
    stream->Send(status, reply, std::move(*memory));
  });
}

bool Rpc::TrySend(Message* response) {
  Slices reply;
  Reservation memory(Budget::PartOf(runner_.memory));
  if (!reach_.is_everything()) Unqualify(reach_, response);
  if (finished_ || !Encode(*response, &reply).ok()) return false;
  if (!memory.Grow(static_cast<int64_t>(Bytes(reply).size())).ok()) return false;
  return stream_->TrySend(reply, std::move(memory));
}

void Rpc::FinishApplied(const absl::Status& status, Message* response) {
  if (turn_ != nullptr) turn_->Applied(ToStoredAnswer(*response, reply_attachments_));
  Finish(WithMessage(status, absl::StrCat(status.message(), kCallWasApplied)), response);
}

void Rpc::FinishWithStoredAnswer(const std::string& answer, Message* response) {
  const bool parsed = response->ParseFromString(answer);
  Finish(parsed ? absl::OkStatus() : absl::InternalError("the stored answer is damaged"), response);
}

absl::Status Rpc::Encode(const Message& response, Slices* reply) const {
  const size_t size = response.ByteSizeLong();
  const auto limit = static_cast<size_t>(runner_.limits.max_message_bytes);
  size_t total = size;
  if (!reply_attachments_.empty()) {
    *reply = Weave(response.SerializeAsString(), *response.GetDescriptor(), reply_attachments_);
    total = Bytes(*reply).size();
  } else if (size <= limit) {
    reply->emplace_back(size);
    (void)response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(reply->front().begin()));
  }
  if (total > limit) {
    return OverLimit("--max_message_bytes", "the reply has ", total, " bytes, more than the ",
                     runner_.limits.max_message_bytes, " of --max_message_bytes", turn_ == nullptr ? "" : kCallWasApplied,
                     "; ask for less at once, for STATISTICS, or download in chunks");
  }
  return absl::OkStatus();
}

void Rpc::Log(const absl::Status& status) {
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start_;
  runner_.log.Failed({method_.path, status, peer_->name(), request_bytes_, passed.count(), client_,
                      stream_->request_id(), stream_->traceparent()});
}

void Rpc::TellAudit(const absl::Status& status) {
  runner_.audit.Tell({method_.path, status.code(), stream_->caller() == nullptr ? "" : stream_->caller()->name, target_,
                      peer_->name(), stream_->request_id(), audit_});
}

absl::Status CheckNumbered(const Numbered& said) {
  if (said.client.empty() || said.client.size() > kLongestClientId) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", said.number, " needs a client_id of 1 to ", kLongestClientId,
                                                   " bytes, got ", said.client.size()));
  }
  // An admin's names begin with a tenant's name, which is no part of their length.
  const size_t tenant = TenantPrefix(said.model).size();
  if (said.model.size() == tenant || said.model.size() - tenant > kLongestModel || tenant > kLongestTenant + 1) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", said.number, " needs the name of a model"));
  }
  return absl::OkStatus();
}

Sequences::Arrival ToArrival(Numbered numbered, const Message& request, const Attachments& attachments) {
  Sequences::Arrival arrival;
  arrival.client = std::move(numbered.client);
  arrival.model = std::move(numbered.model);
  arrival.number = numbered.number;
  arrival.payload = Fingerprint(request, attachments);
  return arrival;
}

}  // namespace gluond::server
