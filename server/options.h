// ServerOptions: what a server is started with. main.cc makes them of flags.

#ifndef SERVER_OPTIONS_H_
#define SERVER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/follow/follow_options.h"
#include "server/group/group_options.h"
#include "server/hosted/devices.h"
#include "server/identity/gatekeeper.h"
#include "server/identity/jwt.h"
#include "server/identity/tls.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/log.h"
#include "server/session/session.h"
#include "server/start/checkpoint_schedule.h"
#include "server/start/connection_life.h"
#include "server/start/limits.h"
#include "server/start/operator_libraries.h"

namespace gluond::server {

struct ServerOptions {
  std::string address;  // "127.0.0.1:50051", "unix:PATH"; empty: in process only, for tests.
  std::string devices = "auto";
  int cpu_threads = 0;                              // 0: one for each processor.
  int serve_share = Devices::kServeShare;           // As of Devices::Open.
  std::vector<OperatorLibrary> operator_libraries;  // As they are loaded, for people.
  std::string store_dir;                            // Empty: no checkpoints.
  TlsFiles tls;                                     // On TCP. Empty: no encryption.
  std::string identities;         // The file of those who may call. Empty, without tls.client_authority: everybody may.
  JwtOptions jwt;                 // Without its keys no JSON Web Token says who calls.
  bool strict_ownership = false;  // Only who made a thing may change it (identity/owners.h). Needs to know who calls.
  std::string tenants;            // The file of the tenants. Empty: there is the default one alone. Needs identities.
  // Nothing: none where there are identities or keys of JSON Web Tokens, else local.
  std::optional<UnixIdentity> unix_identity = std::nullopt;
  OpenNames health_names = OpenNames::kForAll;  // The callers who may ask health for more than the server.
  std::vector<uint32_t> unix_users;             // Users who may connect to a Unix socket, beside the server's own and root.
  LogSink audit;                                // Null: no audit log.
  AuditLog::Health audit_health = nullptr;      // Null: what has lines of it is done, whether they are written or not.
  LogSink access;                               // Null: no line for each call.
  int64_t access_every = 1;                     // One of so many calls that went well has a line.
  LogLevel log_level = LogLevel::kInfo;         // The least of lines on calls.
  ConnectionLife connections;
  Limits limits;
  std::string metrics_address;          // "127.0.0.1:9100" for Prometheus and probes; empty: none.
  std::string metrics_token_file;       // A file with the token that Prometheus sends; empty: none.
  CheckpointSchedule checkpoint_every;  // How often live models are saved. Needs a store.
  bool ready_when_core = false;         // Takes calls before all of the store is loaded: those about the rest are UNAVAILABLE.
  std::string serve;           // The file of the versions to serve (serving/serve_file.h); empty: calls alone publish some.
  FollowOptions follow;        // The server whose published versions this one serves.
  GroupOptions group;          // The part in a group of servers.
  bool shared_memory = false;  // Whether clients may name shared memory of this machine.
  LogSink log = &LogToStderr;
  // Called once for each device that fails for good, soon after, with a sentence that names it. May end the process.
  std::function<void(const absl::Status& why)> on_device_error;
  SessionProgramFactory session_program = &SessionProgram::Create;

  // Whether callers have to say who they are.
  bool asks_who_calls() const { return !identities.empty() || !jwt.keys.empty() || !tls.client_authority.empty(); }
};

// Looks at options that are wrong on any machine, with any files. INVALID_ARGUMENT names the flag.
absl::Status CheckOptions(const ServerOptions& options);

}  // namespace gluond::server

#endif  // SERVER_OPTIONS_H_
