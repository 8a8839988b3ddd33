#include "server/group/join_messages.h"

#include <string>
#include <utility>
#include <variant>

#include "engine/core/error_info.h"
#include "engine/core/text.h"
#include "server/rpc/grpc_status.h"

namespace gluond::server {
namespace {

void Set(const Standing& standing, v1::GroupStanding* proto) {
  proto->set_incarnation(standing.incarnation);
  proto->set_applied(standing.applied);
  if (standing.crc.has_value()) proto->set_crc(*standing.crc);
}

Standing Get(const v1::GroupStanding& proto) {
  return {proto.incarnation(), proto.applied(), proto.has_crc() ? std::optional(proto.crc()) : std::nullopt};
}

void Set(const FromMember::Hello& hello, v1::JoinRequest* proto) {
  proto->mutable_hello()->set_process(hello.process);
  proto->mutable_hello()->set_fingerprint(hello.fingerprint);
}
void Set(const Standing& standing, v1::JoinRequest* proto) { Set(standing, proto->mutable_standing()); }
void Set(const FromMember::Ready& ready, v1::JoinRequest* proto) { proto->mutable_ready()->set_generation(ready.generation); }
void Set(const FromMember::Computed& computed, v1::JoinRequest* proto) {
  proto->mutable_computed()->set_generation(computed.generation);
  SetError(computed.status, proto->mutable_computed());
}
void Set(const FromMember::Broken& broken, v1::JoinRequest* proto) {
  proto->mutable_broken()->set_generation(broken.generation);
  proto->mutable_broken()->set_message(broken.text);
  if (broken.rank.has_value()) proto->mutable_broken()->set_rank(*broken.rank);
}
void Set(const FromMember::Failed& failed, v1::JoinRequest* proto) { SetError(failed.status, proto->mutable_failed()); }
void Set(FromMember::Leaving, v1::JoinRequest* proto) { proto->mutable_leaving(); }
void Set(Heartbeat, v1::JoinRequest* proto) { proto->mutable_heartbeat(); }

void Set(FromLeader::Prepare, v1::JoinResponse* proto) { proto->mutable_prepare(); }
void Set(const FromLeader::State& state, v1::JoinResponse* proto) {
  Set(state.standing, proto->mutable_state()->mutable_standing());
}
void Set(const FromLeader::Form& form, v1::JoinResponse* proto) {
  proto->mutable_form()->set_generation(form.generation);
  proto->mutable_form()->set_rank(form.rank);
  proto->mutable_form()->set_size(form.size);
  proto->mutable_form()->set_spares(form.spares);
}
void Set(const FromLeader::Command& command, v1::JoinResponse* proto) { proto->mutable_step()->set_number(command.number); }
void Set(const FromLeader::Apply& apply, v1::JoinResponse* proto) {
  proto->mutable_apply()->set_number(apply.number);
  proto->mutable_apply()->set_wants_crc(apply.wants_crc);
}
void Set(FromLeader::End, v1::JoinResponse* proto) { proto->mutable_end(); }
void Set(Heartbeat, v1::JoinResponse* proto) { proto->mutable_heartbeat(); }

// Texts of errors go to people.
constexpr size_t kLongestText = 4000;

// Another process' error says nothing about who a client is.
absl::StatusCode CodeOf(int code) {
  const auto known = static_cast<absl::StatusCode>(code);
  if (code < 0 || known > absl::StatusCode::kUnauthenticated) return absl::StatusCode::kUnknown;
  const bool is_of_client = known == absl::StatusCode::kUnauthenticated || known == absl::StatusCode::kPermissionDenied;
  return is_of_client ? absl::StatusCode::kInternal : known;
}

template <class Proto, class Message>
Proto Make(const Message& message) {
  Proto proto;
  std::visit([&proto](const auto& word) { Set(word, &proto); }, message);
  return proto;
}

}  // namespace

void SetFacts(const absl::Status& status, const std::function<v1::ErrorFacts*()>& facts) {
  if (const std::optional<ErrorInfo> info = InfoOf(status); info.has_value()) {
    facts()->set_reason(info->reason);
    for (const auto& [key, value] : info->metadata) (*facts()->mutable_facts())[key] = value;
  }
  if (const auto traceback = status.GetPayload(kTraceback); traceback.has_value()) {
    facts()->set_traceback(std::string(*traceback));
  }
}

absl::Status ErrorOf(int code, const std::string& message, const v1::ErrorFacts& facts) {
  absl::Status status(CodeOf(code), message.size() > kLongestText ? Excerpt(message, kLongestText) : message);
  if (status.ok()) return status;
  if (!facts.reason().empty()) {
    status = WithInfo(std::move(status), facts.reason(), {facts.facts().begin(), facts.facts().end()});
  }
  if (!facts.traceback().empty()) status.SetPayload(kTraceback, absl::Cord(facts.traceback()));
  return status;
}

v1::JoinRequest ToProto(const FromMember::Any& message) { return Make<v1::JoinRequest>(message); }
v1::JoinResponse ToProto(const FromLeader::Any& message) { return Make<v1::JoinResponse>(message); }

std::optional<FromMember::Any> FromProto(const v1::JoinRequest& message) {
  switch (message.message_case()) {
    case v1::JoinRequest::kHello: return FromMember::Hello{message.hello().process(), message.hello().fingerprint()};
    case v1::JoinRequest::kStanding: return Get(message.standing());
    case v1::JoinRequest::kReady: return FromMember::Ready{message.ready().generation()};
    case v1::JoinRequest::kComputed: return FromMember::Computed{message.computed().generation(), ErrorOf(message.computed())};
    case v1::JoinRequest::kBroken: {
      const auto& broken = message.broken();
      return FromMember::Broken{broken.generation(), Excerpt(broken.message(), kLongestText),
                                broken.has_rank() ? std::optional(broken.rank()) : std::nullopt};
    }
    case v1::JoinRequest::kFailed: {
      const absl::Status status = ErrorOf(message.failed());
      return FromMember::Failed{status.ok() ? absl::UnknownError("the member gives no reason") : status};
    }
    case v1::JoinRequest::kLeaving: return FromMember::Leaving();
    case v1::JoinRequest::kHeartbeat: return Heartbeat();
    case v1::JoinRequest::kMeeting:
    case v1::JoinRequest::kAsk:
    case v1::JoinRequest::kWithdraw:
    case v1::JoinRequest::kFetch:
    case v1::JoinRequest::kCopied:
    case v1::JoinRequest::MESSAGE_NOT_SET: break;
  }
  return std::nullopt;
}

std::optional<FromLeader::Any> FromProto(const v1::JoinResponse& message) {
  switch (message.message_case()) {
    case v1::JoinResponse::kPrepare: return FromLeader::Prepare();
    case v1::JoinResponse::kState: return FromLeader::State{Get(message.state().standing())};
    case v1::JoinResponse::kForm:
      return FromLeader::Form{message.form().generation(), message.form().rank(), message.form().size(), message.form().spares()};
    case v1::JoinResponse::kStep: return FromLeader::Command{message.step().number()};
    case v1::JoinResponse::kApply: return FromLeader::Apply{message.apply().number(), message.apply().wants_crc()};
    case v1::JoinResponse::kEnd: return FromLeader::End();
    case v1::JoinResponse::kHeartbeat: return Heartbeat();
    case v1::JoinResponse::kPart:
    case v1::JoinResponse::kMeeting:
    case v1::JoinResponse::kAnswer:
    case v1::JoinResponse::kDataset:
    case v1::JoinResponse::kDatasetPart:
    case v1::JoinResponse::MESSAGE_NOT_SET: break;
  }
  return std::nullopt;
}

}  // namespace gluond::server
