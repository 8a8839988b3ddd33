// SessionService: the imperative API over one stream (proto/gluond/v1/session.proto). session/stream.h: gRPC's side of a stream;
// session/session.h: the session, which outlives it; session/program.h: the commands;
// durable/saved_sessions.h: what sessions have saved.

#ifndef SERVER_SERVICES_SESSION_SERVICE_H_
#define SERVER_SERVICES_SESSION_SERVICE_H_

#include "server/durable/saved_sessions.h"
#include "server/rpc/raw_service.h"
#include "server/session/sessions.h"

namespace gluond::server {

class SessionService final : public RawService {
 public:
  // `sessions` and `saved` outlive the service and `runner`.
  SessionService(Runner& runner, Sessions& sessions, SavedSessions& saved);

 private:
  std::shared_ptr<Stream> Run(Stream::Opening opening);

  void ListSavedSessions(Call<v1::ListSavedSessionsRequest, v1::ListSavedSessionsResponse> call);
  void DeleteSavedSession(Call<v1::DeleteSavedSessionRequest, v1::DeleteSavedSessionResponse> call);

  Sessions& sessions_;
  SavedSessions& saved_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_SESSION_SERVICE_H_
