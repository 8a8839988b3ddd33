// A Runner has the things that all calls share. It outlives the gRPC server.

#ifndef SERVER_RPC_RUNNER_H_
#define SERVER_RPC_RUNNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/budget.h"
#include "server/identity/owners.h"
#include "server/identity/tenants.h"
#include "server/net/peers.h"
#include "server/rpc/access_log.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/dispatch.h"
#include "server/rpc/log.h"
#include "server/rpc/sequence.h"
#include "server/rpc/shares.h"
#include "server/start/limits.h"

namespace gluond::server {

struct Runner {
  // `memory`: the process's budget.
  Runner(const Limits& limits, LogSink log, std::shared_ptr<Budget> memory)
      : limits(limits),
        log(std::move(log)),
        memory(std::move(memory)),
        requests("requests in flight", limits.max_requests, "--max_requests", &Quotas::requests),
        request_bytes("bytes of requests in flight", limits.max_request_bytes, "--max_request_bytes"),
        sequences(
            limits, [this](auto work) { dispatch.Run(Weight::kHeavy, std::move(work)); },
            [this](absl::string_view tenant) {
              const TenantPtr found = tenants.Find(tenant);
              return found == nullptr ? std::nullopt : std::optional(found->Most(&Quotas::clients, this->limits.max_clients));
            }) {}

  const Limits limits;
  FailureLog log;
  CallsUnderWay calls;
  const std::shared_ptr<Budget> memory;
  Peers peers;
  Shares requests;
  Shares request_bytes;
  Sequences sequences;
  // The phases of models' calls: the wait for the model and its lane, the computation, and the part of it that clients
  // took for their operators.
  Latency queued, computed, called_back;
  AuditLog audit;
  AccessLog access{log.levels()};
  Tenants tenants;             // Loaded before the first call.
  Owners owners;               // Likewise.
  bool tells_durable = false;  // Replies tell the last durable sequence number. Set before the first call.
  // UNAVAILABLE: the model is being loaded, and with it the numbers of its clients. Set before the first call.
  std::function<absl::Status(const std::string& model)> check_loaded = [](const std::string&) { return absl::OkStatus(); };
  Dispatch dispatch;  // Last: its work uses the others.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_RUNNER_H_
