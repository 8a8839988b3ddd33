#include "gluond/session.h"

#include <utility>

#include "client/cpp/session/core.h"
#include "client/cpp/session/local_server.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/wire.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {

absl::StatusOr<Session> Session::Connect(const std::string& address, Options options, const std::string& device) {
  GLUOND_ASSIGN_OR_RETURN(std::shared_ptr<SessionCore> core, SessionCore::Connect(address, std::move(options), device, nullptr));
  SessionCore::SetDefault(core);
  return Session(std::move(core));
}

absl::StatusOr<Session> Session::StartServer(Options options) {
  GLUOND_ASSIGN_OR_RETURN(std::shared_ptr<LocalServer> server, LocalServer::Start());
  const std::string address = server->address();
  GLUOND_ASSIGN_OR_RETURN(std::shared_ptr<SessionCore> core,
                          SessionCore::Connect(address, std::move(options), "", std::move(server)));
  SessionCore::SetDefault(core);
  return Session(std::move(core));
}

absl::StatusOr<Session> Session::Current() {
  GLUOND_ASSIGN_OR_RETURN(std::shared_ptr<SessionCore> core, SessionCore::Current());
  return Session(std::move(core));
}

void Session::SetDefault(const Session& session) { SessionCore::SetDefault(session.core_); }

absl::Status Session::WaitAll(Place place) const {
  return core_->pipeline().Request(CommandOf(v1::Command::kWaitAllFieldNumber, absl::string_view()), place).status();
}

void Session::Seed(uint64_t seed, Place place) const {
  v1::Command::Seed message;
  message.set_seed(seed);
  // A session that has ended tells it with the next value.
  core_->pipeline().Submit(CommandOf(v1::Command::kSeedFieldNumber, message), place).IgnoreError();
}

std::vector<std::string> Session::devices() const {
  const v1::SessionOpened& opened = core_->pipeline().opened();
  return {opened.devices().begin(), opened.devices().end()};
}

const std::string& Session::address() const { return core_->address(); }

absl::StatusOr<Client> Session::client() const { return core_->client(); }

SessionScope::SessionScope(const Session& session) : before_(SessionCore::Exchange(session.core())) {}

SessionScope::~SessionScope() { SessionCore::Exchange(std::move(before_)); }

}  // namespace gluond::client
