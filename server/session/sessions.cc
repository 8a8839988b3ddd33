#include "server/session/sessions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/describe_operator.h"
#include "server/codec/duration.h"
#include "server/custom/scope.h"
#include "server/identity/secret.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/tenant_names.h"
#include "server/session/stream.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

absl::Status EndedForRoom() {
  return absl::ResourceExhaustedError(
      "the session has ended to make room for others: its client was silent for longer than --session_lease_seconds; what it has "
      "saved is there");
}

std::string NameOf(const IdentityPtr& identity) { return identity == nullptr ? "" : identity->name; }

// Counts what limits have refused, and what was the server's fault, each failure when it is first told.
void CountFailures(const v1::Reply& reply, FailureLog& log) {
  for (const v1::Failure& failure : reply.failures()) {
    if (failure.told()) continue;
    if (const std::string flag = LimitOf(failure.status()); !flag.empty()) log.CountRefusal(flag);
    const auto code = static_cast<absl::StatusCode>(failure.status().code());
    if (LevelOf(code, ReasonOf(failure.status())) == LogLevel::kError) log.commands().WasServersFault(code);
  }
}

}  // namespace

Sessions::Sessions(const SessionProgram::Shared& shared, const Limits& limits, SessionProgramFactory create_program,
                   AuditLog& audit, FailureLog& log, Owners& owners)
    : shared_(shared),
      limits_(limits),
      create_program_(std::move(create_program)),
      audit_(audit),
      log_(log),
      owners_(owners),
      shares_("sessions", limits.max_sessions, "--max_sessions"),
      // A session has one, and another one that takes over.
      streams_("streams of sessions", 2 * limits.max_sessions, "twice --max_sessions") {}

absl::StatusOr<std::shared_ptr<Session>> Sessions::Open(const v1::OpenSession& open, const Stream& stream,
                                                        v1::SessionOpened* opened) {
  RETURN_IF_ERROR(CheckProtocol(open.protocol()));
  std::shared_ptr<Session> session;
  if (open.session().empty()) {
    ASSIGN_OR_RETURN(session, Create(open, stream));
  } else {
    ASSIGN_OR_RETURN(session, TakeUp(open.session(), stream));
  }
  opened->set_session(session->id());
  opened->set_resumed(!open.session().empty());
  ToProto(std::chrono::seconds(limits_.session_lease_seconds), opened->mutable_lease());
  opened->set_max_message_bytes(limits_.max_message_bytes);
  for (const Place* place : shared_.devices.offered()) opened->add_devices(place->device.ToString());
  opened->set_protocol(kProtocol);
  for (const char* feature : kFeatures) opened->add_features(feature);
  opened->set_registry_hash(RegistryHash());
  return session;
}

// A caller who has lost a role does not get the arrays that he had by it.
bool Sessions::IsOwner(const Entry& entry, const Stream& stream) {
  return NameOf(entry.owner) == NameOf(stream.caller()) && stream.reach().Covers(entry.reach);
}

absl::StatusOr<std::shared_ptr<Session>> Sessions::TakeUp(const std::string& id, const Stream& stream) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mu_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || !IsOwner(found->second, stream)) return SessionIsGone();
    session = found->second.session;
  }
  if (!session->Return()) return SessionIsGone();
  MutexLock lock(mu_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return SessionIsGone();
  if (!found->second.permit.holds()) {
    ASSIGN_OR_RETURN(found->second.permit, shares_.Enter(stream.peer(), 1));
  }
  found->second.owner = stream.caller();
  found->second.peer = stream.peer()->name();
  return session;
}

SessionChanged Sessions::ToAuditLog(const std::string& id, const Stream& stream) {
  if (!audit_.is_open()) return nullptr;
  return [this, id, method = stream.method().path, caller = NameOf(stream.caller()), opener = stream.peer()->name()](
             absl::string_view command, Audit audit, const std::string& target, absl::StatusCode code) {
    Audited audited = {method, code, caller, target, opener, /*request_id=*/"", audit, command};
    LookAt(id, [&audited](const Entry& entry) { audited.peer = entry.peer; });
    audit_.Tell(audited);
  };
}

SessionMay Sessions::AsksOwners(const std::string& id, const Stream& stream) {
  if (stream.caller() == nullptr) return nullptr;
  return [this, id, opener = stream.caller()](const google::protobuf::Message& command) {
    IdentityPtr caller = opener;
    LookAt(id, [&caller](const Entry& entry) { caller = entry.owner; });
    std::vector<Touched> touched;
    AddTouched(command, &touched);
    return owners_.May(caller, touched);
  };
}

absl::StatusOr<std::shared_ptr<Session>> Sessions::Create(const v1::OpenSession& open, const Stream& stream) {
  RETURN_IF_ERROR(CheckHost("OpenSession.host", open.host(), stream.reach()));
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckQuota(stream.reach().tenant()));
  }
  ASSIGN_OR_RETURN(Place* const place, shared_.devices.Find(open.device()));
  ASSIGN_OR_RETURN(const std::string id, NewSecret());
  Session::Options options;
  options.id = id;
  options.create_program = [this, place, client = open.client_id(), reach = stream.reach(), host = open.host(),
                            changed = ToAuditLog(id, stream), may = AsksOwners(id, stream),
                            cancellation = options.cancellation](Lane& lane, SessionProgram::Answer answer) {
    auto tell = [this, reach, answer = std::move(answer)](v1::Reply reply, Attachments attachments, int64_t bytes) {
      CountFailures(reply, log_);
      if (!reach.is_everything()) Unqualify(reach, &reply);
      answer(std::move(reply), std::move(attachments), bytes);
    };
    SessionProgram::Shared shared = shared_;
    shared.custom_host = shared.devices.custom_host_of(reach.owner());
    shared.changed = changed;
    shared.check_audit = [this] { return audit_.Check(); };
    shared.may = may;
    shared.client = client;
    shared.host = host;
    shared.cancellation = cancellation;
    return create_program_(shared, *place, lane, limits_, std::move(tell));
  };
  options.on_end = [this, id] {
    MutexLock lock(mu_);
    sessions_.erase(id);
  };
  options.on_away = [this, id] { LookAt(id, [](Entry& entry) { entry.permit = Shares::Permit(); }); };
  ASSIGN_OR_RETURN(Shares::Permit permit, shares_.Enter(stream.peer(), 1));
  MakeRoom();
  const auto session =
      std::make_shared<Session>(std::move(options), place->lanes->Take(), Budget::PartOf(shared_.devices.memory()), limits_);
  MutexLock lock(mu_);
  if (draining_) return Draining();
  RETURN_IF_ERROR(CheckQuota(stream.reach().tenant()));  // Others may have been opened meanwhile.
  sessions_[id] = {session, std::move(permit), stream.caller(), stream.method().access, stream.reach(), stream.peer()->name()};
  return session;
}

absl::Status Sessions::CheckQuota(const TenantPtr& tenant) const {
  const int64_t most = tenant == nullptr ? 0 : tenant->quotas().sessions;
  if (most == 0) return absl::OkStatus();
  const auto is_its = [&tenant](const auto& entry) { return entry.second.reach.tenant() == tenant; };
  const int64_t count = std::count_if(sessions_.begin(), sessions_.end(), is_its);
  if (count < most) return absl::OkStatus();
  return OverLimit("--tenants:sessions", "tenant '", tenant->name(), "' has ", count, " sessions, and its quota is sessions=", most,
                   "; end one");
}

std::vector<std::shared_ptr<Session>> Sessions::List() const {
  std::vector<std::shared_ptr<Session>> list;
  MutexLock lock(mu_);
  for (const auto& [id, session] : sessions_) list.push_back(session.session);
  return list;
}

std::vector<Sessions::Away> Sessions::ListAway(Session::Clock::time_point now) const {
  std::vector<Away> list;
  {
    MutexLock lock(mu_);
    for (const auto& [id, entry] : sessions_) list.push_back({entry.session, entry.reach.tenant(), {}});
  }
  std::erase_if(list, [now](Away& each) {
    std::optional<Session::Away> away = each.session->away(now);
    if (away.has_value()) each.away = *std::move(away);
    return !away.has_value();
  });
  std::sort(list.begin(), list.end(), [](const Away& a, const Away& b) { return a.away.since < b.away.since; });
  return list;
}

void Sessions::MakeRoom() {
  if (size() < limits_.max_sessions) return;
  const auto now = Session::Clock::now();
  for (const Away& each : ListAway(now)) {
    if (size() < limits_.max_sessions) return;
    each.session->EndIfAway(now, EndedForRoom());
  }
}

void Sessions::EndThoseOverLimit(Session::Clock::time_point now, const TenantPtr& tenant, std::vector<Away>* away) {
  const auto is_its = [&tenant](const Away& each) { return tenant == nullptr || each.tenant == tenant; };
  std::map<std::string, int64_t> over;  // By device: the bytes above the limit, or below it.
  for (const auto& place : shared_.devices.all()) {
    const int64_t limit = limits_.max_named_session_bytes > 0 ? limits_.max_named_session_bytes : place->budget->limit() / 4;
    over[place->device.ToString()] = -(tenant == nullptr ? limit : tenant->Most(&Quotas::saved_session_bytes, limit));
  }
  const auto add = [&over](const Away& each, int64_t sign) {
    for (const auto& [device, bytes] : each.away.bytes) over[device.ToString()] += sign * bytes;
  };
  for (const Away& each : *away) {
    if (is_its(each)) add(each, 1);
  }
  std::erase_if(*away, [&](const Away& each) {
    const auto& bytes = each.away.bytes;
    const bool helps = is_its(each) && std::any_of(bytes.begin(), bytes.end(), [&over](const auto& held) {
                         return held.second > 0 && over[held.first.ToString()] > 0;
                       });
    if (!helps || !each.session->EndIfAway(now, EndedForRoom())) return false;
    add(each, -1);
    return true;
  });
}

void Sessions::EndThoseOverLimit(Session::Clock::time_point now) {
  std::vector<Away> away = ListAway(now);
  std::set<TenantPtr> tenants;
  for (const Away& each : away) {
    if (each.tenant != nullptr) tenants.insert(each.tenant);
  }
  for (const TenantPtr& tenant : tenants) EndThoseOverLimit(now, tenant, &away);
  EndThoseOverLimit(now, nullptr, &away);
}

void Sessions::HoldUnless(absl::FunctionRef<absl::Status(Access wanted, const Identity& owner, const Reach& reach)> may_go_on) {
  std::vector<std::shared_ptr<Session>> to_hold;
  {
    MutexLock lock(mu_);
    for (const auto& [id, entry] : sessions_) {
      if (entry.owner != nullptr && !may_go_on(entry.wanted, *entry.owner, entry.reach).ok()) to_hold.push_back(entry.session);
    }
  }
  for (const auto& session : to_hold) session->Hold();
}

void Sessions::Sweep() {
  const auto now = Session::Clock::now();
  for (const auto& session : List()) session->Sweep(now);
  EndThoseOverLimit(now);
  for (const auto& stream : streams_.List()) stream->Sweep(now);
}

void Sessions::Drain() {
  {
    MutexLock lock(mu_);
    draining_ = true;
  }
  for (const auto& session : List()) session->Drain();
  for (const auto& stream : streams_.Drain()) stream->Drain();
}

void Sessions::End() {
  Drain();
  for (const auto& session : List()) session->End(Draining());
  for (const Place* place : shared_.devices.offered()) place->lanes->Drain();
}

int64_t Sessions::size() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(sessions_.size());
}

}  // namespace gluond::server
