// SessionService: the imperative API over one stream (proto/gluond/v1/session.proto). session/stream.h: gRPC's side of a stream;
// session/session.h: the session, which outlives it; session/program.h: the commands.

#ifndef SERVER_SERVICES_SESSION_SERVICE_H_
#define SERVER_SERVICES_SESSION_SERVICE_H_

#include "server/rpc/raw_service.h"
#include "server/session/sessions.h"

namespace gluond::server {

class SessionService final : public RawService {
 public:
  // `sessions` outlives the service and `runner`.
  SessionService(Runner& runner, Sessions& sessions);

 private:
  Stream* Run(const Method& method, Stream::Opening opening);

  Sessions& sessions_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_SESSION_SERVICE_H_
