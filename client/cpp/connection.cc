#include "client/cpp/connection.h"

#include <algorithm>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gluond/error.h"
#include "google/rpc/status.pb.h"

namespace gluond::client {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLongestBackoff = absl::Seconds(2);

std::string RandomId() {
  std::random_device random;
  std::string id = "cpp-";
  for (int word = 0; word < 4; ++word) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

Options WithId(Options options) {
  if (options.client_id.empty()) options.client_id = RandomId();
  return options;
}

// Backoff with jitter, so that clients that were cut off together do not come back together.
absl::Duration Jittered(absl::Duration backoff) {
  thread_local std::minstd_rand random(std::random_device{}());
  return backoff * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

}  // namespace

Connection::Connection(std::string address, Options options, std::shared_ptr<grpc::Channel> channel)
    : address_(std::move(address)),
      options_(WithId(options)),
      known_client_(!options.client_id.empty()),
      channel_(std::move(channel)),
      stubs_(v1::OperatorService::NewStub(channel_), v1::ModelService::NewStub(channel_), v1::TrainingService::NewStub(channel_),
             v1::ServingService::NewStub(channel_), v1::ServerService::NewStub(channel_), v1::SessionService::NewStub(channel_),
             v1::GroupService::NewStub(channel_), inference::GRPCInferenceService::NewStub(channel_)) {}

absl::Status Connection::ToStatus(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const bool answered = !status.error_details().empty();  // By the server, and not by gRPC for it.
  std::string message = status.error_message();
  if (IsUnreachable(status)) {
    message = absl::StrCat("no answer from ", address_, ": ", message, ". ", WayOut(status));
  } else if (const std::string way_out = WayOut(status); !way_out.empty()) {
    absl::StrAppend(&message, ". ", way_out);
  } else if (!answered && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = absl::StrCat("no answer from ", address_, " in time: ", message);
  }
  google::rpc::Status told;
  if (!answered || !told.ParseFromString(status.error_details())) told.Clear();
  told.set_code(status.error_code());
  told.set_message(message);
  return FromProto(told);
}

absl::Status Connection::Run(absl::Time deadline, absl::FunctionRef<grpc::Status(grpc::ClientContext*)> attempt,
                             absl::FunctionRef<absl::Status()> resume) {
  const absl::Time give_up = std::min(deadline, absl::Now() + options_.retry_for);
  for (absl::Duration backoff = kFirstBackoff;; backoff = std::min(2 * backoff, kLongestBackoff)) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(deadline));
    absl::Status status = ToStatus(attempt(&context));
    if (!MayBeBack(status)) return status;
    const absl::Duration pause = std::max(Jittered(backoff), RetryDelayOf(status) + Jittered(kFirstBackoff));
    if (absl::Now() + pause >= give_up) return status;
    Pause(pause);
    status = resume();
    if (!status.ok() && !MayBeBack(status)) return status;
  }
}

void Connection::Pause(absl::Duration time) {
  const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
  if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_SHUTDOWN) {  // The second: a channel within the process.
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(time));
  } else {
    channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + time));
  }
}

Connection::Turn::Turn(const std::string& model, Line* line) : line_(line) {
  if (line->in_turn == std::this_thread::get_id()) {
    status_ = absl::FailedPreconditionError(
        absl::StrCat("a call that changes model '", model,
                     "' was made within another one, by the function that tells of its progress, or "
                     "gives its batches: it would wait for itself. Make it after that one has returned"));
    return;
  }
  line->mu.lock();
  line->in_turn = std::this_thread::get_id();
}

Connection::Turn::~Turn() {
  if (!status_.ok()) return;
  line_->in_turn = std::thread::id();
  line_->mu.unlock();
}

Connection::Line& Connection::LineOf(const std::string& model) {
  std::lock_guard<std::mutex> lock(mu_);
  auto [it, is_new] = lines_.try_emplace(model);
  if (is_new) it->second.in_doubt = known_client_;
  return it->second;
}

bool IsRewound(const absl::Status& status) { return ReasonOf(status) == "REWOUND"; }

absl::StatusOr<v1::GetSequenceResponse> Connection::AskSequence(const std::string& model, absl::Time deadline) {
  v1::GetSequenceRequest request;
  request.set_client_id(options_.client_id);
  request.set_model(model);
  return Call(&v1::TrainingService::Stub::GetSequence, request, deadline - absl::Now());
}

absl::Status Connection::Rewound(const std::string& model, const v1::GetSequenceResponse& place, uint64_t expected) const {
  const std::string lost = place.in_part() && place.last() == expected
                               ? "has the first steps alone of this client's last Train"
                               : absl::StrCat("knows of ", place.last(), " calls by this client, expected ", expected);
  return WithReason(absl::AbortedError(
                        absl::StrCat("model '", model, "': ", address_, " was started anew and ", lost,
                                     "; the model's trainer has taken ", place.step(), " steps: go on with step ", place.step() + 1,
                                     ". Load a checkpoint or define the model again where it is not as you need it.")),
                    "REWOUND", {{"last", absl::StrCat(place.last())}, {"step", absl::StrCat(place.step())}});
}

absl::Status Connection::Synchronize(const std::string& model, absl::Time deadline, Line& line) {
  if (!line.in_doubt) return absl::OkStatus();
  const auto place = AskSequence(model, deadline);
  if (!place.ok()) return place.status();
  line.next = place->last() + 1;
  line.in_doubt = false;
  return absl::OkStatus();
}

absl::Status Connection::CheckNotForgotten(const std::string& model, absl::Time deadline, Line& line, uint64_t sent) {
  const auto place = AskSequence(model, deadline);
  if (!place.ok()) return place.status();
  const uint64_t last = place->last();
  const bool is_news = place->in_part() && std::exchange(line.in_part, last) != last;
  if (last + 1 >= line.next && last < line.next + sent && !is_news) return absl::OkStatus();
  return Rewound(model, *place, line.next - 1);
}

absl::Status Connection::Advance(absl::Status status, const std::string& model, absl::Time deadline, Line& line) {
  if (status.ok()) {
    ++line.next;
    return status;
  }
  // The server alone knows whether the call was applied: the next call asks. A gap may mean that the
  // server has lost this client's calls: then no other status says so.
  line.in_doubt = true;
  if (IsRewound(status)) {  // The server's own words lack the step.
    const auto place = AskSequence(model, deadline);
    return place.ok() ? Rewound(model, *place, line.next - 1) : status;
  }
  if (ReasonOf(status) != "SEQUENCE_GAP") return status;
  absl::Status lost = CheckNotForgotten(model, deadline, line);
  return absl::IsAborted(lost) ? lost : status;
}

}  // namespace gluond::client
