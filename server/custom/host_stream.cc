#include "server/custom/host_stream.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/duration.h"
#include "server/custom/scope.h"
#include "server/rpc/calls_under_way.h"
#include "server/wire/wire_message.h"

namespace gluond::server {

void HostStreams::Sweep() {
  const auto now = HostStream::Clock::now();
  for (const auto& stream : List()) stream->Sweep(now);
  hosts_->Sweep(now);
}

void HostStreams::Drain() {
  for (const auto& stream : SharedStreams::Drain()) stream->End(Draining());
}

void HostStream::Send(const v1::HostResponse& response) { Enqueue({0, {grpc::Slice(response.SerializeAsString())}}); }

void HostStream::SendCall(uint64_t call) { Enqueue({call, {}}); }

void HostStream::Enqueue(Item item) {
  const int64_t most = limits().max_session_queue_bytes;
  bool too_many = false;
  {
    MutexLock lock(queue_mu_);
    if (finished()) return;
    queued_bytes_ += BytesOf(item);
    queue_.push_back(std::move(item));
    too_many = queued_bytes_ > most;
    if (writing_ && !too_many) return;
    writing_ = true;
  }
  if (!too_many) return WriteNext();
  End(OverLimit("--max_session_queue_bytes", "the client does not read: ", most,
                " bytes wait for it, the limit of --max_session_queue_bytes"));
}

void HostStream::WriteNext() {
  while (true) {
    Item item;
    {
      MutexLock lock(queue_mu_);
      writing_ = !queue_.empty();
      if (!writing_) return;
      item = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= BytesOf(item);
    }
    if (item.call == 0 || Encode(item.call, &item.message)) return Write(item.message);
  }
}

bool HostStream::Encode(uint64_t call, Slices* message) {
  v1::HostResponse response;
  Attachments attachments;
  if (!hosts_.ToMessage(call, &response, &attachments)) return false;
  *message = SerializeMessage(response, attachments);
  const auto bytes = static_cast<int64_t>(Bytes(*message).size());
  const int64_t most = limits().max_message_bytes;
  if (bytes <= most) return true;
  hosts_.Fail(
      call, OverLimit("--max_message_bytes", "its values have ", bytes, " bytes, more than the ", most, " of --max_message_bytes"));
  return false;
}

void HostStream::Replaced() { End(absl::AbortedError("another stream has this scope now")); }

void HostStream::Sweep(Clock::time_point now) {
  if (IsSilent(now)) {
    End(absl::DeadlineExceededError(
        absl::StrCat("the client has been silent for the ", lease().count(), " s of --session_lease_seconds")));
  }
}

void HostStream::Ended() {
  {
    MutexLock lock(queue_mu_);
    queue_.clear();
  }
  for (const std::string& op_type : hosts_.Detach(this)) TellAudit("Release", op_type, absl::OkStatus());
}

void HostStream::Receive(const Slices& message, int64_t) {
  v1::HostRequest request;
  Attachments attachments;
  Reservation memory = NewReservation();
  absl::Status status = ParseMessage(message, &request, &attachments, [&memory](int64_t parsed) { return memory.Grow(parsed); });
  if (status.ok()) status = Handle(request, std::move(attachments));
  status.ok() ? Read() : End(status);
}

absl::Status HostStream::Handle(v1::HostRequest& request, Attachments attachments) {
  if (request.has_open() == is_open_) {
    return absl::FailedPreconditionError(is_open_ ? "`open` belongs in the stream's first message, and only there"
                                                  : "a stream's first message needs `open` with a scope");
  }
  switch (request.message_case()) {
    case v1::HostRequest::kOpen: return Open(request.open());
    case v1::HostRequest::kOffer: return Offer(request.offer());
    case v1::HostRequest::kResult:
      hosts_.Result(this, {std::move(*request.mutable_result()), std::move(attachments)});
      return absl::OkStatus();
    case v1::HostRequest::kRelease: return Release(request.release().op_type());
    case v1::HostRequest::MESSAGE_NOT_SET: break;
  }
  return absl::OkStatus();
}

absl::Status HostStream::Offer(const v1::OfferOperator& offer) {
  const absl::StatusOr<CustomHosts::Offered> offered = hosts_.Offer(this, offer);
  const bool is_taken_over = offered.ok() && *offered == CustomHosts::Offered::kTakenOver;
  TellAudit(is_taken_over ? "TakeOver" : offer.shared() ? "Share" : "Offer", offer.op_type(), offered.status());
  if (!absl::IsPermissionDenied(offered.status())) return offered.status();
  Refuse(offer.op_type(), offered.status());
  return absl::OkStatus();
}

absl::Status HostStream::Release(const std::string& op_type) {
  const absl::Status released = hosts_.Release(this, op_type);
  TellAudit("Release", op_type, released);
  if (!released.ok()) Refuse(op_type, released);
  return absl::OkStatus();
}

void HostStream::Refuse(const std::string& op_type, const absl::Status& why) {
  v1::HostResponse response;
  response.add_refused()->set_op_type(op_type);
  response.mutable_refused(0)->set_reason(std::string(why.message()));
  Send(response);
}

absl::Status HostStream::Open(const v1::OpenHost& open) {
  RETURN_IF_ERROR(SetClient("OpenHost", open.client_id()));
  RETURN_IF_ERROR(CheckScope(open));
  RETURN_IF_ERROR(CheckHost("OpenHost.scope", open.scope(), reach()));
  is_open_ = true;
  const std::chrono::seconds callback(limits().callback_seconds);
  v1::HostResponse response;
  ToProto(lease(), response.mutable_opened()->mutable_lease());
  ToProto(callback, response.mutable_opened()->mutable_callback());
  // A client that reads this may be called at once, and it reads this first: later messages wait behind it.
  {
    MutexLock lock(queue_mu_);
    queue_.push_back({0, {grpc::Slice(response.SerializeAsString())}});
    queued_bytes_ += BytesOf(queue_.back());
    writing_ = true;
  }
  const std::string tenant(reach().owner());
  const bool is_admin = caller() != nullptr && caller()->roles.Has(Role::kAdmin);
  hosts_.Attach(absl::StrCat(tenant, open.scope()), std::static_pointer_cast<HostStream>(shared_from_this()),
                {callback, limits().max_callbacks}, {tenant, caller_name(), is_admin}, NewReservations());
  WriteNext();
  if (finished()) hosts_.Detach(this);
  return absl::OkStatus();
}

}  // namespace gluond::server
