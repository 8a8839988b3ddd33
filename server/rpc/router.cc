#include "server/rpc/router.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// The client has made the method's name up; so many bytes of it are repeated to him.
constexpr size_t kLongest = 200;

class Refusal final : public Stream {
 public:
  Refusal(Peers& peers, const Opening& opening, const absl::Status& why) : Stream(peers, opening) { Finish(why); }

 private:
  void OnRead(Slices*) override {}
  void OnCancelled() override {}
  void OnOver() override { delete this; }
};

absl::Status NoMethod(absl::string_view method) {
  return absl::UnimplementedError(absl::StrCat("there is no method '", method.substr(0, kLongest),
                                               "'; gRPC's reflection lists those that there are"));
}

}  // namespace

void Router::Add(const RawService& service) {
  for (const auto& row : service.rows()) rows_[row->method.path] = row.get();
}

void Router::RegisterAt(grpc::ServerBuilder& builder) {
  Arrivals::CountIn(arrivals_, builder);
  builder.RegisterCallbackGenericService(this);
}

grpc::ServerGenericBidiReactor* Router::CreateReactor(grpc::GenericCallbackServerContext* context) {
  arrivals_->Begin();
  absl::StatusOr<Gatekeeper::Admitted> caller = Gatekeeper::Admitted();
  if (gatekeeper_ != nullptr) caller = gatekeeper_->Admit(context->method(), *context);
  Reach reach = caller.ok() ? caller->reach : Reach();
  if (reach.tenant() != nullptr) {
    if (absl::Status taken = reach.tenant()->TakeRequest(); !taken.ok()) caller = std::move(taken);
  }
  const auto row = rows_.find(context->method());
  if (caller.ok() && row != rows_.end()) {
    return row->second->start({context, row->second->counts.get(), std::move(caller->identity), std::move(reach)})->reactor();
  }
  const absl::Status why = caller.ok() ? NoMethod(context->method()) : caller.status();
  CallCounts& counts = row == rows_.end() ? unknown_ : *row->second->counts;
  auto* const refusal = new Refusal(runner_.peers, {context, &counts, nullptr, std::move(reach)}, why);
  if (!caller.ok()) {
    runner_.log.Failed({.method = row == rows_.end() ? "" : row->first, .status = why, .peer = refusal->peer()->name()});
  }
  return refusal->reactor();
}

}  // namespace gluond::server
