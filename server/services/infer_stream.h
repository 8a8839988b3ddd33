// InferStream is one stream of GRPCInferenceService.ModelStreamInfer: its requests are computed at once, many of them
// together, and answered in their order. The error of a request is in its answer, and the stream goes on; or it ends the
// stream, for a client that wants that.

#ifndef SERVER_SERVICES_INFER_STREAM_H_
#define SERVER_SERVICES_INFER_STREAM_H_

#include <deque>
#include <memory>

#include "engine/core/mutex.h"
#include "engine/runtime/cancellation.h"
#include "server/rpc/conversation.h"
#include "server/rpc/streams.h"
#include "server/serving/version_table.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

class InferStream;

// The streams of a server. Thread-safe. Outlives the gRPC server.
class InferStreams : public SharedStreams<InferStream> {
 public:
  // `regions`: null where the server takes no shared memory.
  InferStreams(Runner& runner, const VersionTable& served, const SharedRegions* regions = nullptr)
      : SharedStreams("streams of inference", 2 * runner.limits.max_sessions, "twice --max_sessions"),
        runner_(runner),
        served_(served),
        regions_(regions) {}

  // Ends streams whose clients do not take their answers, or send no requests.
  void Sweep();
  // The streams end with UNAVAILABLE when their requests are answered, which no batch delays from here on.
  void Drain();

  Runner& runner() { return runner_; }
  const VersionTable& served() const { return served_; }
  const SharedRegions* regions() const { return regions_; }

 private:
  Runner& runner_;
  const VersionTable& served_;
  const SharedRegions* const regions_;
};

class InferStream final : public Conversation {
 public:
  InferStream(InferStreams& streams, const Opening& opening);

  void Sweep(Clock::time_point now);
  void Drain();

 private:
  // Requests that are not answered, at most; the next one is not read before.
  static constexpr size_t kMost = 64;
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  void Receive(const Slices& message, int64_t bytes) override;
  void Written() override;
  void NoMoreMessages() override;
  void Ended() override;
  void Over() override { streams_.Remove(this); }

  absl::Status Enter(const Slices& message, int64_t bytes, Job* job);
  void Done(const JobPtr& job, absl::Status status);
  absl::Status Encode(Job* job);
  // Writes the next answer, reads the next request, or ends the stream, as far as there is something to do.
  void GoOn();

  InferStreams& streams_;
  const bool error_ends_stream_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>(deadline());

  Mutex jobs_mu_;                                      // Taken before the mutex of the conversation.
  std::deque<JobPtr> jobs_ ABSL_GUARDED_BY(jobs_mu_);  // In the order of their requests.
  JobPtr writing_ ABSL_GUARDED_BY(jobs_mu_);
  Clock::time_point writing_since_ ABSL_GUARDED_BY(jobs_mu_);
  Clock::time_point idle_since_ ABSL_GUARDED_BY(jobs_mu_) = Clock::now();  // While it has no request.
  bool reading_ ABSL_GUARDED_BY(jobs_mu_) = true;
  bool no_more_ ABSL_GUARDED_BY(jobs_mu_) = false;
  bool draining_ ABSL_GUARDED_BY(jobs_mu_) = false;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_INFER_STREAM_H_
