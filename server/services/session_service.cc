// SessionService: the imperative API over one stream (proto/gluond/v1/session.proto). session/stream.h: gRPC's side of a stream;
// session/session.h: the session, which outlives it; session/program.h: the commands;
// durable/saved_sessions.h: what sessions have saved.

#include "server/services/services.h"

#include <utility>

#include "server/durable/saved_sessions.h"
#include "server/services/pages.h"
#include "server/session/sessions.h"
#include "server/session/stream.h"

namespace gluond::server {
namespace {

class SessionService final : public RawService {
 public:
  SessionService(Runner& runner, Sessions& sessions, SavedSessions& saved)
      : RawService(runner, "gluond.v1.SessionService"), sessions_(sessions), saved_(saved) {
    AddStream<v1::SessionRequest>("Run", this, &SessionService::Run);
    Add("ListSavedSessions", this, &SessionService::ListSavedSessions);
    Add("DeleteSavedSession", this, &SessionService::DeleteSavedSession);
  }

 private:
  std::shared_ptr<Stream> Run(Stream::Opening opening) { return sessions_.streams().Start(sessions_, runner(), opening); }

  void ListSavedSessions(Call<v1::ListSavedSessionsRequest, v1::ListSavedSessionsResponse> call) {
    const auto name_of = [](const v1::SavedSession& each) { return each.name(); };
    FinishWithNames(call, saved_.List(), name_of,
                    [&call](v1::SavedSession& each) { *call.response().add_sessions() = std::move(each); });
  }

  void DeleteSavedSession(Call<v1::DeleteSavedSessionRequest, v1::DeleteSavedSessionResponse> call) {
    saved_.Delete(call.request().name(), call.request().key(), [call](const absl::Status& status) { call.Finish(status); });
  }

  Sessions& sessions_;
  SavedSessions& saved_;
};

}  // namespace

std::unique_ptr<RawService> NewSessionService(Runner& runner, Sessions& sessions, SavedSessions& saved) {
  return std::make_unique<SessionService>(runner, sessions, saved);
}

}  // namespace gluond::server
