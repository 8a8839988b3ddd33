// Connection::TrainOnBatches: batches travel while those before them compute.

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "client/cpp/connection.h"
#include "client/cpp/error.h"

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
  bool landed = false;
  bool ahead = false;  // It was sent before the answer to the step before it had come.
};

class Flights {
 public:
  ~Flights() {
    LandAll();
    queue_.Shutdown();
  }

  std::deque<Flight>& all() { return flights_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  void LandFirst() {
    while (!flights_.front().landed) LandOne();
  }
  void LandAll() {
    for (Flight& flight : flights_) {
      while (!flight.landed) LandOne();
    }
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

}  // namespace

absl::Status Connection::TrainOnBatches(
    const std::string& model, absl::Duration timeout,
    absl::FunctionRef<std::optional<Tensors>()> next,
    absl::FunctionRef<void(const v1::TrainStepResponse&)> report) {
  Line& line = LineOf(model);
  std::lock_guard<std::mutex> lock(line.mu);
  absl::Status status = Synchronize(model, absl::Now() + timeout, line);
  if (!status.ok()) return status;
  Flights flights;
  std::deque<Flight>& all = flights.all();
  const auto launch = [&](Flight& flight) {
    flight.landed = false;
    flight.ahead = flight.request.sequence() != line.next;
    flight.context = std::make_unique<grpc::ClientContext>();
    flight.context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    flight.response.Clear();
    Start(kTrainStep, flight.request, flight.batch, flight.context.get(), &flight.response,
          &flight.status, flights.queue(), &flight);
  };
  for (bool more = true;;) {
    while (more && all.size() < kUnderWay) {
      std::optional<Tensors> batch = next();
      more = batch.has_value();
      if (!more) break;
      Flight& flight = all.emplace_back();
      flight.batch = *std::move(batch);
      flight.request.set_model(model);
      flight.request.set_client_id(options_.client_id);
      flight.request.set_sequence(line.next + all.size() - 1);
      launch(flight);
    }
    if (all.empty()) return absl::OkStatus();
    flights.LandFirst();
    Flight& first = all.front();
    status = ToStatus(first.status);
    const std::string reason = ReasonOf(status);
    if (first.ahead && (reason == "SEQUENCE_GAP" || reason == "TOO_MANY_CALLS" || reason == "LIMIT")) {
      // The step overtook the one before it on the way, which the server cannot allow; or there were
      // too many at once. It is sent again.
      flights.LandAll();
      for (Flight& flight : all) {
        if (!flight.status.ok()) launch(flight);
      }
      continue;
    }
    if (absl::IsUnavailable(status)) {
      // The step is sent alone, as any other call. If the server has applied it, it gives the same answer.
      flights.LandAll();
      const absl::Time deadline = absl::Now() + timeout;
      const auto check = [&] { return CheckNotForgotten(model, deadline, line, all.size()); };
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
    status = Advance(std::move(status), model, absl::Now() + timeout, line);
    if (!status.ok()) return status;
    report(first.response);
    all.pop_front();
  }
}

}  // namespace gluond::client
