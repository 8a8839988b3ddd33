#include "server/services/session_service.h"

#include "server/session/stream.h"

namespace gluond::server {

SessionService::SessionService(Runner& runner, Sessions& sessions)
    : RawService(runner, "gluond.v1.SessionService"), sessions_(sessions) {
  AddStream<v1::SessionRequest>("Run", this, &SessionService::Run);
}

Stream* SessionService::Run(const Method& method, Stream::Opening opening) {
  return SessionStream::Start(sessions_, runner(), method, opening);
}

}  // namespace gluond::server
