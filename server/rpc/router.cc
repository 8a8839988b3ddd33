#include "server/rpc/router.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// The client has made the method's name up; so many bytes of it are repeated to him.
constexpr size_t kLongest = 200;

class Refusal final : public Stream {
 public:
  Refusal(Peers& peers, const Opening& opening) : Stream(peers, opening) {
    Finish(absl::UnimplementedError(absl::StrCat("there is no method '", opening.context->method().substr(0, kLongest),
                                                 "'; gRPC's reflection lists those that there are")));
  }

 private:
  void OnRead(Slices*) override {}
  void OnCancelled() override {}
  void OnOver() override { delete this; }
};

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
  const auto row = rows_.find(context->method());
  Stream* const stream = row == rows_.end() ? new Refusal(peers_, {context, &unknown_})
                                            : row->second->start({context, row->second->counts.get()});
  return stream->reactor();
}

}  // namespace gluond::server
