#include "server/rpc/stream.h"

#include "engine/core/error_info.h"
#include "engine/runtime/fair_semaphore.h"
#include "server/rpc/runner.h"
#include "server/rpc/tenant_names.h"

namespace gluond::server {
namespace {

// The deadline of a call may pass so much earlier at the client than here. The server counts from the moment when it has read the
// call, and reads late where many calls come at once.
constexpr std::chrono::seconds kEarly{1};

// A client has so long for any reply, and so much more for a large one.
constexpr std::chrono::seconds kPatience{30};
constexpr int64_t kSlowestBytesPerSecond = 256 << 10;

}  // namespace

Stream::Stream(Runner& runner, const Opening& opening)
    : runner_(runner),
      call_(opening.call),
      method_(*opening.method),
      counts_(*opening.counts),
      caller_(opening.caller),
      reach_(opening.reach),
      guest_(std::move(*opening.guest)),
      memory_(std::move(*opening.memory)),
      account_(AccountOf(*peer(), reach_)),
      deadline_(call_->deadline()) {}

// The call may be over before Begin returns, and the stream lets go of it then.
void Stream::Begin() {
  const std::shared_ptr<GrpcCall> call = call_;
  OnBegin();
  call->Begin();
}

void Stream::Leave(const absl::Status& status) {
  guest_.Leave();
  code_ = status.code();
  level_ = LevelOf(status);
  time_ = Clock::now() - begun_;
  counts_.Took(time_);
  if (level_ == LogLevel::kError) counts_.WasServersFault(code_);
  reach_.tenant() == nullptr ? counts_.Ended(code_) : reach_.tenant()->Ended(method_.path, code_);
  if (IsRefusal(code_)) TellAudit({.code = code_, .target = target_, .request_id = request_id()});
}

void Stream::TellAudit(Audited audited) {
  audited.method = method_.path;
  if (caller_ != nullptr) audited.caller = caller_->name;
  audited.peer = peer()->name();
  runner_.audit.Tell(audited);
}

void Stream::LogFailure(const absl::Status& status, int64_t bytes, Clock::duration time, const std::string& client) {
  const std::chrono::duration<double, std::milli> passed = time;
  runner_.log.Failed({method_.path, status, peer()->name(), bytes, passed.count(), client, request_id(), traceparent()});
}

Stream::Clock::duration Stream::TimeToTake(int64_t bytes) {
  return kPatience + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
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
  if (fails || IsRequestId(Metadata(kRequestIdKey))) call_->AddTrailingMetadata(kRequestIdKey, request_id());
  if (!Metadata(kTraceparentKey).empty()) call_->AddTrailingMetadata(kTraceparentKey, trace().ToTraceparent());
}

void Stream::LogAccess() {
  if (!runner_.access.Wants(level_)) return;
  runner_.access.Ended({.method = method_.path,
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

void Stream::StartWrite(const Slices& message) {
  Count(message);
  call_->StartWrite(message);
}

void Stream::Count(const Slices& sent) {
  ++messages_out_;
  bytes_out_ += static_cast<int64_t>(Bytes(sent).size());
}

// The stream may be over before the call's function returns.
void Stream::Finish(const absl::Status& status) {
  Leave(status);
  AddTrailingMetadata(/*fails=*/!status.ok());
  call_->Finish(reach_.is_everything() ? status : Unqualify(reach_, status));
}

void Stream::Abort(const absl::Status& status) {
  Leave(status);
  call_->Abort(status);
}

void Stream::WriteAndFinish(const Slices& message) {
  Leave(absl::OkStatus());
  AddTrailingMetadata(/*fails=*/false);
  Count(message);
  call_->WriteAndFinish(message);
}

absl::StatusOr<Slices> Stream::InflateInTurn(const Slices& slices, int64_t most_bytes, const ChargeInflated& charge) const {
  const auto bytes = static_cast<int64_t>(Bytes(slices).size());
  const absl::Status too_large =
      OverLimit("--max_message_bytes", "the ", bytes, " bytes of the compressed message hold more than the ", most_bytes,
                " of --max_message_bytes; send less at once, or upload in chunks");
  absl::StatusOr<Slices> inflated = absl::InternalError("nobody has inflated the message");
  const auto inflate = [&] { inflated = Inflate(slices, encoding_, most_bytes, too_large, charge); };
  // A short one may be on gRPC's thread, which does not wait.
  Dispatch::OfMessage(bytes * kMostInflation) == Weight::kLight ? inflate() : FairSemaphore::OfLongWork().Do(inflate);
  return inflated;
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
  expired() ? runner_.peers.WasLate(*peer()) : runner_.peers.WasReset(*peer());
  OnCancelled();
}

void Stream::OnDone() {
  const ScopedAccount account(account_);
  guest_.Go();
  LogAccess();
  OnOver();
  call_.reset();
}

}  // namespace gluond::server
