#include "server/services/infer_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "google/protobuf/arena.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/rpc/tenant_names.h"
#include "server/services/infer.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

// Metadata of a client that wants the stream to end at the first error, with its code: `true`. (Triton has the same.)
constexpr char kErrorEndsStream[] = "triton_grpc_error";
// Memory that a request takes beside its bytes.
constexpr int64_t kJobBytes = 8 << 10;
// An answer that tells an error is always small.
constexpr size_t kLongestError = 16 << 10, kLongestName = 1024;

// Each request has one answer, which is its last.
void MarkFinal(inference::ModelStreamInferResponse* response) {
  (*response->mutable_infer_response()->mutable_parameters())["triton_final_response"].set_bool_param(true);
}

}  // namespace

struct InferStream::Job {
  google::protobuf::Arena arena;
  inference::ModelInferRequest* const request = inference::ModelInferRequest::default_instance().New(&arena);
  inference::ModelStreamInferResponse* const response = inference::ModelStreamInferResponse::default_instance().New(&arena);
  Attachments attachments, reply_attachments;
  Reservation memory;  // Pays for the request and the reply.
  Shares::Permit permit, bytes_permit;
  Slices reply;        // Empty: there is no answer yet.
  absl::Status error;  // Ends the stream in the place of an answer.
};

InferStream::InferStream(InferStreams& streams, const Opening& opening)
    : Conversation(streams.runner(), opening), streams_(streams), error_ends_stream_(Metadata(kErrorEndsStream) == "true") {}

void InferStreams::Sweep() {
  const auto now = InferStream::Clock::now();
  for (const auto& stream : List()) stream->Sweep(now);
}

void InferStreams::Drain() {
  for (const auto& stream : SharedStreams::Drain()) stream->Drain();
}

void InferStream::Sweep(Clock::time_point now) {
  const std::chrono::seconds idle(limits().stream_idle_seconds);
  bool is_stuck = false, is_idle = false;
  {
    MutexLock lock(jobs_mu_);
    is_stuck = writing_ != nullptr && now - writing_since_ > lease();
    is_idle = idle.count() > 0 && writing_ == nullptr && jobs_.empty() && now - idle_since_ > idle;
  }
  if (is_idle) {
    End(absl::DeadlineExceededError(
        absl::StrCat("no request has come for the ", idle.count(), " s of --stream_idle_seconds; open another one")));
  }
  if (is_stuck) {
    End(absl::DeadlineExceededError(
        absl::StrCat("the client has taken no answer for the ", lease().count(), " s of --session_lease_seconds")));
  }
}

void InferStream::Drain() {
  {
    MutexLock lock(jobs_mu_);
    draining_ = true;
  }
  GoOn();
}

absl::Status InferStream::Enter(const Slices& message, int64_t bytes, Job* job) {
  Runner& runner = streams_.runner();
  if (reach().tenant() != nullptr) RETURN_IF_ERROR(reach().tenant()->TakeRequest());
  ASSIGN_OR_RETURN(job->permit, runner.requests.Enter(peer(), 1, reach().tenant()));
  ASSIGN_OR_RETURN(job->bytes_permit, runner.request_bytes.Enter(peer(), bytes));
  RETURN_IF_ERROR(job->memory.Grow(bytes + kJobBytes));
  return ParseMessage(message, job->request, &job->attachments, [job](int64_t parsed) { return job->memory.Grow(parsed); });
}

void InferStream::Receive(const Slices& message, int64_t bytes) {
  const auto job = std::make_shared<Job>();
  job->memory = NewReservation();
  const absl::Status entered = Enter(message, bytes, job.get());
  if (absl::IsInvalidArgument(entered)) return End(entered);  // It is no message.
  if (!reach().is_everything()) Qualify(reach(), job->request);
  {
    MutexLock lock(jobs_mu_);
    reading_ = false;
    jobs_.push_back(job);
  }
  if (!entered.ok()) return Done(job, entered);
  const auto self = std::static_pointer_cast<InferStream>(shared_from_this());
  Infer(streams_.served(), streams_.runner(),
        {*job->request,
         job->attachments,
         *job->response->mutable_infer_response(),
         job->reply_attachments,
         {streams_.regions(), RegionUserOf(caller())},
         cancellation_,
         job,
         peer(),
         caller_name()},
        [self, job](const absl::Status& status) { self->Done(job, status); });
  GoOn();
}

absl::Status InferStream::Encode(Job* job) {
  MarkFinal(job->response);
  if (!reach().is_everything()) Unqualify(reach(), job->response);
  RETURN_IF_ERROR(job->memory.Grow(static_cast<int64_t>(job->response->ByteSizeLong())));
  job->reply = SerializeMessage(*job->response, job->reply_attachments);
  const auto bytes = static_cast<int64_t>(Bytes(job->reply).size());
  if (bytes <= limits().max_message_bytes) return absl::OkStatus();
  return OverLimit("--max_message_bytes", "the answer has ", bytes, " bytes, the limit of --max_message_bytes is ",
                   limits().max_message_bytes);
}

void InferStream::Done(const JobPtr& job, absl::Status status) {
  MutexLock lock(jobs_mu_);
  if (status.ok()) status = Encode(job.get());
  if (!status.ok() && error_ends_stream_) {
    job->error = std::move(status);
  } else if (!status.ok()) {
    inference::ModelStreamInferResponse response;
    response.set_error_message(std::string(status.message().substr(0, kLongestError)));
    response.mutable_infer_response()->set_id(job->request->id().substr(0, kLongestName));
    response.mutable_infer_response()->set_model_name(job->request->model_name().substr(0, kLongestName));
    MarkFinal(&response);
    if (!reach().is_everything()) Unqualify(reach(), &response);
    job->reply = {grpc::Slice(response.SerializeAsString())};
  }
  lock.Unlock();
  GoOn();
}

void InferStream::GoOn() {
  bool ends = false, drained = false;
  absl::Status error;
  {
    MutexLock lock(jobs_mu_);
    if (writing_ == nullptr && !jobs_.empty()) error = jobs_.front()->error;
    if (writing_ == nullptr && !jobs_.empty() && !jobs_.front()->reply.empty()) {
      writing_ = std::move(jobs_.front());
      jobs_.pop_front();
      writing_since_ = Clock::now();
      Write(writing_->reply);
    }
    if (!reading_ && !no_more_ && !draining_ && jobs_.size() < kMost) {
      reading_ = true;
      Read();
    }
    ends = writing_ == nullptr && jobs_.empty() && (no_more_ || draining_);
    drained = !no_more_;
  }
  if (!error.ok()) return End(error);
  if (ends) End(drained ? Draining() : absl::OkStatus());
}

void InferStream::Written() {
  JobPtr written;
  {
    MutexLock lock(jobs_mu_);
    written = std::move(writing_);
    idle_since_ = Clock::now();
  }
  GoOn();
}

void InferStream::NoMoreMessages() {
  if (IsBroken()) return Break();
  {
    MutexLock lock(jobs_mu_);
    reading_ = false;
    no_more_ = true;
  }
  GoOn();
}

void InferStream::Ended() {
  cancellation_->Cancel();
  std::deque<JobPtr> jobs;
  MutexLock lock(jobs_mu_);
  jobs.swap(jobs_);
}

}  // namespace gluond::server
