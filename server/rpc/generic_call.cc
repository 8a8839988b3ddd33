#include "server/rpc/generic_call.h"

#include "grpc/grpc.h"

namespace gluond::server {

template <void (GenericCall::*Function)(bool)>
void GenericCall::To<Function>::Done(bool ok) {
  (call->*Function)(ok);
}

void GenericCall::Await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Acceptor& acceptor) {
  auto* const call = new GenericCall(acceptor);
  call->context_.AsyncNotifyWhenDone(call->ended_.tag());
  service.RequestCall(&call->context_, &call->stream_, &queue, &queue, call->came_.tag());
}

// Without a call nothing else is told of it, its end neither.
void GenericCall::Came(bool ok) { ok ? acceptor_.Accept(this) : End(); }

void GenericCall::Ended(bool) {
  is_cancelled_.store(context_.IsCancelled(), std::memory_order_relaxed);
  BeginOrEnd();
}

void GenericCall::Begin() { BeginOrEnd(); }

// The second of the two that come here has a reactor that is ready, and an end.
void GenericCall::BeginOrEnd() {
  if (!begun_or_ended_.exchange(true)) return;
  if (is_cancelled()) reactor_->OnCancel();
  Release();
}

void GenericCall::StartRead(grpc::ByteBuffer* message) {
  under_way_.fetch_add(1, std::memory_order_relaxed);
  stream_.Read(message, read_.tag());
}

void GenericCall::ReadDone(bool ok) {
  reactor_->OnReadDone(ok);
  Release();
}

void GenericCall::StartWrite(const grpc::ByteBuffer& message) {
  under_way_.fetch_add(1, std::memory_order_relaxed);
  stream_.Write(message, written_.tag());
}

void GenericCall::WriteDone(bool ok) {
  reactor_->OnWriteDone(ok);
  Release();
}

// The call may be over before gRPC's functions return.
void GenericCall::Finish(const grpc::Status& status) {
  stream_.Finish(status, finished_.tag());
}

void GenericCall::WriteAndFinish(const grpc::ByteBuffer& message) {
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, finished_.tag());
}

void GenericCall::Abort(const grpc::Status& status) {
  grpc_call_cancel_with_status(context_.c_call(), static_cast<grpc_status_code>(status.error_code()),
                               status.error_message().c_str(), nullptr);
  Finish(status);
}

void GenericCall::Finished(bool) { Release(); }

void GenericCall::Release() {
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  reactor_->OnDone();
  End();
}

void GenericCall::End() {
  Acceptor& acceptor = acceptor_;
  delete this;
  acceptor.Gone();
}

}  // namespace gluond::server
