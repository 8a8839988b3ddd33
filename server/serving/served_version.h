// ServedVersion: an immutable version of a model, folded for inference (engine/nn/inference_state.h), and the requests
// that wait for it. Its instances are models of their own, each with its lane and an account, which share the values;
// each computes one batch at a time.
//
//   request --Infer--> BatchQueue --Pump--> an idle instance: join rows, Model::Predict, split rows --> request.done
//
// served_version.cc has a request's way through this; make_version.cc makes the version. Thread-safe; no thread waits.

#ifndef SERVER_SERVING_SERVED_VERSION_H_
#define SERVER_SERVING_SERVED_VERSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/nn/model.h"
#include "engine/runtime/account.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/task.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/runner.h"
#include "server/serving/alarm.h"
#include "server/serving/batch_queue.h"
#include "server/serving/infer_request.h"
#include "server/serving/options.h"
#include "server/serving/statistics.h"

namespace gluond {
struct PassHistory;
}  // namespace gluond

namespace gluond::server {

class ServedVersion : public std::enable_shared_from_this<ServedVersion> {
 public:
  // The things that all versions use. They outlive each version's last request.
  struct Shared {
    Runner& runner;
    Devices& devices;
    Alarm& alarm;
  };

  // Makes the instances and gives them the values of `state`. Each computes as many rows as a lone request has, as each
  // preferred size and as max_batch_size, so that the first requests find all compiled. Calls no client: what a client
  // computes is compiled when the first request comes. Works on the lanes and beside them, and ends beside them.
  // INVALID_ARGUMENT: an option that does not fit the model. FAILED_PRECONDITION: a parameter that outputs need has no
  // value. RESOURCE_EXHAUSTED: no memory. `cancellation` ends the passes.
  static Task<absl::StatusOr<std::shared_ptr<ServedVersion>>> Create(Shared shared, std::string served, int64_t number,
                                                                     ModelState state, ServingOptions options,
                                                                     std::shared_ptr<Cancellation> cancellation = nullptr);

  int64_t number() const { return number_; }
  const ServingOptions& options() const { return options_; }
  // The first instance: inputs, outputs, and the allocator of requests' tensors.
  const HostedModel& model() const { return *instances_.front(); }
  const Place& place() const { return model().place(); }
  int64_t tensor_bytes() const;
  const Statistics& statistics() const { return statistics_; }
  // Where the version computes the model's graph as it is: the reason (engine/nn/inference_state.h).
  const absl::Status& why_not_rewritten() const { return why_not_rewritten_; }
  // The passes that made the version's graph of the model's (engine/compile/pass_watcher.h).
  const PassHistory& history() const { return *history_; }
  // Requests that wait for an instance.
  int64_t waiting() const {
    MutexLock lock(mu_);
    return queue_.size();
  }

  // Checks the request's inputs and outputs, and computes it: alone, or in a batch. An error goes to `done`, and is counted;
  // a request that has outputs is counted by whoever makes its answer of them.
  void Infer(InferRequestPtr request);
  void Count(BatchQueue::Clock::time_point arrived, const InferTimes& times, const absl::Status& answer);

  // Calls `drained` when no request waits or is computed. From here on no request waits for others to join it. A later
  // request, which chose this version before it left the table, is computed all the same.
  void Drain(std::function<void()> drained);
  // No request waits for others to join it any more.
  void Hurry();
  // Requests wait again for others to join them.
  void TakeTime();
  // Refuses requests, those that wait, too, and waits for the others.
  void Stop();

 private:
  ServedVersion(const Shared& shared, int64_t number, const ServingOptions& options);

  // Puts the values into memory of the version's device, once for all instances.
  Task<absl::StatusOr<NamedTensors>> Keep(const NamedTensors& values, Place& place, const std::string& owner);
  Task<absl::Status> Make(ModelState state, Place& place, const std::string& served, Lane& host_lane,
                          const std::shared_ptr<Cancellation>& cancellation);
  Task<absl::Status> AddInstance(const ModelState& state, Place& place, const CustomHostPtr& custom_host, const std::string& served,
                                 const std::string& name, const std::shared_ptr<Cancellation>& cancellation);
  absl::Status CheckBatching() const;
  // The numbers of rows for which it is compiled before the first request.
  std::vector<int64_t> UsualRows() const;
  Task<absl::Status> WarmUp(int64_t rows, const std::shared_ptr<Cancellation>& cancellation);
  absl::Status Check(InferRequest* request) const;
  absl::Status CheckOutput(const std::string& name) const;

  // Gives batches that are due to idle instances.
  void Pump();
  void PumpAt(BatchQueue::Clock::time_point when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(size_t instance, Batch batch);
  void Ran(const Batch& batch, Statistics::Phases phases, BatchQueue::Clock::time_point begun,
           absl::StatusOr<NamedTensors> outputs);
  void Fail(InferRequest& request, const absl::Status& status);
  void Wake();
  // `requests` requests more are under way; below 0: fewer.
  void Expect(int64_t requests) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `requests` requests are answered.
  void Answered(size_t requests);

  const Shared shared_;
  const int64_t number_;
  absl::Status why_not_rewritten_;
  std::shared_ptr<const PassHistory> history_;
  const ServingOptions options_;
  std::shared_ptr<Budget> values_;              // Pays for the parameters, and for the forms in which kernels want them.
  std::shared_ptr<ConstantTensors> constants_;  // The parameters.
  std::vector<HostedModelPtr> instances_;
  std::vector<AccountPtr> accounts_;  // By instance, each of which takes turns of its own on the lanes.
  Statistics statistics_;

  mutable Mutex mu_;
  BatchQueue queue_ ABSL_GUARDED_BY(mu_);
  std::vector<size_t> idle_ ABSL_GUARDED_BY(mu_);  // Indices of idle instances.
  int64_t under_way_ ABSL_GUARDED_BY(mu_) = 0;
  BatchQueue::Clock::time_point alarm_ ABSL_GUARDED_BY(mu_) = BatchQueue::Clock::time_point::max();
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> drained_ ABSL_GUARDED_BY(mu_);
  int64_t draining_ ABSL_GUARDED_BY(mu_) = 0;  // Threads that call some of them.
  CondVar answered_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;  // A request that waits was cancelled.
  BatchQueue::Clock::time_point next_death_ ABSL_GUARDED_BY(mu_) = BatchQueue::Clock::time_point::max();
};

using ServedVersionPtr = std::shared_ptr<ServedVersion>;

}  // namespace gluond::server

#endif  // SERVER_SERVING_SERVED_VERSION_H_
