#include "server/rpc/stream.h"

#include <utility>

#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/request_id.h"
#include "server/rpc/tenant_names.h"

namespace gluond::server {
namespace {

// A client's deadline passes so much before the server's, which began to count when it had read the call: of many at
// once, late.
constexpr std::chrono::seconds kEarly{1};

// gRPC's C interface knows how a message was compressed, and of its C++ interface this class alone lets one ask.
class ReceivedMessage final : public grpc::ProtoBufferReader {
 public:
  using ProtoBufferReader::ProtoBufferReader;

  Encoding encoding() {
    if (!status().ok()) return Encoding::kNone;
    switch (reader()->buffer_in->data.raw.compression) {
      case GRPC_COMPRESS_DEFLATE: return Encoding::kDeflate;
      case GRPC_COMPRESS_GZIP: return Encoding::kGzip;
      default: return Encoding::kNone;  // gRPC refuses whatever this server does not name as its own.
    }
  }
};

Stream::Clock::time_point SteadyDeadline(const grpc::ServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Stream::Clock::time_point::max();
  const auto left = deadline - std::chrono::system_clock::now();
  // gRPC's "never" may come as a time in the far future.
  if (left > std::chrono::hours(24 * 365)) return Stream::Clock::time_point::max();
  return Stream::Clock::now() + left;
}

}  // namespace

Stream::Stream(Peers& peers, const Opening& opening)
    : peers_(peers), call_(*opening.call), counts_(*opening.counts), caller_(opening.caller),
      reach_(opening.reach), method_(opening.method), access_(opening.access), audit_(opening.audit),
      open_calls_(opening.open_calls),
      guest_(std::move(*opening.guest)), memory_(std::move(*opening.memory)), account_(AccountOf(*peer(), reach_)),
      deadline_(SteadyDeadline(call_.context())) {
  call_.set_reactor(this);
}

void Stream::Leave(absl::StatusCode code, LogLevel level) {
  guest_.Leave();
  code_ = code;
  level_ = level;
  time_ = Clock::now() - begun_;
  counts_.Took(time_);
  if (level == LogLevel::kError) counts_.WasServersFault(code);
  reach_.tenant() == nullptr ? counts_.Ended(code) : reach_.tenant()->Ended(method_, code);
}

absl::string_view Stream::Metadata(const char* key) const {
  const auto& metadata = call_.context().client_metadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? absl::string_view() : absl::string_view(found->second.data(), found->second.size());
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
  if (fails || IsRequestId(Metadata(kRequestIdKey))) call_.context().AddTrailingMetadata(kRequestIdKey, request_id());
  if (!Metadata(kTraceparentKey).empty()) call_.context().AddTrailingMetadata(kTraceparentKey, trace().ToTraceparent());
}

void Stream::LogAccess() {
  if (access_ == nullptr || !access_->Wants(level_)) return;
  access_->Ended({.method = method_, .caller = caller_ == nullptr ? absl::string_view() : caller_->name,
                  .peer = peer()->name(), .target = target_, .request_id = request_id(), .trace = trace(), .code = code_,
                  .level = level_, .time = time_, .phases = phases_, .bytes_in = bytes_in_, .bytes_out = bytes_out_,
                  .messages_in = messages_in_, .messages_out = messages_out_});
}

bool Stream::expired() const { return Clock::now() + kEarly >= deadline_; }

void Stream::StartRead() { call_.StartRead(&received_); }

void Stream::StartWrite(const Slices& message) {
  SetSent(message);
  call_.StartWrite(sent_);
}

void Stream::SetSent(const Slices& message) {
  sent_ = grpc::ByteBuffer(message.data(), message.size());
  ++messages_out_;
  bytes_out_ += static_cast<int64_t>(sent_.Length());
}

// The stream may be over before the call's function returns.
void Stream::Finish(const absl::Status& status) {
  Leave(status.code(), LevelOf(status));
  if (audit_ != nullptr && IsRefusal(status.code())) {
    audit_->Tell({method_, status.code(), caller_ == nullptr ? "" : caller_->name, target_, peer()->name(), request_id()});
  }
  AddTrailingMetadata(/*fails=*/!status.ok());
  call_.Finish(ToGrpc(reach_.is_everything() ? status : Unqualify(reach_, status)));
}

void Stream::Abort(const absl::Status& status) {
  Leave(status.code(), LevelOf(status));
  call_.Abort(ToGrpc(status));
}

void Stream::WriteAndFinish(const Slices& message) {
  Leave(absl::StatusCode::kOk, LogLevel::kInfo);
  AddTrailingMetadata(/*fails=*/false);
  SetSent(message);
  call_.WriteAndFinish(sent_);
}

void Stream::OnReadDone(bool ok) {
  const ScopedAccount account(account_);
  Slices message;
  if (ok) {
    const auto bytes = static_cast<int64_t>(received_.Length());
    peer()->Gave(bytes);
    ++messages_in_;
    bytes_in_ += bytes;
    encoding_ = ReceivedMessage(&received_).encoding();
    // A message that does not become slices is an empty one, which no parser takes for another.
    (void)received_.Dump(&message);
    received_.Clear();
  } else if (IsBroken()) {
    guest_.End();  // OnCancel may come late, behind those of other calls.
  }
  OnRead(ok ? &message : nullptr);
}

void Stream::OnWriteDone(bool ok) {
  const ScopedAccount account(account_);
  sent_.Clear();
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
}

}  // namespace gluond::server
