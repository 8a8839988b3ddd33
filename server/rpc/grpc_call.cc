#include "server/rpc/grpc_call.h"

#include "grpc/grpc.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/router.h"
#include "server/rpc/stream.h"

namespace gluond::server {
namespace {

// gRPC's C interface knows how a message was compressed, and of its C++ interface this class alone lets one ask. No release is known
// whose ByteBuffer tells the compression, and which would make this class needless.
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

}  // namespace

void GrpcCall::Await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Router& router) {
  const auto call = std::make_shared<GrpcCall>(router);
  call->while_grpc_has_it_ = call;
  call->context_.AsyncNotifyWhenDone(call->ended_.tag());
  service.RequestCall(&call->context_, &call->messages_, &queue, &queue, call->came_.tag());
}

// Without a call nothing else is told of it, its end neither.
void GrpcCall::Came(bool ok) { ok ? router_.Accept(while_grpc_has_it_) : End(); }

void GrpcCall::Ended(bool) {
  is_cancelled_.store(context_.IsCancelled(), std::memory_order_relaxed);
  BeginOrEnd();
}

// The second of the two that come here has a stream that is ready, and an end.
void GrpcCall::BeginOrEnd() {
  if (!begun_or_ended_.exchange(true)) return;
  if (is_cancelled()) stream_->OnCancel();
  Release();
}

void GrpcCall::StartRead() {
  under_way_.fetch_add(1, std::memory_order_relaxed);
  messages_.Read(&received_, read_.tag());
}

void GrpcCall::ReadDone(bool ok) {
  Slices message;
  Encoding encoding = Encoding::kNone;
  if (ok) {
    encoding = ReceivedMessage(&received_).encoding();
    // A message that does not become slices is an empty one, which no parser takes for another.
    (void)received_.Dump(&message);
    received_.Clear();
  }
  stream_->OnReadDone(ok ? &message : nullptr, encoding);
  Release();
}

void GrpcCall::StartWrite(const Slices& message) {
  sent_ = grpc::ByteBuffer(message.data(), message.size());
  under_way_.fetch_add(1, std::memory_order_relaxed);
  messages_.Write(sent_, written_.tag());
}

void GrpcCall::WriteDone(bool ok) {
  sent_.Clear();
  stream_->OnWriteDone(ok);
  Release();
}

// The call may be over before gRPC's functions return.
void GrpcCall::Finish(const absl::Status& status) { messages_.Finish(ToGrpc(status), finished_.tag()); }

void GrpcCall::WriteAndFinish(const Slices& message) {
  sent_ = grpc::ByteBuffer(message.data(), message.size());
  messages_.WriteAndFinish(sent_, grpc::WriteOptions(), grpc::Status::OK, finished_.tag());
}

void GrpcCall::Abort(const absl::Status& status) {
  const grpc::Status why = ToGrpc(status);
  grpc_call_cancel_with_status(context_.c_call(), static_cast<grpc_status_code>(why.error_code()), why.error_message().c_str(),
                               nullptr);
  messages_.Finish(why, finished_.tag());
}

absl::string_view GrpcCall::Metadata(absl::string_view key) const {
  const auto& metadata = context_.client_metadata();
  const auto found = metadata.find(grpc::string_ref(key.data(), key.size()));
  return found == metadata.end() ? absl::string_view() : absl::string_view(found->second.data(), found->second.size());
}

std::chrono::steady_clock::time_point GrpcCall::deadline() const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = context_.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Clock::time_point::max();
  const auto left = deadline - std::chrono::system_clock::now();
  // gRPC's "never" may come as a time in the far future.
  if (left > std::chrono::hours(24 * 365)) return Clock::time_point::max();
  return Clock::now() + left;
}

void GrpcCall::Release() {
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  router_.Over(stream_.get());
  stream_->OnDone();
  End();
}

// The router may be gone when Gone returns, and gRPC's queue with it: the call goes before.
void GrpcCall::End() {
  Router& router = router_;
  stream_.reset();
  while_grpc_has_it_.reset();
  router.Gone();
}

}  // namespace gluond::server
