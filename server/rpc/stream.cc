#include "server/rpc/stream.h"

#include <utility>
#include <vector>

#include "engine/runtime/account.h"
#include "grpc/byte_buffer.h"
#include "grpc/byte_buffer_reader.h"
#include "grpc/slice.h"
#include "grpc/support/log.h"
#include "server/rpc/grpc_status.h"

#ifdef GLUOND_THREAD_SANITIZER
// ThreadSanitizer does not see in what order gRPC hands a stream from thread to thread: who hands a batch to gRPC says
// release, the function that gRPC calls says acquire.
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#else
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#endif

namespace gluond::server {
namespace {

// A client's deadline passes so much before the server's, which began to count when it had read the call: of many at once,
// late.
constexpr std::chrono::milliseconds kEarly{100};

Stream::Clock::time_point SteadyDeadline(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Stream::Clock::time_point::max();
  const auto left = deadline - std::chrono::system_clock::now();
  // gRPC's "never" may come as a time in the far future.
  if (left > std::chrono::hours(24 * 365)) return Stream::Clock::time_point::max();
  return Stream::Clock::now() + left;
}

grpc_byte_buffer* ToByteBuffer(const Slices& slices) {
  std::vector<grpc_slice> raw;
  raw.reserve(slices.size());
  for (const grpc::Slice& slice : slices) raw.push_back(slice.c_slice());
  grpc_byte_buffer* const buffer = grpc_raw_byte_buffer_create(raw.data(), raw.size());
  for (const grpc_slice& slice : raw) grpc_slice_unref(slice);  // The buffer has its own references.
  return buffer;
}

Slices ToSlices(grpc_byte_buffer* buffer) {
  Slices slices;
  grpc_byte_buffer_reader reader;
  GPR_ASSERT(grpc_byte_buffer_reader_init(&reader, buffer) != 0);
  grpc_slice slice;
  while (grpc_byte_buffer_reader_next(&reader, &slice) != 0) slices.emplace_back(slice, grpc::Slice::STEAL_REF);
  grpc_byte_buffer_reader_destroy(&reader);
  return slices;
}

}  // namespace

Stream::Batch::Batch(Stream* stream, void (Stream::*done)(bool ok))
    : grpc_completion_queue_functor{}, stream(stream), done(done) {
  functor_run = [](grpc_completion_queue_functor* functor, int ok) {
    __tsan_acquire(functor);
    auto* batch = static_cast<Batch*>(functor);
    const ScopedAccount account(batch->stream->peer()->account());
    (batch->stream->*batch->done)(ok != 0);
  };
}

void Stream::Batch::Clear() {
  size = 0;
  if (message != nullptr) grpc_byte_buffer_destroy(std::exchange(message, nullptr));
}

grpc_op& Stream::Batch::Add(grpc_op_type type) {
  grpc_op& op = ops[size++];
  op = {};
  op.op = type;
  return op;
}

Stream::Stream(Peers& peers, Opening opening)
    : peers_(peers), call_(opening.context->c_call()), guest_(peers, call_),
      deadline_(SteadyDeadline(*opening.context)), close_(std::move(opening.close)),
      read_(this, &Stream::ReadDone), write_(this, &Stream::WriteDone), finish_(this, &Stream::FinishDone),
      over_(this, &Stream::OverDone) {}

void Stream::Begin() {
  over_.Add(GRPC_OP_RECV_CLOSE_ON_SERVER).data.recv_close_on_server.cancelled = &cancelled_;
  Start(over_);
  Leave();
}

bool Stream::expired() const { return Clock::now() + kEarly >= deadline_; }

void Stream::Cancel() {
  grpc_call_cancel_with_status(call_, GRPC_STATUS_CANCELLED, "the server has cancelled the call", nullptr);
}

void Stream::StartRead() {
  ++awaited_;
  read_.Add(GRPC_OP_RECV_MESSAGE).data.recv_message.recv_message = &read_.message;
  Start(read_);
}

void Stream::StartWrite(const Slices& message) {
  ++awaited_;
  AddMessage(write_, message);
  Start(write_);
}

void Stream::Finish(const absl::Status& status) {
  guest_.Leave();
  AddHeaders(finish_);
  grpc_op& op = finish_.Add(GRPC_OP_SEND_STATUS_FROM_SERVER);
  const grpc::Status sent = ToGrpc(status);
  grpc_slice text = grpc_slice_from_copied_buffer(sent.error_message().data(), sent.error_message().size());
  op.data.send_status_from_server.status = static_cast<grpc_status_code>(sent.error_code());
  if (!status.ok()) op.data.send_status_from_server.status_details = &text;
  Start(finish_);
  grpc_slice_unref(text);
}

void Stream::WriteAndFinish(const Slices& message) {
  AddMessage(finish_, message);
  Finish(absl::OkStatus());
}

void Stream::Start(Batch& batch) {
  grpc_call* const call = call_;
  const size_t size = batch.size;
  grpc_completion_queue_functor* const functor = &batch;
  __tsan_release(functor);
  // The batch may be done, and the stream over, before this returns.
  GPR_ASSERT(grpc_call_start_batch(call, batch.ops, size, functor, nullptr) == GRPC_CALL_OK);
}

void Stream::AddHeaders(Batch& batch) {
  if (!std::exchange(has_sent_headers_, true)) batch.Add(GRPC_OP_SEND_INITIAL_METADATA);
}

void Stream::AddMessage(Batch& batch, const Slices& message) {
  AddHeaders(batch);
  batch.message = ToByteBuffer(message);
  batch.Add(GRPC_OP_SEND_MESSAGE).data.send_message.send_message = batch.message;
}

void Stream::ReadDone(bool) {
  const bool has_come = read_.message != nullptr;
  Slices message;
  if (has_come) {
    peer()->Gave(static_cast<int64_t>(grpc_byte_buffer_length(read_.message)));
    message = ToSlices(read_.message);
  }
  read_.Clear();
  OnRead(has_come ? &message : nullptr);
  Leave();
}

void Stream::WriteDone(bool ok) {
  write_.Clear();
  OnWritten(ok);
  Leave();
}

void Stream::FinishDone(bool) {
  finish_.Clear();
  Leave();
}

void Stream::OverDone(bool) {
  if (cancelled_ != 0) {
    guest_.Leave();
    expired() ? peers_.WasLate(*peer()) : peers_.WasReset(*peer());
    OnCancel();
  }
  Leave();
}

void Stream::Leave() {
  if (--awaited_ != 0) return;
  guest_.End();
  const std::function<void()> close = std::move(close_);
  OnDone();
  close();
}

}  // namespace gluond::server
