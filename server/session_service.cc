#include "server/session_service.h"

#include "server/session_stream.h"

namespace gluond::server {

SessionService::SessionService(Runner& runner, Sessions& sessions)
    : RawService(runner, "gluond.v1.SessionService"), sessions_(sessions) {
  AddStream<v1::SessionRequest>("Run", this, &SessionService::Run);
}

RawService::RawStream* SessionService::Run(const Method& method, grpc::CallbackServerContext* context) {
  return SessionStream::Start(sessions_, runner(), method, context);
}

}  // namespace gluond::server
