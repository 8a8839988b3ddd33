// Connection::Train: a training that goes on where a broken connection, a server that was stopped, or a group
// with too few servers has ended a call.

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "gluond/error.h"

namespace gluond::client {
namespace {

constexpr std::chrono::seconds kCancelWithin{10};

// Whether the call ended before its last step because of the connection or the server, and not because
// somebody wanted it to. The next one waits for as long as for a server that is away.
bool IsInterrupted(const v1::TrainProgress& last) {
  return last.steps() < last.total_steps() &&
         (last.stop() == v1::TrainProgress::CLIENT_GONE || last.stop() == v1::TrainProgress::SERVER_STOPS ||
          (last.stop() == v1::TrainProgress::BY_ERROR && MayBeBack(FromProto(last.status()))));
}

}  // namespace

absl::StatusOr<v1::TrainProgress> Connection::Train(v1::TrainRequest request, absl::Duration timeout,
                                                    absl::FunctionRef<bool(const TrainProgress&)> progress) {
  const std::string model = request.model();
  Line& line = LineOf(model);
  const Turn turn(model, &line);
  if (!turn.status().ok()) return turn.status();
  absl::Status status = Synchronize(model, absl::Now() + timeout, line);
  if (!status.ok()) return status;
  request.mutable_call()->set_client_id(options_.client_id);
  int64_t steps = 0, samples = 0;  // Sums over the calls before this one.
  bool wanted = true, heard = false;
  v1::TrainProgress last;
  const auto tell = [&](v1::TrainProgress message) {
    if (message.done() && wanted && IsInterrupted(message)) {
      message.clear_done();
      message.clear_cancelled();
      message.clear_stop();
      message.clear_error();
      message.clear_status();
    }
    message.set_steps(message.steps() + steps);
    message.set_samples(message.samples() + samples);
    message.set_total_steps(message.total_steps() + steps);
    return progress(FromProto(message));
  };
  const auto attempt = [&](grpc::ClientContext* context) {
    v1::TrainProgress message;
    last.Clear();
    const auto stream = stub<v1::TrainingService::Stub>().Train(context, request);
    while (stream->Read(&message)) {
      heard = true;
      if (message.done()) last = message;
      if (!tell(message) && std::exchange(wanted, false) && !message.done()) {
        grpc::ClientContext cancel;
        cancel.set_deadline(std::chrono::system_clock::now() + kCancelWithin);
        v1::CancelTrainingRequest which;
        v1::CancelTrainingResponse response;
        which.set_model(model);
        if (!stub<v1::TrainingService::Stub>().CancelTraining(&cancel, which, &response).ok()) context->TryCancel();
      }
    }
    return stream->Finish();
  };
  while (true) {
    request.mutable_call()->set_sequence(line.next);
    do {  // A call that was heard of may take longer than a server is waited for.
      heard = false;
      status = Run(absl::InfiniteFuture(), attempt, [&] { return CheckNotForgotten(model, absl::Now() + timeout, line); });
    } while (wanted && heard && absl::IsUnavailable(status));
    if (ReasonOf(status) == "ANSWER_FORGOTTEN") {  // A crash has left a part of its steps.
      line.in_doubt = true;
      const auto place = AskSequence(model, absl::Now() + timeout);
      return place.ok() ? Rewound(model, *place, line.next) : status;
    }
    status = Advance(std::move(status), model, absl::Now() + timeout, line);
    if (!status.ok()) return status;
    if (!last.done()) {
      return absl::InternalError(absl::StrCat("Train of model '", model, "' ended without a last message"));
    }
    const bool goes_on = wanted && IsInterrupted(last);
    if (goes_on) {
      *request.mutable_start_at() = last.next();
      if (request.has_steps()) request.set_steps(request.steps() - last.steps());
    }
    steps += last.steps();
    samples += last.samples();
    if (goes_on) continue;
    last.set_total_steps(last.total_steps() + steps - last.steps());
    last.set_steps(steps);
    last.set_samples(samples);
    return last;
  }
}

}  // namespace gluond::client
