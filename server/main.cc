// gluond-server: trains and serves neural networks for remote clients.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/compile/pass_set.h"
#include "engine/core/gpu_math.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/config/flag_file.h"
#include "server/hosted/sweeper.h"
#include "server/process.h"
#include "server/rpc/json_line.h"
#include "server/rpc/log.h"
#include "server/rpc/refused_start.h"
#include "server/server.h"
#include "server/start/address.h"
#include "server/start/cpu_check.h"
#include "server/start/cuda_plugin.h"
#include "server/start/memory.h"
#include "server/start/operator_libraries.h"
#include "server/start/protocol.h"
#include "server/start/signals.h"
#include "server/start/standard_output.h"

ABSL_FLAG(std::string, address, "127.0.0.1:50051",
          "HOST:PORT to listen on, or unix:PATH, or unix-abstract:NAME. Port 0 takes a free one.");
ABSL_FLAG(std::string, config, "",
          "File of YAML with values of these flags, as `max_models: 7`. A flag on the command line counts in its place.");
ABSL_FLAG(gluond::server::InsecurePublic, insecure_public, {},
          "Allows an --address that other machines can reach, without encryption or without a question who calls "
          "(--insecure_public=grpc), or such a --metrics_address without a token (=metrics), or, without a value, both.");
ABSL_FLAG(std::string, tls_cert, "",
          "The server's certificate, in PEM: connections by TCP are encrypted. A changed file is taken up.");
ABSL_FLAG(std::string, tls_key, "", "Its private key, in PEM.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "Certificates of authorities, in PEM: each client is to have a certificate by one of them.");
ABSL_FLAG(
    std::string, identities, "",
    "File of those who may call: lines of a name, roles (infer, train, publish, admin, follow, member, with commas, or proxy) and a "
    "credential, sha256: and the hash of a bearer token, or certificate: and the name in it. A changed file is taken up. Empty: "
    "everybody may do all, or everybody whose certificate is good.");
ABSL_FLAG(std::string, jwt_keys, "",
          "File of public keys, in PEM, whose JSON Web Tokens are bearer tokens, too: RSA signs RS256, the curve P-256 ES256. A "
          "line `kid: NAME` before a key names it. A changed file is taken up.");
ABSL_FLAG(std::string, jwt_issuer, "", "The `iss` that such a token is to have.");
ABSL_FLAG(std::string, jwt_audience, "", "The `aud` that it is to have.");
ABSL_FLAG(int64_t, jwt_leeway_seconds, 60, "So much may its `exp` and `nbf` differ from this machine's clock.");
ABSL_FLAG(std::string, jwt_name_claim, "sub", "Its claim that is the caller's name.");
ABSL_FLAG(std::string, jwt_roles_claim, "roles",
          "Its claim that has the caller's roles; those of other services count for nothing. With dots: within others, where a "
          "prefix or a map says which are for this server.");
ABSL_FLAG(std::string, jwt_roles_prefix, "",
          "What is before a role in that claim, as gluond. in gluond.train. Empty, without a map: nothing.");
ABSL_FLAG(std::vector<std::string>, jwt_roles_map, {},
          "Words of that claim and the role that each gives, WORD=ROLE with commas, as ml-team=train,ml-leads=admin.");
ABSL_FLAG(
    std::string, ownership, "shared",
    "Who may change, read and delete models, datasets, checkpoints, published versions and saved sessions: shared: every caller "
    "of the tenant, as his roles allow; strict: who made the first of that name, whom the fields reads=, changes= and owns= of "
    "his line in --identities allow it (names, or NAME*, with commas), and admins. Published versions answer everybody.");
ABSL_FLAG(std::string, tenants, "",
          "File of those who share the server, each with names and quotas of its own: a line `NAME QUOTA=VALUE ...` for each, "
          "with models, datasets, versions, sessions, saved_sessions, clients, requests, bytes, store_bytes, saved_session_bytes, "
          "requests_per_second, lane_share. "
          "Callers of a tenant are TENANT/NAME in --identities. Looked at again like that.");
ABSL_FLAG(std::string, unix_identity, "",
          "Who calls without a token on a Unix socket: none, or local, who may do all. Empty: none where there are --identities or "
          "--jwt_keys, else local.");
ABSL_FLAG(std::string, health_names, "open",
          "Who may ask health for a service, a device or a published model by its name: open, whoever can connect, or closed, "
          "callers whom the server knows. The server itself (\"\") is open always.");
ABSL_FLAG(std::vector<std::string>, unix_users, {},
          "Numbers of users who may connect to a Unix socket, beside the server's own and root.");
ABSL_FLAG(std::string, audit_log, "",
          "File to which a line of JSON is added for each change that a call has made: who, what, when. Empty: where "
          "callers are asked who they are, these lines go to stderr.");
ABSL_FLAG(std::string, audit, "",
          "required: a call that has a line in the audit log is refused while that cannot be written. Empty: the line is lost "
          "then, and counted.");
ABSL_FLAG(std::string, access_log, "",
          "File to which a line of JSON is added for each call that is over; - is the standard output. A file that is moved "
          "away is begun anew. Empty: none.");
ABSL_FLAG(int64_t, access_log_every, 1, "Of the calls that went well, one of so many has a line in --access_log.");
ABSL_FLAG(std::string, error_log, "", "File to which a line of JSON is added for each call that failed. Empty: stderr.");
ABSL_FLAG(std::string, log_level, "info",
          "The least of lines on calls: info (every call, in --access_log), warning (those that failed) or error (those that "
          "failed by no doing of their callers).");
ABSL_FLAG(std::string, port_file, "", "Writes the port to this file once the server listens.");
ABSL_FLAG(std::string, metrics_address, "",
          "IP:PORT on which Prometheus gets /metrics and probes get /healthz and /readyz, over HTTP. Empty: none.");
ABSL_FLAG(std::string, metrics_token_file, "",
          "A file with a token, which may change: /metrics is for those who send it (Authorization: Bearer TOKEN).");
ABSL_FLAG(std::string, devices, "auto", "auto (every GPU found, then the CPU), cpu, gpu:0, or a list, the default first.");
ABSL_FLAG(std::string, cuda_plugin, "", "libgluond_cuda.so. Empty: looked for beside the server, in ../lib and ../ops.");
ABSL_FLAG(std::vector<std::string>, operator_library, {},
          "Shared objects with operators that people outside of gluond have written, with commas (docs/operator_library.md). Their "
          "code is a part of the server.");
ABSL_FLAG(std::string, tf32, "conv",
          "Where a GPU may multiply float32 as TF32, with 10 bits of fraction: conv (convolutions), all, or none.");
ABSL_FLAG(bool, deterministic, true, "Whether a GPU's convolutions give the same bits each time; else they may be faster.");
ABSL_FLAG(std::string, passes, "",
          "Optional passes of the compiler that are left out, such as -fold_affine,-row_chains: a way around a fault of one. "
          "Results are the same up to rounding, and come later. Empty: none is left out.");
ABSL_FLAG(bool, exit_on_device_error, false,
          "Ends the process with status 4 when a GPU has failed for good, so that an orchestrator starts another. Otherwise "
          "other devices go on, and health tells of this one by its name.");
ABSL_FLAG(std::string, store_dir, "",
          "Folder for checkpoints, and for the models and datasets that the next process is to go on with; made if missing. "
          "Empty: nothing can be saved.");
ABSL_FLAG(std::string, serve, "",
          "A file of YAML that declares versions to serve, made of checkpoints in --store_dir; SIGHUP and ReloadServing have it "
          "read again (docs/reference.md). Empty: calls alone publish versions.");
ABSL_FLAG(
    std::string, follow, "",
    "HOST:PORT of a leader, a server with --store_dir: this one serves the versions that are published there, takes up each new "
    "one, and goes on while the leader is away. Empty: calls publish versions here.");
ABSL_FLAG(std::string, follow_token_file, "",
          "File with the token that the leader wants, of a caller with the role follow. A changed file is taken up.");
ABSL_FLAG(std::string, follow_ca, "",
          "The authority of the leader's certificate, in PEM. Empty: the way there is not encrypted, and no token leaves this "
          "machine. A changed file is taken up.");
ABSL_FLAG(bool, check, false, "Checks flags and files, and ends without listening: status 0 if a server could start by them.");
ABSL_FLAG(bool, shared_memory, false,
          "Whether clients of GRPCInferenceService may register shared memory of this machine. The server then reads and writes "
          "all such memory that its user may.");
ABSL_FLAG(std::string, checkpoint_every, "",
          "How often each model is saved for the next process: after so many steps or other changes, as in 500steps, when a "
          "change is so old, as in 10m (s, m or h), or both, as in 500steps,10m. Empty: at SIGTERM and SIGINT alone.");
ABSL_FLAG(std::string, ready_when, "all",
          "When a server that starts takes calls and says SERVING: all, when the store's datasets, models and versions are loaded, "
          "or core, at once. Then calls about a thing that is being loaded are UNAVAILABLE, and health tells of each model.");
ABSL_FLAG(int, cpu_threads, 0,
          "Threads that compute on the CPU. 0: one for each processor that the affinity mask and the control group's quota "
          "leave, followed while they change.");
ABSL_FLAG(int, serve_share, gluond::server::Devices::kServeShare,
          "Percent of the CPU's threads, 1 to 99, that published versions compute with while models train as well: whole "
          "threads, at least one for either. Either has all that the other leaves.");
ABSL_FLAG(int, lame_duck_seconds, 0,
          "After SIGTERM or SIGINT, health says NOT_SERVING for so long while new calls are still taken. Where a balancer "
          "asks for health: more than it takes to hear of it.");
ABSL_FLAG(int, drain_seconds, 30, "After that, calls under way have so long before they are cancelled.");

ABSL_FLAG(int64_t, max_connection_age_seconds, 0,
          "A connection that is so old takes no new calls: its client makes another one, of another server perhaps. 0: never.");
ABSL_FLAG(int64_t, max_connection_age_grace_seconds, 0,
          "After that, its calls under way have so long before they are cancelled. 0: as long as they take.");
ABSL_FLAG(int64_t, keepalive_seconds, gluond::server::ConnectionLife().keepalive,
          "A connection that is silent for so long is asked whether its client is still there. 0: never.");
ABSL_FLAG(int64_t, keepalive_timeout_seconds, gluond::server::ConnectionLife().keepalive_timeout,
          "A client that is asked so has so long to answer.");

ABSL_FLAG(std::string, group, "",
          "HOST:PORT of the leader of a group of servers that train together. The server whose address that is leads, others join. "
          "Empty: no group.");
ABSL_FLAG(std::string, group_role, "", "leader, member, or nothing: as --group's address says.");
ABSL_FLAG(std::string, group_size, "1:1",
          "MIN:MAX processes of the group, the leader among them: without MIN no step runs, and no more than MAX join.");
ABSL_FLAG(bool, group_allow_solo, false,
          "Allows a MIN of half of MAX or less: a leader that is cut off from the others goes on alone, and so may they.");
ABSL_FLAG(std::string, group_interface, "",
          "Network interface, or address of this machine, over which the group adds up gradients, without encryption: of a private "
          "network. Empty: the loopback, where the leader is on this machine.");
ABSL_FLAG(bool, group_insecure, false, "Allows a --group_interface that is in no private network.");
ABSL_FLAG(absl::Duration, group_timeout, absl::Seconds(10), "A process of the group that is silent for so long is lost.");
ABSL_FLAG(std::string, group_token_file, "",
          "A file with the bearer token by which a member joins, of an identity with the role member.");
ABSL_FLAG(std::string, group_ca, "", "The authority of the leader's certificate, in PEM: a member's Join is encrypted.");
ABSL_FLAG(std::string, gloo_plugin, "", "libgluond_gloo.so. Empty: looked for beside the server, in ../lib and group/gloo.");

#define GLUOND_LIMIT(name, value, least, most, help) ABSL_FLAG(int64_t, name, value, help);
GLUOND_LIMITS(GLUOND_LIMIT)
#undef GLUOND_LIMIT

namespace gluond::server {
namespace {

Limits LimitsFromFlags() {
  Limits limits;
  for (const LimitFlag& flag : LimitFlags()) {
    limits.*flag.limit = absl::FindCommandLineFlag(flag.name)->TryGet<int64_t>().value();
  }
  return limits;
}

// The meaning of a flag whose value is one word of a few, as WordOf<bool>("--audit", "", {{"required", true}, {"", false}}).
// INVALID_ARGUMENT, which lists the words: `said` is none of them. "": nothing was said.
template <typename T>
absl::StatusOr<T> WordOf(absl::string_view flag, const std::string& said,
                         std::initializer_list<std::pair<absl::string_view, T>> words) {
  std::string known;
  size_t left = words.size();
  for (const auto& [word, value] : words) {
    if (word == said) return value;
    absl::StrAppend(&known, word.empty() ? "nothing" : word, --left == 0 ? "" : left == 1 ? " or " : ", ");
  }
  return Invalid(flag, " is '", said, "'; want ", known);
}

absl::StatusOr<std::vector<uint32_t>> UnixUsers() {
  std::vector<uint32_t> users;
  for (const std::string& text : absl::GetFlag(FLAGS_unix_users)) {
    if (!absl::SimpleAtoi(text, &users.emplace_back())) {
      return Invalid("--unix_users: '", text, "' is no user's number");
    }
  }
  return users;
}

// Without a path the log stays where it is.
absl::Status OpenLog(const std::string& path, absl::string_view name, LogSink* log, std::chrono::milliseconds linger = {}) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(*log, LogToFile(path, name, linger));
  return absl::OkStatus();
}

absl::Status RequireAudit(ServerOptions* options) {
  ASSIGN_OR_RETURN(const bool is_required, WordOf<bool>("--audit", absl::GetFlag(FLAGS_audit), {{"required", true}, {"", false}}));
  if (!is_required) return absl::OkStatus();
  if (options->audit == nullptr) return Invalid("--audit=required needs a log; set --audit_log=FILE");
  options->audit_health = HealthOf(absl::GetFlag(FLAGS_audit_log) == "-" ? "stdout" : "audit");
  // A disk that is full takes the file, and no line.
  options->audit(absl::StrCat(BeginJsonLine("audit_begins", LogLevel::kInfo), "}\n"));
  FlushLogs(kLastWords);
  if (options->audit_health()) return absl::OkStatus();
  return FailedPrecondition("--audit=required: the audit log cannot be written; is its disk full?");
}

absl::Status AddIdentity(ServerOptions* options) {
  options->tls = {absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key), absl::GetFlag(FLAGS_tls_client_ca)};
  options->identities = absl::GetFlag(FLAGS_identities);
  options->jwt = {.keys = absl::GetFlag(FLAGS_jwt_keys),
                  .issuer = absl::GetFlag(FLAGS_jwt_issuer),
                  .audience = absl::GetFlag(FLAGS_jwt_audience),
                  .leeway = absl::Seconds(absl::GetFlag(FLAGS_jwt_leeway_seconds)),
                  .name_claim = absl::GetFlag(FLAGS_jwt_name_claim),
                  .roles = {.claim = absl::GetFlag(FLAGS_jwt_roles_claim),
                            .prefix = absl::GetFlag(FLAGS_jwt_roles_prefix),
                            .map = absl::GetFlag(FLAGS_jwt_roles_map)}};
  if (options->jwt.keys.empty() && !(options->jwt.issuer.empty() && options->jwt.audience.empty())) {
    return Invalid(
        "--jwt_issuer and --jwt_audience say which JSON Web Tokens are good; name the keys that sign these by --jwt_keys=FILE");
  }
  options->tenants = absl::GetFlag(FLAGS_tenants);
  ASSIGN_OR_RETURN(options->strict_ownership,
                   WordOf<bool>("--ownership", absl::GetFlag(FLAGS_ownership), {{"shared", false}, {"strict", true}}));
  ASSIGN_OR_RETURN(options->unix_users, UnixUsers());
  ASSIGN_OR_RETURN(
      options->unix_identity,
      WordOf<std::optional<UnixIdentity>>("--unix_identity", absl::GetFlag(FLAGS_unix_identity),
                                          {{"none", UnixIdentity::kNone}, {"local", UnixIdentity::kLocal}, {"", std::nullopt}}));
  ASSIGN_OR_RETURN(options->health_names, WordOf<OpenNames>("--health_names", absl::GetFlag(FLAGS_health_names),
                                                            {{"open", OpenNames::kForAll}, {"closed", OpenNames::kForCallers}}));
  const bool asks = options->asks_who_calls();
  if (asks) options->audit = &LogToStderr;
  RETURN_IF_ERROR(OpenLog(absl::GetFlag(FLAGS_audit_log), "audit", &options->audit));
  RETURN_IF_ERROR(RequireAudit(options));
  return CheckAddress(options->address, asks && options->tls.any(), absl::GetFlag(FLAGS_insecure_public).grpc);
}

absl::Status AddGroup(ServerOptions* options) {
  GroupOptions& group = options->group;
  group.address = absl::GetFlag(FLAGS_group);
  ASSIGN_OR_RETURN(
      group.role, WordOf<GroupRole>("--group_role", absl::GetFlag(FLAGS_group_role),
                                    {{"leader", GroupRole::kLeader}, {"member", GroupRole::kMember}, {"", GroupRole::kByAddress}}));
  RETURN_IF_ERROR(ParseGroupSize(absl::GetFlag(FLAGS_group_size), &group));
  group.allow_solo = absl::GetFlag(FLAGS_group_allow_solo);
  group.interface = absl::GetFlag(FLAGS_group_interface);
  group.insecure = absl::GetFlag(FLAGS_group_insecure);
  group.timeout = absl::ToChronoMilliseconds(absl::GetFlag(FLAGS_group_timeout));
  group.gloo_plugin = absl::GetFlag(FLAGS_gloo_plugin);
  group.token_file = absl::GetFlag(FLAGS_group_token_file);
  group.authority = absl::GetFlag(FLAGS_group_ca);
  for (const OperatorLibrary& library : options->operator_libraries) {
    absl::StrAppend(&group.libraries, group.libraries.empty() ? "" : " ", library.digest);
  }
  constexpr int64_t kLeastTimeout = 100, kMostTimeout = 3'600'000;
  return CheckInRange("--group_timeout in milliseconds", group.timeout.count(), kLeastTimeout, kMostTimeout);
}

// Lines on calls wait for so long, to be written many at a time.
constexpr std::chrono::milliseconds kLinger{50};

absl::Status AddLogs(ServerOptions* options) {
  RETURN_IF_ERROR(OpenLog(absl::GetFlag(FLAGS_access_log), "access", &options->access, kLinger));
  RETURN_IF_ERROR(OpenLog(absl::GetFlag(FLAGS_error_log), "error", &options->log));
  options->access_every = absl::GetFlag(FLAGS_access_log_every);
  ASSIGN_OR_RETURN(options->log_level,
                   WordOf<LogLevel>("--log_level", absl::GetFlag(FLAGS_log_level),
                                    {{"info", LogLevel::kInfo}, {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}}));
  return absl::OkStatus();
}

// The exit status of a server that has listened.
absl::StatusOr<int> Main(std::vector<OperatorLibrary> libraries) {
  RETURN_IF_ERROR(CheckCpu());
  ServerOptions options;
  options.operator_libraries = std::move(libraries);
  options.address = absl::GetFlag(FLAGS_address);
  options.devices = absl::GetFlag(FLAGS_devices);
  options.cpu_threads = absl::GetFlag(FLAGS_cpu_threads);
  options.serve_share = absl::GetFlag(FLAGS_serve_share);
  options.store_dir = absl::GetFlag(FLAGS_store_dir);
  ASSIGN_OR_RETURN(options.checkpoint_every,
                   Annotate(ParseCheckpointSchedule(absl::GetFlag(FLAGS_checkpoint_every)), "--checkpoint_every"));
  ASSIGN_OR_RETURN(options.ready_when_core,
                   WordOf<bool>("--ready_when", absl::GetFlag(FLAGS_ready_when), {{"all", false}, {"core", true}}));
  options.limits = LimitsFromFlags();
  options.serve = absl::GetFlag(FLAGS_serve);
  options.follow = {absl::GetFlag(FLAGS_follow), absl::GetFlag(FLAGS_follow_token_file), absl::GetFlag(FLAGS_follow_ca)};
  options.shared_memory = absl::GetFlag(FLAGS_shared_memory);
  ASSIGN_OR_RETURN(const GpuMath::Tf32 tf32, Annotate(ParseTf32(absl::GetFlag(FLAGS_tf32)), "--tf32"));
  SetGpuMath({.tf32 = tf32, .deterministic = absl::GetFlag(FLAGS_deterministic)});
  if (const std::string passes = absl::GetFlag(FLAGS_passes); !passes.empty()) {
    ASSIGN_OR_RETURN(const PassSet left_out, Annotate(PassSet::Parse(passes), "--passes"));
    SetLeftOutPasses(left_out);
  }
  (void)LeftOutPasses();  // A wrong GLUOND_PASSES ends the start, and not a later call.
  RETURN_IF_ERROR(AddIdentity(&options));
  RETURN_IF_ERROR(AddLogs(&options));
  RETURN_IF_ERROR(AddGroup(&options));
  options.connections = {.age = absl::GetFlag(FLAGS_max_connection_age_seconds),
                         .age_grace = absl::GetFlag(FLAGS_max_connection_age_grace_seconds),
                         .keepalive = absl::GetFlag(FLAGS_keepalive_seconds),
                         .keepalive_timeout = absl::GetFlag(FLAGS_keepalive_timeout_seconds)};
  const std::chrono::seconds lame_duck(absl::GetFlag(FLAGS_lame_duck_seconds)), grace(absl::GetFlag(FLAGS_drain_seconds));
  RETURN_IF_ERROR(CheckInRange("--lame_duck_seconds", lame_duck.count(), 0));
  RETURN_IF_ERROR(CheckInRange("--drain_seconds", grace.count(), 0));
  if (const std::string address = absl::GetFlag(FLAGS_metrics_address); !address.empty()) {
    options.metrics_token_file = absl::GetFlag(FLAGS_metrics_token_file);
    ASSIGN_OR_RETURN(options.metrics_address, CheckMetricsAddress(address, absl::GetFlag(FLAGS_insecure_public).metrics,
                                                                  !options.metrics_token_file.empty()));
  }
  const std::string port_file = absl::GetFlag(FLAGS_port_file);
  if (!port_file.empty()) RETURN_IF_ERROR(CheckFolderOf(port_file, "--port_file"));
  const bool checks = absl::GetFlag(FLAGS_check);
  // A check of "auto" is good with any GPU and with none.
  if (absl::StrContains(options.devices, "gpu") || (options.devices == "auto" && !checks)) {
    const absl::Status loaded = LoadCudaPlugin(absl::GetFlag(FLAGS_cuda_plugin));
    if (!loaded.ok() && options.devices != "auto") return loaded;
    if (!loaded.ok()) LogEvent("no_gpu", LogLevel::kWarning, absl::StrCat(loaded.message(), "; computing on the CPU"));
  }
  if (checks) {
    ASSIGN_OR_RETURN(const std::string found, Server::Check(options));
    LogToStdout(absl::StrCat("gluond-server: the flags and files are good; ", found, "\n"));
    return 0;
  }
  return RunServer(options, {.port_file = port_file,
                             .lame_duck = lame_duck,
                             .grace = grace,
                             .exit_on_device_error = absl::GetFlag(FLAGS_exit_on_device_error)});
}

// Where this program's flags are, all of them.
bool HasFlags(absl::string_view file) { return absl::EndsWith(file, "server/main.cc"); }

// Sets flags by the file that the arguments name.
absl::Status SetFlagsByFile(const std::vector<std::string>& arguments) {
  const std::string path = FindConfig(arguments);
  if (path.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (HasFlags(flag->Filename())) names.emplace_back(name);
  }
  const absl::Status set = SetFlags(path, names);
  return absl::IsNotFound(set) ? Invalid("--config=", path, ": ", set.message()) : set;
}

int Run(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "trains and serves neural networks for remote clients.\n\n  gluond-server [--address=HOST:PORT] "
      "[--store_dir=FOLDER] ...");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = usage.contains_helpshort_flags = &HasFlags;
  usage.version_string = &Release;
  absl::SetFlagsUsageConfig(usage);
  SetLineOfNoThread(&LineOfRefusedStart);
  std::atexit([] {  // Abseil ends the process when it has printed what --help and --version want.
    const std::string why = WhyNotPrinted();
    if (why.empty()) return;
    LogRefusedStart(why);
    _exit(1);
  });
  if (const absl::Status set = SetFlagsByFile({argv + 1, argv + argc}); !set.ok()) {
    LogRefusedStart(set.message());
    return 1;
  }
  std::vector<char*> rest;
  for (int i = 1; i < argc; ++i) argv[i] = const_cast<char*>(WithValue(argv[i]));
  WithRefusalsOfFlags([&] { rest = absl::ParseCommandLine(argc, argv); });
  if (rest.size() > 1) {
    LogRefusedStart(absl::StrCat("'", rest[1], "' is no flag; --help lists them"));
    return 2;
  }
  // Child processes load them first: before there are threads.
  absl::StatusOr<std::vector<OperatorLibrary>> libraries = LoadOperatorLibraries(absl::GetFlag(FLAGS_operator_library));
  if (!libraries.ok()) {
    LogRefusedStart(libraries.status().message());
    return 1;
  }
  CatchSignals();
  LogGrpcToStderr();
  FreedMemory freed;
  const Sweeper sweeper("freed-memory", [&freed] { freed.Sweep(); });
  const absl::StatusOr<int> exit_status = Main(*std::move(libraries));
  if (!exit_status.ok()) LogRefusedStart(exit_status.status().message());
  FlushLogs(kLastWords);
  return exit_status.value_or(1);
}

}  // namespace
}  // namespace gluond::server

int main(int argc, char** argv) { return gluond::server::Run(argc, argv); }
