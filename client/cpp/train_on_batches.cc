// Connection::TrainOnBatches: batches travel while those before them compute. Steps that the server has
// applied, but could lose in a crash, are kept to be sent again.

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "client/cpp/connection.h"
#include "gluond/error.h"

namespace gluond::client {
namespace {

// Enough for a step of a millisecond over a connection of several.
constexpr size_t kUnderWay = 8;

// A step under way.
struct Flight {
  v1::TrainStepRequest request;
  Tensors batch;
  std::unique_ptr<grpc::ClientContext> context;
  v1::TrainStepResponse response;
  grpc::Status status;
  bool landed = true;     // Nothing is under way.
  bool reported = false;  // The caller has had an answer.
  bool ahead = false;     // It was sent before the answer to the step before it had come.
};

class Flights {
 public:
  ~Flights() {
    LandAll();
    queue_.Shutdown();
  }

  std::deque<Flight>& all() { return flights_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  void Land(const Flight& flight) {
    while (!flight.landed) LandOne();
  }
  void LandAll() {
    for (const Flight& flight : flights_) Land(flight);
  }

 private:
  void LandOne() {
    void* tag;
    bool ok;
    queue_.Next(&tag, &ok);
    static_cast<Flight*>(tag)->landed = true;
  }

  grpc::CompletionQueue queue_;
  std::deque<Flight> flights_;  // Moves no flight.
};

uint64_t BytesOf(const Tensors& batch) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : batch) bytes += tensor.bytes().size();
  return bytes;
}

// Whether the server has applied the call, and has its answer no more.
bool IsApplied(const absl::Status& status) { return ReasonOf(status) == "ANSWER_FORGOTTEN"; }

}  // namespace

absl::Status Connection::TrainOnBatches(const std::string& model, absl::Duration timeout,
                                        absl::FunctionRef<std::optional<Tensors>()> next,
                                        absl::FunctionRef<void(const TrainStepResponse&)> report) {
  Line& line = LineOf(model);
  const Turn turn(model, &line);
  if (!turn.status().ok()) return turn.status();
  absl::Status status = Synchronize(model, absl::Now() + timeout, line);
  if (!status.ok()) return status;
  Flights flights;
  // Those answered, which a crash may take back; those sent; those to be sent again.
  std::deque<Flight>& all = flights.all();
  size_t answered = 0, sent = 0;
  uint64_t bytes = 0;
  const auto launch = [&](Flight& flight) {
    flight.landed = false;
    flight.ahead = flight.request.call().sequence() != line.next;
    flight.context = std::make_unique<grpc::ClientContext>();
    flight.context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    flight.response.Clear();
    Start(kTrainStep, flight.request, flight.batch, flight.context.get(), &flight.response, &flight.status, flights.queue(),
          &flight);
  };
  for (bool more = true;;) {
    while (sent - answered < kUnderWay) {
      if (sent == all.size()) {
        std::optional<Tensors> batch = more ? next() : std::nullopt;
        more = batch.has_value();
        if (!more) break;
        Flight& flight = all.emplace_back();
        flight.batch = *std::move(batch);
        bytes += BytesOf(flight.batch);
        flight.request.set_model(model);
        flight.request.mutable_call()->set_client_id(options_.client_id);
        flight.request.mutable_call()->set_sequence(line.next + sent - answered);
      }
      launch(all[sent++]);
    }
    if (answered == all.size()) return absl::OkStatus();
    Flight& first = all[answered];
    flights.Land(first);
    status = ToStatus(first.status);
    const std::string reason = ReasonOf(status);
    if (first.ahead && (reason == "SEQUENCE_GAP" || reason == "TOO_MANY_CALLS" || reason == "LIMIT" || reason == "REWOUND")) {
      // The step overtook the one before it on the way, which the server cannot allow; or there were
      // too many at once. It is sent again.
      flights.LandAll();
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(std::min(RetryDelayOf(status), options_.retry_for)));
      for (size_t i = answered; i < sent; ++i) {
        if (!all[i].status.ok()) launch(all[i]);
      }
      continue;
    }
    if (absl::IsUnavailable(status) || RetryDelayOf(status) > absl::ZeroDuration()) {
      // The step is sent alone, as any other call. If the server has applied it, it gives the same answer.
      flights.LandAll();
      const absl::Time deadline = absl::Now() + timeout;
      const auto check = [&] { return CheckNotForgotten(model, deadline, line, sent - answered); };
      status = check();
      if (status.ok()) {
        status = Run(
            deadline,
            [&](grpc::ClientContext* context) {
              first.response.Clear();
              return Send(kTrainStep, first.request, first.batch, context, &first.response);
            },
            check);
      }
    }
    if (IsRewound(status)) {
      flights.LandAll();
      const auto place = AskSequence(model, absl::Now() + timeout);
      const uint64_t oldest = all.front().request.call().sequence();
      if (place.ok() && !place->in_part() && place->last() + 1 >= oldest && place->last() < first.request.call().sequence()) {
        answered = sent = place->last() + 1 - oldest;
        line.next = place->last() + 1;
        continue;
      }
    }
    if (IsApplied(status)) {  // Before a crash, which took the answer.
      first.response.Clear();
      first.response.set_replayed(true);
      first.response.set_durable_sequence(0);
      status = absl::OkStatus();
    }
    status = Advance(std::move(status), model, absl::Now() + timeout, line);
    if (!status.ok()) return status;
    if (!std::exchange(first.reported, true)) report(FromProto(first.response));
    const uint64_t durable =
        first.response.has_durable_sequence() ? first.response.durable_sequence() : first.request.call().sequence();
    for (++answered; answered > 0; --answered, --sent) {
      if (all.front().request.call().sequence() > durable && bytes <= options_.keep_bytes) break;
      bytes -= BytesOf(all.front().batch);
      all.pop_front();
    }
  }
}

}  // namespace gluond::client
