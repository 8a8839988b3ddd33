#include "client/cli/load_run.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace gluond::cli {
namespace {

constexpr absl::Duration kShownEvery = absl::Milliseconds(100);

// Sends a request; `answered` is called once, on a thread of gRPC's. So those under way take memory, and no thread.
void Send(grpc::GenericStub& stub, const Shot& shot, absl::Duration timeout,
          std::function<void(const absl::Status&)> answered) {
  struct Flight {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
  };
  // The answer deletes it before anybody hears of it: the context holds the channel, whose end waits for gRPC's threads, and
  // must not come on one of them.
  auto* const flight = new Flight;
  flight->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  stub.UnaryCall(&flight->context, shot.path, {}, &shot.message, &flight->response,
                 [flight, answered = std::move(answered)](const grpc::Status& status) {
                   delete flight;
                   answered({static_cast<absl::StatusCode>(status.error_code()), status.error_message()});
                 });
}

class LoadRun {
 public:
  LoadRun(grpc::GenericStub& stub, const Shot& shot, const Pace& pace,
          absl::FunctionRef<void(const LoadState&)> show)
      : stub_(stub), shot_(shot), pace_(pace), show_(show) {}

  LoadReport Run() {
    pace_.rate > 0 ? OpenLoop() : ClosedLoop();
    SleepUntil(end_);
    AwaitAnswers();
    report_.Ended(absl::Now() - start_);
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

  void Request(absl::Time due) {
    Send(stub_, shot_, pace_.timeout,
         [this, due](const absl::Status& status) { Answered(due, status); });
  }

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
    while (!all_answered_.wait_for(lock, absl::ToChronoMilliseconds(kShownEvery),
                                   [this] { return under_way_ == 0; })) {
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

  std::mutex mu_;
  std::condition_variable all_answered_;
  LoadReport report_;      // Guarded by mu_.
  int64_t under_way_ = 0;  // Guarded by mu_.
};

}  // namespace

LoadReport RunLoad(grpc::GenericStub& stub, const Shot& shot, const Pace& pace,
                   absl::FunctionRef<void(const LoadState&)> show) {
  return LoadRun(stub, shot, pace, show).Run();
}

absl::Status Fire(grpc::GenericStub& stub, const Shot& shot, absl::Duration timeout) {
  absl::Status answer;
  absl::Notification answered;
  Send(stub, shot, timeout, [&](const absl::Status& status) {
    answer = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  return answer;
}

}  // namespace gluond::cli
