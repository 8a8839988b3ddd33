#include "server/services/session_service.h"

#include <utility>
#include <vector>

#include "server/services/pages.h"
#include "server/session/stream.h"

namespace gluond::server {

SessionService::SessionService(Runner& runner, Sessions& sessions, SavedSessions& saved)
    : RawService(runner, "gluond.v1.SessionService"), sessions_(sessions), saved_(saved) {
  AddStream<v1::SessionRequest>("Run", this, &SessionService::Run);
  Add("ListSavedSessions", this, &SessionService::ListSavedSessions);
  Add("DeleteSavedSession", this, &SessionService::DeleteSavedSession);
}

std::shared_ptr<Stream> SessionService::Run(Stream::Opening opening) {
  return sessions_.streams().Start(sessions_, runner(), opening);
}

void SessionService::ListSavedSessions(Call<v1::ListSavedSessionsRequest, v1::ListSavedSessionsResponse> call) {
  std::vector<v1::SavedSession> saved = saved_.List();
  KeepThoseWithin(call.reach(), &saved, [](const auto& each) { return each.name(); });
  ASSIGN_OR_FINISH(call, const Page page, PageOf(call.request(), saved, [](const auto& each) { return each.name(); }));
  for (size_t i = page.begin; i < page.end; ++i) *call.response().add_sessions() = std::move(saved[i]);
  call.response().set_next_page_token(page.next);
  call.Finish();
}

void SessionService::DeleteSavedSession(Call<v1::DeleteSavedSessionRequest, v1::DeleteSavedSessionResponse> call) {
  saved_.Delete(call.request().name(), call.request().key(), [call](const absl::Status& status) { call.Finish(status); });
}

}  // namespace gluond::server
