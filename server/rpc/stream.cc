#include "server/rpc/stream.h"

#include <utility>

#include "server/rpc/open_calls.h"
#include "server/rpc/request_id.h"
#include "server/rpc/tenant_names.h"

namespace gluond::server {
namespace {

// A client's deadline passes so much before the server's, which began to count when it had read the call: of many at
// once, late.
constexpr std::chrono::seconds kEarly{1};

}  // namespace

Stream::Stream(Peers& peers, const Opening& opening)
    : peers_(peers),
      carrier_(opening.carrier),
      method_(*opening.method),
      counts_(*opening.counts),
      caller_(opening.caller),
      reach_(opening.reach),
      access_(opening.access),
      audit_(opening.audit),
      open_calls_(opening.open_calls),
      guest_(std::move(*opening.guest)),
      memory_(std::move(*opening.memory)),
      account_(AccountOf(*peer(), reach_)),
      deadline_(carrier_->deadline()) {}

// The call may be over before Begin returns, and lets go of its carrier then.
void Stream::Begin() {
  const std::shared_ptr<Carrier> carrier = carrier_;
  OnBegin();
  carrier->Begin();
}

void Stream::Leave(absl::StatusCode code, LogLevel level) {
  guest_.Leave();
  code_ = code;
  level_ = level;
  time_ = Clock::now() - begun_;
  counts_.Took(time_);
  if (level == LogLevel::kError) counts_.WasServersFault(code);
  reach_.tenant() == nullptr ? counts_.Ended(code) : reach_.tenant()->Ended(method_.path, code);
}

const std::string& Stream::request_id() {
  if (request_id_.empty()) {
    const absl::string_view sent = Metadata(kRequestIdKey);
    request_id_ = IsRequestId(sent) ? std::string(sent) : NewRequestId();
  }
  return request_id_;
}

std::string Stream::traceparent() const {
  const absl::string_view sent = Metadata(kTraceparentKey);
  return IsTraceparent(sent) ? std::string(sent) : "";
}

const TraceContext& Stream::trace() {
  if (!trace_.has_value()) trace_.emplace(Metadata(kTraceparentKey));
  return *trace_;
}

void Stream::AddTrailingMetadata(bool fails) {
  if (fails || IsRequestId(Metadata(kRequestIdKey))) carrier_->AddTrailingMetadata(kRequestIdKey, request_id());
  if (!Metadata(kTraceparentKey).empty()) carrier_->AddTrailingMetadata(kTraceparentKey, trace().ToTraceparent());
}

void Stream::LogAccess() {
  if (access_ == nullptr || !access_->Wants(level_)) return;
  access_->Ended({.method = method_.path,
                  .caller = caller_ == nullptr ? absl::string_view() : caller_->name,
                  .peer = peer()->name(),
                  .target = target_,
                  .request_id = request_id(),
                  .trace = trace(),
                  .code = code_,
                  .level = level_,
                  .time = time_,
                  .phases = phases_,
                  .bytes_in = bytes_in_,
                  .bytes_out = bytes_out_,
                  .messages_in = messages_in_,
                  .messages_out = messages_out_});
}

bool Stream::expired() const { return Clock::now() + kEarly >= deadline_; }

void Stream::StartRead() { carrier_->StartRead(); }

void Stream::StartWrite(const Slices& message) {
  Count(message);
  carrier_->StartWrite(message);
}

void Stream::Count(const Slices& sent) {
  ++messages_out_;
  bytes_out_ += static_cast<int64_t>(Bytes(sent).size());
}

// The stream may be over before the carrier's function returns.
void Stream::Finish(const absl::Status& status) {
  Leave(status.code(), LevelOf(status));
  if (audit_ != nullptr && IsRefusal(status.code())) {
    audit_->Tell({method_.path, status.code(), caller_ == nullptr ? "" : caller_->name, target_, peer()->name(), request_id()});
  }
  AddTrailingMetadata(/*fails=*/!status.ok());
  carrier_->Finish(reach_.is_everything() ? status : Unqualify(reach_, status));
}

void Stream::Abort(const absl::Status& status) {
  Leave(status.code(), LevelOf(status));
  carrier_->Abort(status);
}

void Stream::WriteAndFinish(const Slices& message) {
  Leave(absl::StatusCode::kOk, LogLevel::kInfo);
  AddTrailingMetadata(/*fails=*/false);
  Count(message);
  carrier_->WriteAndFinish(message);
}

void Stream::OnReadDone(Slices* message, Encoding encoding) {
  const ScopedAccount account(account_);
  if (message != nullptr) {
    const auto bytes = static_cast<int64_t>(Bytes(*message).size());
    peer()->Gave(bytes);
    ++messages_in_;
    bytes_in_ += bytes;
    encoding_ = encoding;
  } else if (IsBroken()) {
    guest_.End();  // OnCancel may come late, behind those of other calls.
  }
  OnRead(message);
}

void Stream::OnWriteDone(bool ok) {
  const ScopedAccount account(account_);
  OnWritten(ok);
}

void Stream::OnCancel() {
  const ScopedAccount account(account_);
  guest_.End();
  expired() ? peers_.WasLate(*peer()) : peers_.WasReset(*peer());
  OnCancelled();
}

void Stream::OnDone() {
  const ScopedAccount account(account_);
  guest_.Go();
  if (open_calls_ != nullptr) open_calls_->Remove(this);
  LogAccess();
  OnOver();
  carrier_.reset();
}

}  // namespace gluond::server
