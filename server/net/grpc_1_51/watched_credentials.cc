#include "server/net/grpc_1_51/watched_credentials.h"

#include <string>

#include "grpc/grpc.h"

namespace gluond::server {
namespace {

class Watched final : public grpc::ServerCredentials {
 public:
  Watched(grpc_server_credentials* credentials, Arrivals& arrivals) : credentials_(credentials) {
    grpc_server_credentials_set_auth_metadata_processor(credentials, {&Process, nullptr, &arrivals});
  }
  ~Watched() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}  // It has one.

 private:
  static void Process(void* arrivals, grpc_auth_context*, const grpc_metadata*, size_t, grpc_process_auth_metadata_done_cb done,
                      void* call) {
    static_cast<Arrivals*>(arrivals)->Read();
    done(call, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> WatchedCredentials(grpc_server_credentials* credentials, Arrivals& arrivals) {
  return std::make_shared<Watched>(credentials, arrivals);
}

}  // namespace gluond::server
