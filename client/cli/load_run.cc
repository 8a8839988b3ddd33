#include "client/cli/load_run.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"

namespace gluond::cli {
namespace {

constexpr absl::Duration kShownEvery = absl::Milliseconds(100);

// A request under way. It takes memory, and no thread: gRPC's queue gives it back when it is answered.
struct Flight {
  Flight(grpc::GenericStub& stub, const Shot& shot, absl::Duration timeout, absl::Time due, grpc::CompletionQueue* queue)
      : due(due) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    reader = stub.PrepareUnaryCall(&context, shot.path, shot.message, queue);
    reader->StartCall();
    reader->Finish(&response, &status, this);
  }
  absl::Status answer() const { return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()}; }

  const absl::Time due;
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
};

// The next one that is answered. Null: the queue is shut down.
std::unique_ptr<Flight> NextAnswered(grpc::CompletionQueue& queue) {
  void* flight = nullptr;
  bool ok = false;
  queue.Next(&flight, &ok);
  return std::unique_ptr<Flight>(static_cast<Flight*>(flight));
}

// The client may not import the engine's start_thread.h. Without this thread there is no run.
std::thread StartOrExit(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    std::fputs(
        "cannot start the thread that hears of answers: the process has all threads that it may have; raise the "
        "limit (ulimit -u, or a container's pids.max)\n",
        stderr);
    std::exit(1);
  }
}

class LoadRun {
 public:
  LoadRun(grpc::GenericStub& stub, const Shot& shot, const Pace& pace, absl::FunctionRef<void(const LoadState&)> show)
      : stub_(stub), shot_(shot), pace_(pace), show_(show) {}

  LoadReport Run() {
    // One thread hears of all answers: with gRPC's own each would wake two, which are the server's to use.
    std::thread hears = StartOrExit([this] {
      while (const std::unique_ptr<Flight> flight = NextAnswered(queue_)) Answered(flight->due, flight->answer());
    });
    pace_.rate > 0 ? OpenLoop() : ClosedLoop();
    SleepUntil(end_);
    AwaitAnswers();
    report_.Ended(absl::Now() - start_);
    queue_.Shutdown();
    hears.join();
    return std::move(report_);
  }

 private:
  void OpenLoop() {
    std::mt19937_64 random(static_cast<uint64_t>(pace_.seed));
    std::exponential_distribution<double> gap(pace_.rate);
    for (absl::Time due = start_; (due += absl::Seconds(gap(random))) < end_;) {
      SleepUntil(due);
      if (Enter(due)) Request(due);
    }
  }

  void ClosedLoop() {
    under_way_ = pace_.concurrency;
    for (int64_t i = 0; i < pace_.concurrency; ++i) Request(absl::Now());
  }

  // Whether a request may be under way from now on.
  bool Enter(absl::Time due) {
    std::lock_guard<std::mutex> lock(mu_);
    if (under_way_ >= pace_.most_under_way) {
      report_.NotSent();
      return false;
    }
    ++under_way_;
    report_.Sent(absl::Now() - due);
    return true;
  }

  // The queue has it until NextAnswered.
  void Request(absl::Time due) { new Flight(stub_, shot_, pace_.timeout, due, &queue_); }

  void Answered(absl::Time due, const absl::Status& status) {
    const absl::Time now = absl::Now();
    {
      std::lock_guard<std::mutex> lock(mu_);
      report_.Answered(now - due, status);
      if (pace_.rate > 0 || now >= end_) {
        if (--under_way_ == 0) all_answered_.notify_one();
        return;
      }
    }
    Request(now);
  }

  void SleepUntil(absl::Time due) {
    while (true) {
      const absl::Time now = absl::Now();
      if (now >= next_shown_) Show(now);
      if (now >= due) return;
      absl::SleepFor(std::min(due, next_shown_) - now);
    }
  }

  void AwaitAnswers() {
    std::unique_lock<std::mutex> lock(mu_);
    while (!all_answered_.wait_for(lock, absl::ToChronoMilliseconds(kShownEvery), [this] { return under_way_ == 0; })) {
      lock.unlock();
      Show(absl::Now());
      lock.lock();
    }
  }

  void Show(absl::Time now) {
    next_shown_ = now + kShownEvery;
    LoadState state;
    state.done = std::min(1.0, absl::FDivDuration(now - start_, pace_.duration));
    {
      std::lock_guard<std::mutex> lock(mu_);
      state.succeeded = report_.succeeded();
      state.failed = report_.failed();
      state.under_way = under_way_;
    }
    show_(state);
  }

  grpc::GenericStub& stub_;
  const Shot& shot_;
  const Pace& pace_;
  const absl::FunctionRef<void(const LoadState&)> show_;
  const absl::Time start_ = absl::Now(), end_ = start_ + pace_.duration;
  absl::Time next_shown_ = start_ + kShownEvery;

  grpc::CompletionQueue queue_;
  std::mutex mu_;
  std::condition_variable all_answered_;
  LoadReport report_;      // Guarded by mu_.
  int64_t under_way_ = 0;  // Guarded by mu_.
};

}  // namespace

LoadReport RunLoad(grpc::GenericStub& stub, const Shot& shot, const Pace& pace, absl::FunctionRef<void(const LoadState&)> show) {
  return LoadRun(stub, shot, pace, show).Run();
}

absl::Status Fire(grpc::GenericStub& stub, const Shot& shot, absl::Duration timeout) {
  grpc::CompletionQueue queue;
  new Flight(stub, shot, timeout, absl::Now(), &queue);
  const absl::Status answer = NextAnswered(queue)->answer();
  queue.Shutdown();
  while (NextAnswered(queue) != nullptr) continue;
  return answer;
}

}  // namespace gluond::cli
