// The way of a UnaryCall from the bytes of its message to the method's own code. Nothing here knows who carries the call.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "gluond/v1/call.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/identity/names.h"
#include "server/rpc/call.h"
#include "server/rpc/tenant_names.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

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

}  // namespace gluond::server
