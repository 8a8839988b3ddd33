// Connection::TrainOnBatches: one batch travels while the one before computes.

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "client/cpp/connection.h"

namespace gluond::client {
namespace {

// One to compute and one to travel; a third would wait on the server.
constexpr size_t kUnderWay = 2;

// A step under way.
struct Flight {
  v1::TrainStepRequest request;
  Tensors batch;
  grpc::ClientContext context;
  v1::TrainStepResponse response;
  grpc::Status status;
  bool landed = false;
};

class Flights {
 public:
  ~Flights() {
    Land(0);
    queue_.Shutdown();
  }

  bool empty() const { return flights_.empty(); }
  size_t size() const { return flights_.size(); }
  Flight& front() { return *flights_.front(); }
  void pop_front() { flights_.pop_front(); }
  Flight* Add() { return flights_.emplace_back(std::make_unique<Flight>()).get(); }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Waits until the first flight has landed, and then until at most `left` have not.
  void Land(size_t left) {
    while (!flights_.empty() && (!front().landed || aloft() > left)) {
      void* tag;
      bool ok;
      queue_.Next(&tag, &ok);
      static_cast<Flight*>(tag)->landed = true;
    }
  }

 private:
  size_t aloft() const {
    return static_cast<size_t>(
        std::count_if(flights_.begin(), flights_.end(), [](const auto& f) { return !f->landed; }));
  }

  grpc::CompletionQueue queue_;
  std::deque<std::unique_ptr<Flight>> flights_;
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
  for (bool more = true;;) {
    while (more && flights.size() < kUnderWay) {
      std::optional<Tensors> batch = next();
      more = batch.has_value();
      if (!more) break;
      const uint64_t number = line.next + flights.size();
      Flight* const flight = flights.Add();
      flight->batch = *std::move(batch);
      flight->request.set_model(model);
      flight->request.set_client_id(options_.client_id);
      flight->request.set_sequence(number);
      flight->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
      Start(kTrainStep, flight->request, flight->batch, &flight->context, &flight->response,
            &flight->status, flights.queue(), flight);
    }
    if (flights.empty()) return absl::OkStatus();
    flights.Land(kUnderWay);
    Flight& first = flights.front();
    status = ToStatus(first.status);
    if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status)) {
      // It was cut off, or the next overtook it: once more, alone. If the server has applied it, it
      // answers as before.
      flights.Land(0);
      const absl::Time deadline = absl::Now() + timeout;
      const auto check = [&] { return CheckNotForgotten(model, deadline, line, flights.size()); };
      if (absl::IsUnavailable(status)) status = check();
      if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) {
        status = Run(
            deadline,
            [&](grpc::ClientContext* context) {
              first.response.Clear();
              return Send(kTrainStep, first.request, first.batch, context, &first.response);
            },
            check);
      }
    }
    if (!status.ok()) {
      line.in_doubt = true;
      return status;
    }
    ++line.next;
    report(first.response);
    flights.pop_front();
  }
}

}  // namespace gluond::client
