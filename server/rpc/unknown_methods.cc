#include "server/rpc/unknown_methods.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"

namespace gluond::server {
namespace {

// The client has made the method's name up; the answer repeats so many bytes of it.
constexpr size_t kLongest = 200;

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  Refusal(Peers& peers, grpc::GenericCallbackServerContext* context)
      : peers_(peers), guest_(peers, context->c_call()) {
    guest_.Leave();
    Finish(ToGrpc(absl::UnimplementedError(absl::StrCat("there is no method '", context->method().substr(0, kLongest),
                                                        "'; gRPC's reflection lists those that there are"))));
  }

 private:
  void OnCancel() override { peers_.WasReset(*guest_.peer()); }
  void OnDone() override { delete this; }

  Peers& peers_;
  Guest guest_;
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  return new Refusal(peers_, context);
}

}  // namespace gluond::server
