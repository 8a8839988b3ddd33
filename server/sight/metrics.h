// Metrics: what a server tells of itself in numbers. Metrics counts nothing: a look collects the counts that the rooms keep
// for each method, queue, budget, model and version. So the work of the rooms costs the same whether somebody looks or not.
// (The counters of prometheus-cpp look labels up, and its histograms take a lock.) Labels are names of what is there now:
// the series of a model go with the model. Thread-safe.
//
//   Metrics metrics({...});
//   std::string text = metrics.Look();

#ifndef SERVER_SIGHT_METRICS_H_
#define SERVER_SIGHT_METRICS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/checkpoint.h"
#include "server/custom/hosts.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/identity/tls.h"
#include "server/net/listener.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/router.h"
#include "server/rpc/runner.h"
#include "server/serving/version_table.h"

namespace gluond::server {

class Follower;
class Group;

class Metrics {
 public:
  // The parts of a server. They outlive this.
  struct Parts {
    Runner& runner;
    const std::vector<std::unique_ptr<RawService>>& services;
    const Router& router;
    const Listener* listener;    // Null: the server is in-process.
    const TlsCertificates* tls;  // Null: connections are not encrypted.
    const Devices& devices;
    const Models& models;
    const VersionTable& served;
    const CustomHosts& hosts;
    const CheckpointStore* store;  // Null: there is none.
    const Follower* follower;      // Null: the server follows nobody.
    Group* group;                  // Null: the server leads none.
    std::function<int64_t()> sessions, datasets;
    std::function<int64_t()> failed_saves;                           // Saves of models for the next process.
    std::function<std::map<std::string, double>()> checkpoint_ages;  // Since the last save, in seconds, by model.
  };

  explicit Metrics(Parts parts) : parts_(std::move(parts)) {}

  std::string Look() const;

 private:
  const Parts parts_;
  const std::chrono::system_clock::time_point begun_ = std::chrono::system_clock::now();
};

}  // namespace gluond::server

#endif  // SERVER_SIGHT_METRICS_H_
